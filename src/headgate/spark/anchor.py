"""Sticky channels: a channel runs on the same executor in every batch,
without any code of ours in the JVM.

An *anchor* is a DataFrame of one row per channel, partitioned as the exchange partitions. Joining the
routed batch to it on the partition adds no shuffle, and makes the executor that its partition prefers the
preferred location of every task. With one executor no anchor is needed, and none is made. Anchors are kept
by their number of channels. When the executors change, the stage makes a new one.

An anchor is *placed*: its rows name the executors that they prefer, and nothing runs to make it
(`inside.placed_rows`). Channels are dealt evenly, such that they stay where they were. Spark's names of
executors are not ours; which belongs to which is seen from where channels ran.

Where Spark lacks that interface, an anchor is *cast*: a cached DataFrame, whose blocks are where its tasks
ran. They sleep for a moment, so that no executor takes two rounds of tasks while another takes none. Nobody
can say where the blocks will be, only see it afterwards. So a channel has a *seat*, the partition on which
it runs, and the seats of a new anchor are dealt such that channels stay where they were. If channels turn
out to be spread unevenly, the stage casts again. An anchor can be cast before it is needed.
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

from headgate.spark.inside import executor_count, executor_ids, executor_locations, placed_rows
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


def dealt(near: Sequence[str], channels: int, executors: Sequence[str]) -> tuple[str, ...]:
    """The executor of each channel: evenly, each where `near` says if there is room. `near` may be shorter, and may name
    what is no executor.

    >>> dealt(["b", "a", "b", "b"], 4, ["a", "b"])
    ('b', 'a', 'b', 'a')
    """
    wanted = Counter(place for place in near[:channels] if place in executors)
    each, more = divmod(channels, len(executors))
    first = sorted(executors, key=lambda place: -wanted[place])
    room = {place: each + (rank < more) for rank, place in enumerate(first)}
    found: list[str] = []
    for place in [*near[:channels], *[""] * (channels - len(near))]:
        found.append(place if room.get(place) else "")
        if found[-1]:
            room[place] -= 1
    left = (place for turn in range(each + 1) for place in executors if room[place] > turn)
    return tuple(place or next(left) for place in found)


@dataclass(frozen=True)
class Seating:
    """An anchor in force: its frame, the executor of each seat, and the seat of each channel."""

    frame: DataFrame
    places: tuple[str, ...]
    seats: tuple[int, ...]
    locations: tuple[str, ...] = ()
    """If it is placed: the executor of each seat, by Spark's name."""

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
        self._ids: tuple[str, ...] = ()
        self._locations: tuple[str, ...] = ()
        self._names: dict[str, str] = {}
        self._where: list[str] = []
        self._near: dict[int, Sequence[str]] = {}
        self.casts = 0

    def prepare(self, spark: SparkSession, channels: int) -> Seating | None:
        """The anchor for this many channels, made if necessary; None if there is only one executor."""
        if not self._several(spark):
            return None
        if channels not in self._made:
            near = self._near.get(channels, self._where)
            made = self._placed(spark, channels, near)
            if made is None:
                making = self._making.pop(channels, None)
                frame, places = _cast(spark, channels, self._executors) if making is None else making.result()
                made = Seating(frame, places, seated(near, places))
            self._drop(*list(self._made)[: 1 - KEPT])
            self._made[channels] = made
            self.casts += 1
        return self._made[channels]

    def places(self, spark: SparkSession, near: Sequence[str]) -> list[str]:
        """The executors of as many channels as `near` has, each where `near` says if there is a seat for it. It
        is empty if there is only one executor, or they are not known yet, or while an anchor is cast, which
        happens in the background.
        """
        channels = len(near)
        self._near[channels] = near
        several = self._several(spark)
        if several and channels not in self._made and not self._locations:
            if channels not in self._making:
                self._making[channels] = _in_background(_cast, spark, channels, self._executors)
            if not self._making[channels].done():
                return []
        seating = self.prepare(spark, channels)
        if seating is None:
            return []
        if channels != len(self._where):  # nobody sits there yet
            moved = replace(seating, seats=seated(near, seating.places))
            if seating.locations:
                moved = self._placed(spark, channels, near, seating) or seating
            seating = self._made[channels] = moved
        return [] if "" in seating.places else seating.place_of

    def _several(self, spark: SparkSession) -> bool:
        """Look for executors, and forget the anchors of others; whether there are several."""
        count = executors(spark)
        ids = executor_ids(spark) if count > 1 else ()
        if (count, ids) != (self._executors, self._ids):
            self._drop(*self._made)
            self._executors, self._ids = count, ids
            self._locations = executor_locations(spark, ids)
        return count > 1

    def _placed(
        self, spark: SparkSession, channels: int, near: Sequence[str], made: Seating | None = None
    ) -> Seating | None:
        """An anchor that names its executors, or the one that is `made` if it has the same; None if Spark cannot."""
        if not self._locations:
            return None
        known = {place: location for location, place in self._names.items()}
        wanted = [known.get(place, "") for place in near]
        locations = dealt(wanted, channels, self._locations)
        if made is not None and locations == made.locations:
            return made
        apart = spark.newSession()  # as for a cast anchor
        apart.conf.set("spark.sql.adaptive.enabled", "false")
        frame = placed_rows(apart, _rows(apart, channels), locations)
        if frame is None:
            self._locations = ()
            return None
        places = tuple(self._names.get(location, "") for location in locations)
        return Seating(frame, places, tuple(range(channels)), locations)

    def _drop(self, *counts: int) -> None:
        for count in counts:
            dropped = self._made.pop(count)
            if not dropped.locations:
                dropped.frame.unpersist()

    def observe(self, places: list[str]) -> None:
        """Take note of where the channels ran. Anchors that no longer fit are made again when they are needed."""
        seating = self._made.get(len(places))
        if seating is not None and seating.locations:
            self._names |= named(seating.locations, places)
            self._made = {count: replace(one, places=self._named(one)) for count, one in self._made.items()}
        elif set(places) - set(self._where) and self._where:
            self._drop(*(count for count in self._made if count != len(places)))
        self._where = self._near[len(places)] = places
        if seating is None or seating.locations:
            return
        if not _even(places, self._executors):
            self._drop(len(places))
        else:  # an executor may have taken the place of another
            found = dict(zip(seating.seats, places, strict=True))
            self._made[len(places)] = replace(seating, places=tuple(found[seat] for seat in sorted(found)))

    def _named(self, seating: Seating) -> tuple[str, ...]:
        return tuple(self._names.get(location, "") for location in seating.locations) or seating.places


