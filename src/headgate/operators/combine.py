"""Operators whose rows are combined before they are sent: a range of rows becomes fewer, partial rows.

`BoundOperator.combined()` gives a `Combined`: the same operator with the same state and output, which takes
partial rows. A map task makes them with `partial`. The law: the partial rows of ranges, fed in the order of
the ranges, give the state and the output that the rows themselves would give, however the ranges are cut and
wherever the partial rows are sent. Partial rows are in the order of the first rows that they stand for.

Sums of floats are associated in another way than without combining: first within a range, then by range. So
they depend on how ranges are cut, but not on routing. Sums of integers are exact, and never fail where the
rows themselves would not: a range in which a sum overflows is sent uncombined, one partial row for each row.
The converse does not hold: a sum that leaves its range and returns to it within one range of rows is no error.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import ArithmeticOverflow
from headgate.operators.aggregate import AggregatingOperator, BoundAggregate
from headgate.operators.arrival import CLOSED
from headgate.operators.base import BoundOperator, Chunk
from headgate.operators.combine_groups import grouped
from headgate.state import kernels as k
from headgate.state.keys import KeyColumn
from headgate.state.lanes import NO_BYTES, NO_INTS, Lane, LaneColumn, from_lane, ints, open_view, to_lane
from headgate.state.layout import Kind, StateColumn, StateLayout, head
from headgate.state.section import Column, Extract
from headgate.state.table import BinTable

Ints = NDArray[np.int64]
_TYPES = {Kind.I64: pa.int64(), Kind.F64: pa.float64(), Kind.U8: pa.int8(), Kind.BYTES: pa.binary()}


class Combined(BoundOperator):
    """An operator that takes partial rows."""

    original: BoundOperator
    """The operator that takes the rows themselves."""

    @abstractmethod
    def partial(self, rows: pa.RecordBatch, hashes: Ints) -> tuple[pa.RecordBatch, Ints]:
        """The partial rows of a range, and the hashes of their keys.

        `rows` have the columns that the original operator would be sent, with one zero and one NaN in keys.
        With event time, no row is late, and `CLOSED` is the same in all rows.
        """

    @abstractmethod
    def partial_schema(self, sent: pa.Schema) -> pa.Schema:
        """The columns of partial rows, if rows have the columns `sent`."""


class CombinedAccumulators(Combined, AggregatingOperator):
    """An operator that consists of accumulators: a partial row has their state after the rows it stands for."""

    parted = False
    """Whether partial rows have a part beside their key, which is their first column after it."""

    def __init__(self, original: AggregatingOperator) -> None:
        self.__dict__.update(original.__dict__)
        self.original = original
        self.columns = tuple(column for part in self.parts for column in part.columns())
        self.inputs = tuple(f"__headgate_p{i}" for i in range(len(self.columns) + self.parted))

    def partial_schema(self, sent: pa.Schema) -> pa.Schema:
        types = [*([pa.int64()] if self.parted else []), *(_TYPES[column.kind] for column in self.columns)]
        fields = [sent.field(name) for name in self.key.names]
        fields += [pa.field(name, kind) for name, kind in zip(self.inputs, types, strict=True)]
        return pa.schema([*fields, *([sent.field(CLOSED)] if CLOSED in sent.names else [])])

    def partial(self, rows: pa.RecordBatch, hashes: Ints) -> tuple[pa.RecordBatch, Ints]:
        chunk = Chunk(rows, KeyColumn.fixed(NO_INTS, hashes=hashes), self.original.lanes(rows))
        parts = self._parts(rows, hashes)
        group, first = grouped(self.key, rows, hashes, parts)
        try:
            state = self._state(chunk, group, hashes[first])
        except ArithmeticOverflow:
            group = first = np.arange(len(hashes))
            state = self._state(chunk, group, hashes)
        columns = [rows.column(name) for name in self.key.names]
        if len(first) < len(hashes):  # otherwise each row is a group of its own, in order
            found = pa.array(first)
            columns = [column.take(found) for column in columns]
        columns += [ints(parts[first])] if self.parted else []
        columns += [_to_arrow(state, column, len(first)) for column in self.columns]
        columns += [rows.column(CLOSED).slice(0, len(first))] if CLOSED in rows.schema.names else []
        return pa.RecordBatch.from_arrays(columns, schema=self.partial_schema(rows.schema)), hashes[first]

    def _parts(self, rows: pa.RecordBatch, hashes: Ints) -> Ints:
        """The part of each row, if partial rows have one."""
        return NO_INTS

    def _state(self, chunk: Chunk, group: Ints, hashes: Ints) -> BinTable:
        """A table with the state of each group; `hashes` has one hash for each."""
        count = len(hashes)
        room = 16 * count if any(column.kind is Kind.BYTES for column in self.columns) else 0
        table = BinTable.create(StateLayout(True, self.columns), rows=count, heap=room)
        table.header[head.ROWS] = count  # the groups are known, so rows need not be probed
        table.arrays["hash"][:count] = hashes
        order = np.arange(len(group))
        for part in self.parts:
            part.update(table, group, order, chunk)
        return table

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {}

    def begin(self, chunk: Chunk) -> None:
        names = self.inputs[self.parted :]
        states = {
            column.name: _from_arrow(column, chunk.rows.column(name))
            for column, name in zip(self.columns, names, strict=True)
        }
        chunk.parts.append(Extract(chunk.keys, states))

    def accumulate(self, table: BinTable, slots: Ints, order: Ints, chunk: Chunk) -> None:
        (pieces,) = chunk.parts
        for part in self.parts:
            part.merge(table, slots, pieces, order)


class CombinedAggregate(CombinedAccumulators, BoundAggregate):
    """A running aggregate: one partial row for each key of a range."""


def _to_arrow(table: BinTable, column: StateColumn, rows: int) -> pa.Array:
    """A column of the first rows of a table as Arrow."""
    if column.kind is Kind.BYTES:
        every = np.arange(rows)
        offsets = k.gather_offsets(table.arrays[f"{column.name}.len"], every)
        data = np.empty(int(offsets[-1]), np.uint8)
        k.gather_bytes(table.heap, table.arrays[f"{column.name}.off"], every, offsets, data)
        return from_lane(LaneColumn(Lane.BYTES, data, NO_BYTES, offsets), pa.binary())
    values = table.arrays[column.name][:rows]
    if column.kind is Kind.I64:
        return ints(values)
    return pa.array(values.view(np.int8) if column.kind is Kind.U8 else values)


def _from_arrow(column: StateColumn, array: pa.Array) -> Column:
    """The reverse of `_to_arrow`."""
    if column.kind is Kind.BYTES:
        lane = to_lane(array)
        return lane.offsets, lane.data
    values = open_view(array.to_numpy())
    return values.view(np.uint8) if column.kind is Kind.U8 else values
