"""Where rows come from: a partitioned log for direct streams, and Spark's own records for the drop-in.

A row is (k, v, t): its key, the bit `1 << n` if it is the n-th row of that key, and its time. So the sum
of some rows of a key says which rows they are. Keys are in groups (g), and have a bit in their group (w).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from headgate.sources.source import Demand, Range, Ranges, Source

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("v", pa.int64()),
        ("t", pa.timestamp("us", "UTC")),
        ("g", pa.int64()),
        ("w", pa.int64()),
    ]
)
Row = tuple[int, int, int]
PARTITIONS = 3


def group_of(key: int) -> int:
    """The group of a key."""
    return key % 2


def bit_of(key: int) -> int:
    """The bit of a key in its group."""
    return 1 << key // 2


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as an Arrow table."""
    return pa.Table.from_batches([batch_of(rows)])


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as an Arrow batch."""
    keys, values, times = zip(*rows, strict=True) if rows else ((), (), ())
    columns = [keys, values, times, [group_of(k) for k in keys], [bit_of(k) for k in keys]]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class Log(Source):
    """A log with partitions, of which each has the rows of some keys in their order. A partition appears
    with its first row. An offset is the number of rows taken, by partition.
    """

    def __init__(self) -> None:
        self.partitions: dict[int, list[Row]] = {}
        self.vanished = False
        """Whether reading fails."""

    def __repr__(self) -> str:
        return "the log"

    def add(self, rows: Sequence[Row]) -> None:
        """Rows arrive."""
        for row in rows:
            self.partitions.setdefault(row[0] % PARTITIONS, []).append(row)

    def schema(self) -> pa.Schema:
        return SCHEMA

    def identity(self) -> dict[str, Any]:
        return {"source": "log"}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        taken = dict(offset or {})
        ranges, left, more = [], demand.rows, False
        for number, rows in sorted(self.partitions.items()):
            start = int(taken.get(str(number), 0))
            end = min(len(rows), start + left)
            more |= end < len(rows)
            if end > start:
                cuts = [start, (start + end) // 2, end] if end - start > 2 else [start, end]
                ranges += [Range((number, *cut), cut[1] - cut[0]) for cut in pairwise(cuts)]
                taken[str(number)] = end
                left -= end - start
        return Ranges(tuple(ranges), taken if ranges else offset, more=more)

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        number, start, end = what
        if self.vanished:
            raise FileNotFoundError(f"rows {start} to {end} of partition {number} are gone")
        yield batch_of(self.partitions[number][start:end])


class SparkRecords:
    """What Spark's own checkpoint holds: the rows of each batch, and the last batch that it has seen done."""

    def __init__(self) -> None:
        self.planned: list[tuple[Row, ...]] = []
        self.done = -1

    def add(self, rows: Sequence[Row]) -> None:
        """The rows of the next batch are fixed."""
        self.planned.append(tuple(rows))