def named(locations: Sequence[str], places: Sequence[str]) -> dict[str, str]:
    """Our name of each of Spark's executors, from where the channels ran that preferred it. Spark may run a task
    elsewhere; where that leaves a doubt, there is no name.

    >>> named(["executor_h_0", "executor_h_1", "executor_h_0"], ["h/7", "h/9", "h/7"])
    {'executor_h_0': 'h/7', 'executor_h_1': 'h/9'}
    """
    seen = set(zip(locations, places, strict=True))
    at, of = Counter(location for location, _ in seen), Counter(place for _, place in seen)
    return {location: place for location, place in sorted(seen) if at[location] == of[place] == 1}


def _rows(spark: SparkSession, channels: int) -> DataFrame:
    """A row for each seat, on its partition."""
    ids = spark.range(channels).select(F.col("id").cast("int").alias(CHANNEL))
    return ids.repartitionById(channels, F.col(CHANNEL))


def _cast(spark: SparkSession, channels: int, executors: int) -> Blocks:
    """A new anchor, and the executors that hold its blocks."""
    apart = spark.newSession()  # its settings are its own: another thread may use the session's meanwhile
    apart.conf.set("spark.sql.adaptive.enabled", "false")
    for hold_ms in HOLDS_MS:
        sleep = F.reflect(F.lit("java.lang.Thread"), F.lit("sleep"), F.lit(hold_ms).cast("long"))
        made = _rows(apart, channels).select(CHANNEL, sleep.alias("held"))
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
