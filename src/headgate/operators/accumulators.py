"""One accumulator per aggregate function: its state columns, its update and its result.

Types and null rules are those of Spark with ANSI on. `sum` of integers is a bigint and an overflow is
an error; `sum` and `mean` of decimals widen as in Spark; `var` and `std` are the sample forms, and null
for fewer than two values; `min` and `max` take any ordered type, with NaN above all numbers. An
aggregate over no values is null, and a count is 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import ArithmeticOverflow, UnsupportedType
from headgate.operators import aggregate_kernels as ak
from headgate.operators.base import Chunk
from headgate.state.lanes import (
    NO_BYTES,
    Lane,
    LaneColumn,
    bitmap,
    carrier_of,
    from_lane,
    ints,
    lane_of,
    to_lane,
)
from headgate.state.layout import Kind, StateColumn
from headgate.state.section import Extract
from headgate.state.table import BinTable

Slots = NDArray[np.int64]


class Accumulator(ABC):
    """The state and result of one output column."""

    type: pa.DataType
    ordered = False

    def __init__(self, name: str, column: str | None) -> None:
        self.name, self.column = name, column

    @property
    def input(self) -> str:
        """The name of the input lane in a chunk; aggregates with the same input and conversion share it."""
        return f"plain:{self.column}"

    def lane(self, rows: pa.RecordBatch) -> LaneColumn | None:
        """The input in the form that compiled code takes."""
        return to_lane(rows.column(self.column)) if self.column is not None else None

    def _state(self, **parts: Kind) -> tuple[StateColumn, ...]:
        return tuple(StateColumn(f"{self.name}:{part}", kind) for part, kind in parts.items())

    def _arrays(self, table: BinTable, *parts: str) -> list[NDArray[Any]]:
        return [table.arrays[f"{self.name}:{part}"] for part in parts]

    def _taken(self, piece: Extract, *parts: str) -> list[Any]:
        return [piece.columns[f"{self.name}:{part}"] for part in parts]

    @abstractmethod
    def columns(self) -> tuple[StateColumn, ...]:
        """State columns."""

    @abstractmethod
    def update(self, table: BinTable, slots: Slots, order: Slots, chunk: Chunk) -> None:
        """Apply rows of one bin."""

    def merge(self, table: BinTable, slots: Slots, pieces: Extract, order: Slots | None = None) -> None:
        """Add the state of the rows `order` of `pieces`, by default all of them, to the state of their slots."""
        self._merge(table, slots, pieces, np.arange(len(slots)) if order is None else order)

    @abstractmethod
    def _merge(self, table: BinTable, slots: Slots, pieces: Extract, order: Slots) -> None:
        """`merge`, where `order` is given."""

    @abstractmethod
    def answer(self, piece: Extract) -> pa.Array:
        """The output column for the rows of `piece`."""


class Count(Accumulator):
    """count() of rows, or count(column) of non-null values."""

    type = pa.int64()

    def columns(self) -> tuple[StateColumn, ...]:
        return self._state(n=Kind.I64)

    def update(self, table: BinTable, slots: Slots, order: Slots, chunk: Chunk) -> None:
        valid = chunk.lanes[self.input].valid if self.column is not None else NO_BYTES
        ak.count(slots, order, valid, *self._arrays(table, "n"))

    def _merge(self, table: BinTable, slots: Slots, pieces: Extract, order: Slots) -> None:
        ak.add(slots, order, *self._taken(pieces, "n"), *self._arrays(table, "n"))

    def answer(self, piece: Extract) -> pa.Array:
        return ints(self._taken(piece, "n")[0])


class Sum(Accumulator):
    """sum(column): bigint of integers, double of floats."""

    def __init__(self, name: str, column: str, kind: pa.DataType) -> None:
        super().__init__(name, column)
        self.whole = lane_of(kind) is Lane.I64
        self.type = pa.int64() if self.whole else pa.float64()

    def columns(self) -> tuple[StateColumn, ...]:
        return self._state(sum=Kind.I64 if self.whole else Kind.F64, seen=Kind.U8)

    def update(self, table: BinTable, slots: Slots, order: Slots, chunk: Chunk) -> None:
        lane = chunk.lanes[self.input]
        self._step(table, slots, order, lane.data, lane.valid)

    def _merge(self, table: BinTable, slots: Slots, pieces: Extract, order: Slots) -> None:
        self._step(table, slots, order, *self._taken(pieces, "sum", "seen"))

    def _step(
        self, table: BinTable, slots: Slots, order: Slots, data: NDArray[Any], valid: NDArray[np.uint8]
    ) -> None:
        step = ak.sum_i64 if self.whole else ak.sum_f64
        if step(slots, order, data, valid, *self._arrays(table, "sum", "seen")):
            raise ArithmeticOverflow(
                f"sum({self.column}) as {self.name!r} passed the range of a bigint; "
                f"cast {self.column} to decimal(38,0) or double"
            )

    def answer(self, piece: Extract) -> pa.Array:
        total, seen = self._taken(piece, "sum", "seen")
        return pa.Array.from_buffers(self.type, len(total), [bitmap(seen), pa.py_buffer(total)])


class DecimalSum(Accumulator):
    """sum(column) or mean(column) of decimals, exact."""

    def __init__(self, name: str, column: str, kind: pa.DataType, *, mean: bool) -> None:
        super().__init__(name, column)
        self.mean, self.scale = mean, kind.scale
        more_digits, more_scale = (4, 4) if mean else (10, 0)
        self.type = pa.decimal128(min(38, kind.precision + more_digits), min(38, kind.scale + more_scale))

    def columns(self) -> tuple[StateColumn, ...]:
        return self._state(low=Kind.I64, high=Kind.I64, n=Kind.I64)

    def update(self, table: BinTable, slots: Slots, order: Slots, chunk: Chunk) -> None:
        lane = chunk.lanes[self.input]
        if ak.sum_i128(slots, order, lane.data, lane.valid, *self._arrays(table, "low", "high", "n")):
            raise self._overflow()

    def _merge(self, table: BinTable, slots: Slots, pieces: Extract, order: Slots) -> None:
        names = ("low", "high", "n")
        if ak.merge_i128(slots, order, *self._taken(pieces, *names), *self._arrays(table, *names)):
            raise self._overflow()

    def _overflow(self) -> ArithmeticOverflow:
        function = "mean" if self.mean else "sum"
        return ArithmeticOverflow(
            f"{function}({self.column}) as {self.name!r} passed the range of {self.type}; cast to double"
        )

    def answer(self, piece: Extract) -> pa.Array:
        low, high, n = self._taken(piece, "low", "high", "n")
        limit = 10**self.type.precision
        pairs = np.column_stack([low, high]).reshape(-1)
        if self.mean:
            shift = 10 ** (self.type.scale - self.scale)
            means = [
                _half_up(_whole(a, b) * shift, c) if c else 0
                for a, b, c in zip(low, high, n.tolist(), strict=True)
            ]
            if any(abs(m) >= limit for m in means):  # such a mean may not fit sixteen bytes
                raise self._overflow()
            pairs = np.frombuffer(b"".join(m.to_bytes(16, "little", signed=True) for m in means), np.int64)
        rough = np.abs(pairs[1::2].astype(np.float64) * 2.0**64)
        for i in np.flatnonzero(rough >= limit / 2):
            if abs(_whole(pairs[2 * i], pairs[2 * i + 1])) >= limit:
                raise self._overflow()
        return from_lane(LaneColumn(Lane.I128, pairs, (n > 0).astype(np.uint8)), self.type)


def _whole(low: Any, high: Any) -> int:
    return (int(high) << 64) | (int(low) & 0xFFFFFFFFFFFFFFFF)


def _half_up(total: int, count: int) -> int:
    quotient = (2 * abs(total) + count) // (2 * count)
    return quotient if total >= 0 else -quotient


class OfDoubles(Accumulator):
    """An aggregate whose input is converted to doubles, rounded if necessary."""

    type = pa.float64()

    @property
    def input(self) -> str:
        return f"double:{self.column}"

    def lane(self, rows: pa.RecordBatch) -> LaneColumn | None:
        return to_lane(rows.column(self.column).cast(pa.float64(), safe=False))


class Mean(OfDoubles):
    """mean(column) as a double."""

    def columns(self) -> tuple[StateColumn, ...]:
        return self._state(sum=Kind.F64, n=Kind.I64, seen=Kind.U8)

    def update(self, table: BinTable, slots: Slots, order: Slots, chunk: Chunk) -> None:
        lane = chunk.lanes[self.input]
        ak.sum_f64(slots, order, lane.data, lane.valid, *self._arrays(table, "sum", "seen"))
        ak.count(slots, order, lane.valid, *self._arrays(table, "n"))

    def _merge(self, table: BinTable, slots: Slots, pieces: Extract, order: Slots) -> None:
        ak.sum_f64(slots, order, *self._taken(pieces, "sum", "seen"), *self._arrays(table, "sum", "seen"))
        ak.add(slots, order, *self._taken(pieces, "n"), *self._arrays(table, "n"))

    def answer(self, piece: Extract) -> pa.Array:
        total, n = self._taken(piece, "sum", "n")
        return pa.array(total / np.maximum(n, 1), mask=n == 0)


class Spread(OfDoubles):
    """Sample variance, or its root."""

    def __init__(self, name: str, column: str, *, root: bool) -> None:
        super().__init__(name, column)
        self.root = root

    def columns(self) -> tuple[StateColumn, ...]:
        return self._state(n=Kind.I64, mean=Kind.F64, m2=Kind.F64)

    def update(self, table: BinTable, slots: Slots, order: Slots, chunk: Chunk) -> None:
        lane = chunk.lanes[self.input]
        ak.moments(slots, order, lane.data, lane.valid, *self._arrays(table, "n", "mean", "m2"))

    def _merge(self, table: BinTable, slots: Slots, pieces: Extract, order: Slots) -> None:
        names = ("n", "mean", "m2")
        ak.merge_moments(slots, order, *self._taken(pieces, *names), *self._arrays(table, *names))

    def answer(self, piece: Extract) -> pa.Array:
        n, m2 = self._taken(piece, "n", "m2")
        variance = m2 / np.maximum(n - 1, 1)
        with np.errstate(invalid="ignore"):  # after an overflow there is no root: NaN, as in Spark
            return pa.array(np.sqrt(variance) if self.root else variance, mask=n < 2)


class Value(Accumulator):
    """An aggregate whose state is one value of the input's type: min, max, first, last."""

    def __init__(self, name: str, column: str, kind: pa.DataType) -> None:
        super().__init__(name, column)
        self.type, self.kind = kind, carrier_of(kind, f"column {column!r}")

    def columns(self) -> tuple[StateColumn, ...]:
        if self.kind is Lane.I128:
            return self._state(low=Kind.I64, high=Kind.I64, seen=Kind.U8)
        return self._state(value=Kind(self.kind.value), seen=Kind.U8)

    def _heap(self, table: BinTable) -> tuple[Any, ...]:
        return (table.header, table.heap, *self._arrays(table, "value.off", "value.len"))

    def _lane(self, piece: Extract, valid: NDArray[np.uint8]) -> LaneColumn:
        if self.kind is Lane.I128:
            return LaneColumn(
                self.kind, np.column_stack(self._taken(piece, "low", "high")).reshape(-1), valid
            )
        (value,) = self._taken(piece, "value")
        if self.kind is Lane.BYTES:
            return LaneColumn(self.kind, value[1], valid, value[0])
        return LaneColumn(self.kind, value, valid)


