"""A direct stream whose number of channels changes while it runs, and the times of its batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headgate as hg
from headgate import agg
from headgate.control.guard import Guard
from headgate_lab.bench.rescale.drawn import Drawn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.spark.direct.query import Query

FEWEST = 2
"""The number of channels between two changes."""
QUIET = 16
"""Batches without a rescale between two."""
AFTER = 4
"""Batches after a new table has taken effect that still count as those of the rescale."""
ENDLESS = 100_000
LOOK_S = 0.02


@dataclass(frozen=True)
class Kind:
    """A kind of change: to how many channels and back, and whether it is announced."""

    name: str
    channels: int
    announced: bool = True


TWICE = Kind("2 to 4 channels", 4)
MOVES = Kind("2 to 3 channels", 3)
AT_ONCE = Kind("2 to 3 channels at once", 3, announced=False)


@dataclass(frozen=True)
class Size:
    """Keys, rows of a batch that loads them, rows of a measured batch, and the first batches that do not count."""

    keys: int
    load: int
    rows: int
    warm: int
    changes: Mapping[Kind, int]
    """How often the number of channels changes, by kind."""


@dataclass
class Times:
    """The times of batches in ms, between changes and in them, and how many batches ahead they were announced."""

    quiet: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)
    notice: list[float] = field(default_factory=list)


def measure(spark: SparkSession, size: Size, work: Path) -> dict[Kind, Times]:
    """Load the keys, then change the number of channels again and again."""
    source = Drawn(size.keys, size.load, size.rows, ENDLESS)
    rows = hg.read(spark).source(source)
    keyed = rows.key_by("user", routing=hg.Routing(policy="static", channels=FEWEST))
    counted = keyed.aggregate(n=agg.count(), total=agg.sum("amount"), most=agg.max("amount"))
    written = counted.write(hg.sinks.Parquet(str(work / "out")))
    times: dict[Kind, Times] = {}
    with written.start(str(work / "checkpoint"), max_rows=max(size.rows, size.load)) as query:
        watched = _Watched(query)
        watched.until(source.loading + size.warm)
        opened = query.stages[0].opened
        assert opened is not None
        loop = opened.loop
        for kind, changes in size.changes.items():
            found = times[kind] = Times()
            loop.guard = Guard() if kind.announced else Guard(notice_batches=0)
            for number in range(changes):
                found.quiet += watched.until(watched.last + QUIET)[-QUIET:]
                notice, during = watched.rescale(FEWEST if number % 2 else kind.channels)
                found.during += during
                found.notice.append(notice)
        query.stop()
    return times


class _Watched:
    """Follows the batches of a query."""

    def __init__(self, query: Query) -> None:
        self.query, self.times = query, dict[int, float]()

    @property
    def last(self) -> int:
        return max(self.times, default=-1)

    def until(self, batch: int) -> list[float]:
        """Wait until a batch is done; the times of all batches so far."""
        while self.last < batch:
            self.query.await_end(LOOK_S)
            self.times |= {one.batch: one.batch_ms for one in self.query.progress}
        return [self.times[number] for number in sorted(self.times)]

    def rescale(self, channels: int) -> tuple[int, list[float]]:
        """Ask for a number of channels; how many batches ahead it was announced, and the times from the batch after
        the decision to some after the table took effect.
        """
        before = self._newest().version
        self.query.rescale(channels)
        while self._newest().version == before:
            self.query.await_end(LOOK_S)
        table = self._newest()
        self.until(table.from_batch + AFTER)
        made = (entry.decision for entry in self.query.journal()[0] if entry.decision.changed)
        change = next(decision for decision in made if decision.table.version == table.version)
        window = range(change.batch + 1, table.from_batch + AFTER + 1)
        return change.notice, [self.times[number] for number in window]

    def _newest(self) -> Any:
        opened = self.query.stages[0].opened
        assert opened is not None
        return opened.loop.table
