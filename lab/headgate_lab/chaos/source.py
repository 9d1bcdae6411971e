"""Where rows come from: a partitioned log for direct streams, and Spark's own records for the drop-in.

A row is (k, v, t): its key, the bit `1 << n` if it is the n-th row of that key, and its time. So the sum
of some rows of a key says which rows they are. Keys are in groups (g), and have a bit in their group (w).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.sources.files import Files
from headgate.sources.source import Demand, Range, Ranges, Source
from headgate.streams.side import SideStep
from headgate_lab.chaos.objects import INPUT, PROTOCOL, Objects

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


def side_of(value: int) -> int:
    """The side of a row in a join: the rows of a key take turns."""
    return (value.bit_length() - 1) % 2


SIDES = tuple(SideStep(side, ("k",), ("t", "t"), (SCHEMA, SCHEMA)) for side in (0, 1))
"""The steps that make one stream of the two sides of a join."""


def joined(rows: Sequence[Row]) -> pa.Table:
    """The rows of both sides as one table."""
    parts = [[row for row in rows if side_of(row[1]) == side] for side in (0, 1)]
    return pa.concat_tables(step.apply(table_of(part)) for step, part in zip(SIDES, parts, strict=True))


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as an Arrow table."""
    return pa.Table.from_batches([batch_of(rows)])


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as an Arrow batch."""
    keys, values, times = zip(*rows, strict=True) if rows else ((), (), ())
    columns = [keys, values, times, [group_of(k) for k in keys], [bit_of(k) for k in keys]]
    whole = [pa.py_buffer(np.array(column, np.int64)) for column in columns]
    arrays = [
        pa.Array.from_buffers(kind, len(rows), [None, data])
        for data, kind in zip(whole, SCHEMA.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class Log(Source):
    """A log with partitions, of which each has the rows of some keys in their order. A partition appears
    with its first row. An offset is the number of rows taken, by partition. With two sides, each is
    a source of its own (`Side`).
    """

    def __init__(self, *, two_sides: bool = False) -> None:
        self.two_sides = two_sides
        self.partitions: dict[int, list[Row]] = {}
        self.vanished = False
        """Whether reading fails."""

    def __repr__(self) -> str:
        return "the log"

    def add(self, rows: Sequence[Row]) -> None:
        """Rows arrive."""
        for key, value, time in rows:
            number = 2 * (key % 2) + side_of(value) if self.two_sides else key % PARTITIONS
            self.partitions.setdefault(number, []).append((key, value, time))

    def schema(self) -> pa.Schema:
        return SCHEMA

    def identity(self) -> dict[str, Any]:
        return {"source": "log"}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        return self.planned(self.partitions, offset, demand)

    def planned(self, numbers: Iterable[int], offset: Any, demand: Demand) -> Ranges:
        """The next ranges of some partitions."""
        taken = dict(offset or {})
        ranges, left, more = [], demand.rows, False
        for number in sorted(numbers):
            rows = self.partitions[number]
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


class Folder(Log):
    """A folder of Parquet files in the simulated store, which the product's own source reads. Each time rows
    arrive, they are a new file.
    """

    def __init__(self, world: Objects) -> None:
        super().__init__()
        self._world = world

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "vanished" and "_world" in self.__dict__:
            self._world.hidden = value

    def add(self, rows: Sequence[Row]) -> None:
        """Rows arrive."""
        sink = pa.BufferOutputStream()
        pq.write_table(table_of(rows), sink, row_group_size=3)
        number = sum(name.startswith(f"{INPUT}/") for name in self._world.files)
        self._world.arrive(f"{INPUT}/part-{number:06d}.parquet", sink.getvalue().to_pybytes())

    def files(self) -> Files:
        """The product's source, for a new driver."""
        return Files(f"{PROTOCOL}://{INPUT}", SCHEMA, format="parquet")


class Side(Source):
    """One side of a join: the partitions of a log whose numbers are even, or odd."""

    def __init__(self, log: Log, number: int) -> None:
        self._log, self._number = log, number

    def __repr__(self) -> str:
        return f"side {self._number} of the log"

    def schema(self) -> pa.Schema:
        return SCHEMA

    def identity(self) -> dict[str, Any]:
        return {"source": "log", "side": self._number}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        return self._log.planned([n for n in self._log.partitions if n % 2 == self._number], offset, demand)

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        return self._log.read(what)


class SparkRecords:
    """What Spark's own checkpoint holds: the rows of each batch, and the last batch that it has seen done."""

    def __init__(self) -> None:
        self.planned: list[tuple[Row, ...]] = []
        self.done = -1
        self.delivered = -1
        """The newest batch that was ever delivered. All before it were done then."""

    def add(self, rows: Sequence[Row]) -> None:
        """The rows of the next batch are fixed."""
        self.planned.append(tuple(rows))