class Extreme(Value):
    """min(column) or max(column)."""

    def __init__(self, name: str, column: str, kind: pa.DataType, *, largest: bool) -> None:
        super().__init__(name, column, kind)
        function = "max" if largest else "min"
        lane_of(kind, f"column {column!r}", f"{function}({column!r}) cannot put in order")
        self.largest = largest

    def update(self, table: BinTable, slots: Slots, order: Slots, chunk: Chunk) -> None:
        self._step(table, slots, order, chunk.lanes[self.input])

    def _merge(self, table: BinTable, slots: Slots, pieces: Extract, order: Slots) -> None:
        (valid,) = self._taken(pieces, "seen")
        if self.kind is Lane.I128:
            self._step_i128(table, slots, order, *self._taken(pieces, "low", "high"), 1, valid)
        else:
            self._step(table, slots, order, self._lane(pieces, valid))

    def _step_i128(self, table: BinTable, slots: Slots, order: Slots, *given: Any) -> None:
        ak.extreme_i128(slots, order, *given, *self._arrays(table, "low", "high", "seen"), self.largest)

    def _step(self, table: BinTable, slots: Slots, order: Slots, lane: LaneColumn) -> None:
        (seen,) = self._arrays(table, "seen")
        if self.kind is Lane.BYTES:
            table.run(
                lambda at: ak.extreme_bytes(
                    slots, order, at, lane.offsets, lane.data, lane.valid, *self._heap(table),
                    *self._arrays(table, "seen"), self.largest,
                ),
                len(slots),
            )  # fmt: skip
        elif self.kind is Lane.I128:
            self._step_i128(table, slots, order, lane.data, lane.data[1:], 2, lane.valid)
        else:
            step = ak.extreme_i64 if self.kind is Lane.I64 else ak.extreme_f64
            step(slots, order, lane.data, lane.valid, *self._arrays(table, "value"), seen, self.largest)

    def answer(self, piece: Extract) -> pa.Array:
        return from_lane(self._lane(piece, self._taken(piece, "seen")[0]), self.type)


