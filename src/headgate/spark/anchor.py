"""Sticky channels: a channel runs on the same executor in every batch,
without any code of ours in the JVM.

An *anchor* is a cached DataFrame of one row per channel, partitioned as the exchange partitions. Joining
the routed batch to it on the partition adds no shuffle, and makes the executor that holds its anchor block
the preferred location of every task. With one executor no anchor is needed, and none is made. The tasks
that compute the anchor sleep for a moment, so that no executor takes two rounds of tasks while another
takes none. When the executors change, or the channels are spread unevenly, the stage makes a new anchor.

Nobody can say where the blocks of an anchor will be, only see it afterwards. So a channel has a *seat*, the
partition on which it runs, and the seats of a new anchor are dealt such that channels stay where they were.
Anchors are kept by their number of channels, and one can be made before it is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.spark.inside import executor_count
from headgate.spark.session import is_connect
from headgate.storage.bin_cache import executor_identity

CHANNEL = "__headgate_channel"
HOLDS_MS = (40, 250)
"""How long the tasks of an anchor sleep, in the first attempt and in the second."""
KEPT = 4
"""So many anchors are kept."""
Blocks = tuple[DataFrame, tuple[str, ...]]


def executors(spark: SparkSession) -> int:
    """The number of executors of the application, at least one (in local mode the driver is the executor)."""
    if is_connect(spark):
        return 1  # nobody can know
    return executor_count(spark)


def this_executor() -> str:
    """The executor of the task that runs this, by a name that no other executor has."""
    host, process = executor_identity()
    return f"{host}/{process}"


def seated(near: Sequence[str], places: Sequence[str]) -> tuple[int, ...]:
    """The seat of each channel. `places` are the executors of the seats, `near` those on which channels should be.

    A channel gets a seat on its executor if there is one left; the others take the seats that remain.

    >>> seated(["b", "a"], ["a", "b", "a", "b"])
    (1, 0, 2, 3)
    """
    free, seats = dict.fromkeys(range(len(places))), dict[int, int]()
    for channel, place in enumerate(near[: len(places)]):
        seat = next((seat for seat in free if places[seat] == place), None)
        if seat is not None:
            seats[channel] = seat
            del free[seat]
    left = iter(free)
    return tuple(seats[c] if c in seats else next(left) for c in range(len(places)))


@dataclass(frozen=True)
class Seating:
    """An anchor in force: its frame, the executor of each seat, and the seat of each channel."""

    frame: DataFrame
    places: tuple[str, ...]
    seats: tuple[int, ...]

    @property
    def place_of(self) -> list[str]:
        """The executor of each channel."""
        return [self.places[seat] for seat in self.seats]

    def seat(self, channel: Column) -> Column:
        """The seat of a channel, as a column."""
        if self.seats == tuple(range(len(self.seats))):
            return channel
        return F.get(F.split(F.lit(",".join(map(str, self.seats))), ",").cast("array<int>"), channel)

    def joined(self, routed: DataFrame) -> DataFrame:
        """Rows that are partitioned by the column `CHANNEL`, which has their seats, each partition on the
        executor of its seat.
        """
        return routed.join(self.frame.hint("shuffle_hash"), CHANNEL)


class Anchor:
    """The anchors of a stage, if any."""

    def __init__(self) -> None:
        self._made: dict[int, Seating] = {}
        self._making: dict[int, Future[Blocks]] = {}
        self._executors = 1
        self._where: list[str] = []
        self._near: dict[int, Sequence[str]] = {}
        self.casts = 0

    def prepare(self, spark: SparkSession, channels: int) -> Seating | None:
        """The anchor for this many channels, made if necessary; None if there is only one executor."""
        count = executors(spark)
        if count != self._executors:
            self._drop(*self._made)
            self._executors = count
        if count == 1:
            return None
        if channels not in self._made:
            making = self._making.pop(channels, None)
            frame, places = _cast(spark, channels, count) if making is None else making.result()
            self._drop(*list(self._made)[: 1 - KEPT])
            self._made[channels] = Seating(
                frame, places, seated(self._near.get(channels, self._where), places)
            )
            self.casts += 1
        return self._made[channels]

    def places(self, spark: SparkSession, near: Sequence[str]) -> list[str]:
        """The executors of as many channels as `near` has, each where `near` says if there is a seat for it. It
        is empty if there is only one executor, or while the anchor is made, which happens in the background.
        """
        channels = len(near)
        self._near[channels] = near
        if channels not in self._made and executors(spark) == self._executors > 1:
            if channels not in self._making:
                self._making[channels] = _in_background(_cast, spark, channels, self._executors)
            if not self._making[channels].done():
                return []
        seating = self.prepare(spark, channels)
        if seating is None:
            return []
        if channels != len(self._where):  # nobody sits there yet
            seating = self._made[channels] = replace(seating, seats=seated(near, seating.places))
        return seating.place_of

    def _drop(self, *counts: int) -> None:
        for count in counts:
            self._made.pop(count).frame.unpersist()

    def observe(self, places: list[str]) -> None:
        """Take note of where the channels ran. Anchors that no longer fit are made again when they are needed."""
        if set(places) - set(self._where) and self._where:
            self._drop(*(count for count in self._made if count != len(places)))
        self._where = self._near[len(places)] = places
        seating = self._made.get(len(places))
        if seating is not None and not _even(places, self._executors):
            self._drop(len(places))
        elif seating is not None:  # an executor may have taken the place of another
            found = dict(zip(seating.seats, places, strict=True))
            self._made[len(places)] = replace(seating, places=tuple(found[seat] for seat in sorted(found)))


def _cast(spark: SparkSession, channels: int, executors: int) -> Blocks:
    """A new anchor, and the executors that hold its blocks."""
    apart = spark.newSession()  # its settings are its own: another thread may use the session's meanwhile
    apart.conf.set("spark.sql.adaptive.enabled", "false")
    for hold_ms in HOLDS_MS:
        ids = apart.range(channels).select(F.col("id").cast("int").alias(CHANNEL))
        sleep = F.reflect(F.lit("java.lang.Thread"), F.lit("sleep"), F.lit(hold_ms).cast("long"))
        made = ids.repartitionById(channels, F.col(CHANNEL)).select(CHANNEL, sleep.alias("held"))
        found = made.persist().mapInArrow(_places, f"{CHANNEL} int, place string").collect()
        places = tuple(place for _, place in sorted(map(tuple, found)))
        if _even(places, executors):
            break
        if hold_ms != HOLDS_MS[-1]:
            made.unpersist()
    return made, places


def _even(places: Sequence[str], executors: int) -> bool:
    counts = Counter(places)
    least = min(counts.values()) if len(counts) >= executors else 0
    return max(counts.values()) - least <= 1 or len(places) < executors


def _in_background(function: Callable[..., Blocks], *arguments: Any) -> Future[Blocks]:
    pool = ThreadPoolExecutor(1, thread_name_prefix="headgate-anchor")
    future = pool.submit(function, *arguments)
    pool.shutdown(wait=False)
    return future


def _places(seats: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in seats:
        here = pa.array([this_executor()] * batch.num_rows, pa.string())
        yield pa.RecordBatch.from_arrays([batch.column(0), here], [CHANNEL, "place"])
