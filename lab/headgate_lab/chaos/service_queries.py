"""The queries of a service in a history, and what their results must be, from the rows alone.

The n-th row of a key has the value `1 << n`. Rows of even keys come from one source, and those of odd keys
from another, which only joins read. Times grow from batch to batch, so the results of each batch are fixed
by its rows and by those before it: one function of a few lines knows them for each kind of query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from headgate_lab.chaos.source import Row

SOURCES = ("first", "second")
COLUMNS = {"k": "bigint", "v": "bigint"}
DELAY_S, WINDOW_S, LAST, BEFORE_S, AFTER_S = 1, 4, 3, 3, 1
SECOND = 1_000_000
NEVER = -(1 << 60)
KINDS = ("rows", "windows", "last", "join")
Result = tuple[int, ...]
"""A result's time (of a window, its start) in seconds, and its values."""


@dataclass(frozen=True)
class Asked:
    """A query that somebody registers: its kind, and the keys that it takes (those below `below`)."""

    kind: str
    below: int

    @property
    def text(self) -> str:
        """The SQL."""
        source, other = SOURCES
        where = f"WHERE k < {self.below}"
        if self.kind == "rows":
            return f"SELECT k, v FROM {source} {where}"
        if self.kind == "join":
            bound = f"a.time - INTERVAL '{BEFORE_S} seconds' AND a.time + INTERVAL '{AFTER_S} seconds'"
            joined = f"{source} a JOIN {other} b ON b.time BETWEEN {bound}"
            return f"SELECT a.k, a.v, b.k AS l, b.v AS w FROM {joined} WHERE a.k < {self.below}"
        window = f"TUMBLE(time, INTERVAL '{WINDOW_S} seconds')" if self.kind == "windows" else ""
        grouped = f"GROUP BY k, {window}" if window else f"GROUP BY k, LAST {LAST} ROWS"
        return f"SELECT k, sum(v) AS s, count(*) AS n FROM {source} {where} {grouped}"


@dataclass(frozen=True)
class Query:
    """A query that runs: it sees results from batch `since` on, over rows from batch `born` on."""

    number: int
    asked: Asked
    since: int
    born: int


class Rows:
    """The rows of every batch, as Spark's records have them."""

    def __init__(self, planned: Sequence[Sequence[Row]]) -> None:
        self._planned = planned

    def expected(self, query: Query, batch: int) -> list[Result]:
        """The results of a query in a batch, in order."""
        return sorted({"rows": self._plain, "windows": self._windows, "last": self._last, "join": self._join}[
            query.asked.kind
        ](query, batch))  # fmt: skip

    def _of(self, batch: int, source: int = 0) -> list[tuple[int, int, int]]:
        """(time in seconds, key, value) of the rows of a source in a batch."""
        rows = self._planned[batch] if 0 <= batch < len(self._planned) else ()
        return [(t // SECOND, k, v) for k, v, t in rows if k % 2 == source]

    def _upto(self, batch: int) -> int:
        """The latest time of the first source up to a batch."""
        return max((t for b in range(batch + 1) for t, _, _ in self._of(b)), default=NEVER)

    def _taken(self, query: Query, first: int, last: int) -> list[tuple[int, int, int]]:
        asked = query.asked
        return [r for b in range(first, last + 1) for r in self._of(b) if r[1] < asked.below]

    def _plain(self, query: Query, batch: int) -> Iterator[Result]:
        yield from self._taken(query, batch, batch)

    def _marks(self, batch: int) -> tuple[int, int]:
        """The watermark before and after a batch."""
        return self._upto(batch - 1) - DELAY_S, self._upto(batch) - DELAY_S

    def _windows(self, query: Query, batch: int) -> Iterator[Result]:
        old, new = self._marks(batch)
        began = self._upto(query.since - 1)
        sums: dict[tuple[int, int], int] = {}
        for t, k, v in self._taken(query, 0, batch):
            at = t // WINDOW_S * WINDOW_S
            if old < at + WINDOW_S <= new and at > began:
                sums[at, k] = sums.get((at, k), 0) + v
        for (at, k), total in sums.items():
            yield at, k, total, total.bit_count()

    def _last(self, query: Query, batch: int) -> Iterator[Result]:
        old, new = self._marks(batch)
        rows = sorted(self._taken(query, query.born, batch))
        for number, (t, k, _) in enumerate(rows):
            if old <= t < new:
                mine = [v for _, key, v in rows[: number + 1] if key == k][-LAST:]
                yield t, k, sum(mine), len(mine)

    def _join(self, query: Query, batch: int) -> Iterator[Result]:
        for first in range(query.born, batch + 1):
            for t, k, v in self._taken(query, first, first):
                for second in range(query.born if first == batch else batch, batch + 1):
                    for time, key, value in self._of(second, 1):
                        if t - BEFORE_S <= time <= t + AFTER_S:
                            yield t, k, v, key, value


def shown(row: dict[str, Any]) -> Result:
    """A result as a reader got it."""
    time = row["window"]["start"] if "window" in row else row["time"]
    return int(datetime.fromisoformat(time).timestamp()), *(int(value) for value in row["values"].values())


def in_slots(rows: Sequence[Row]) -> pa.Table:
    """Rows as the service's batches have them: number of the source, time, slots."""
    return pa.table(
        {
            "source": pa.array([k % 2 for k, _, _ in rows], pa.int32()),
            "time": pa.array([t for _, _, t in rows], pa.timestamp("us")),
            "l0": pa.array([k for k, _, _ in rows], pa.int64()),
            "l1": pa.array([v for _, v, _ in rows], pa.int64()),
        }
    )