class Edge(Value):
    """first(column) or last(column), in the order of the source."""

    ordered = True

    def __init__(self, name: str, column: str, kind: pa.DataType, *, last: bool, ignore_nulls: bool) -> None:
        super().__init__(name, column, kind)
        self.last, self.ignore_nulls = last, ignore_nulls

    def update(self, table: BinTable, slots: Slots, order: Slots, chunk: Chunk) -> None:
        lane = chunk.lanes[self.input]
        chosen = np.empty(len(slots), np.uint8)
        ak.pick(slots, order, lane.valid, *self._arrays(table, "seen"), self.last, self.ignore_nulls, chosen)
        if self.kind is Lane.BYTES:
            table.run(
                lambda at: ak.put_chosen_bytes(
                    slots, order, at, chosen, lane.offsets, lane.data, *self._heap(table)
                ),
                len(slots),
            )
        elif self.kind is Lane.I128:
            for part, array in enumerate(self._arrays(table, "low", "high")):
                ak.put_fixed(slots, order, chosen, lane.data, array, 2, part)
        else:
            ak.put_fixed(slots, order, chosen, lane.data, *self._arrays(table, "value"), 1, 0)

    def _merge(self, table: BinTable, slots: Slots, pieces: Extract, order: Slots) -> None:
        raise NotImplementedError(
            f"{self.name} depends on the order of rows, which is unknown between pieces"
        )

    def answer(self, piece: Extract) -> pa.Array:
        return from_lane(self._lane(piece, (self._taken(piece, "seen")[0] == 2).astype(np.uint8)), self.type)


def numeric(kind: pa.DataType, function: str, column: str) -> None:
    """Refuse arithmetic on a column that is not a number."""
    t = pa.types
    if not (t.is_signed_integer(kind) or t.is_floating(kind) or t.is_decimal128(kind)):
        raise UnsupportedType(
            f"{function}({column}) needs a number, but column {column!r} has type {kind}; "
            "cast it, or a part of it, to a number"
        )
