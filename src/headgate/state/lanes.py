"""The four physical representations of a value in compiled code.

Every Arrow type that can be a key or a state value is represented in one *lane*:

| lane | numpy | Arrow types |
|---|---|---|
| `I64` | one int64 | booleans, integers, date32, timestamp, duration |
| `F64` | one float64 | float32, float64 |
| `I128` | two int64 (low, high) | decimal128 |
| `BYTES` | offsets into bytes | string, binary |

A value that is only stored and passed on may have any type: if the type has no lane of its own, the value
is encoded as `BYTES` (`nested.py`). Converting to a lane and back gives the same value, nulls included.
This file knows nothing about keys, bins or operators.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.errors import UnsupportedType
from headgate.state import nested
from headgate.state.payload import Payload, check_carried

NO_BYTES = np.zeros(0, np.uint8)
NO_INTS = np.zeros(0, np.int64)


class Lane(StrEnum):
    """How a value is represented in compiled code."""

    I64 = "i64"
    F64 = "f64"
    I128 = "i128"
    BYTES = "bytes"


PLAIN = "an integer, string, binary, date, timestamp, decimal, boolean, floating or day-time interval type"
"""Types that have a lane, in words."""


def lane_of(kind: pa.DataType, what: str = "value", use: str = "cannot be read here") -> Lane:
    """The lane of an Arrow type whose values are read; `what` and `use` complete the error message.

    >>> lane_of(pa.int32()), lane_of(pa.string())
    (<Lane.I64: 'i64'>, <Lane.BYTES: 'bytes'>)
    """
    lane = _lane(kind)
    if lane is None:
        check_carried(kind)
        raise UnsupportedType(
            f"{what} has type {kind}, which {use}; take a part of it, or cast it to {PLAIN}"
        )
    return lane


def carrier_of(kind: pa.DataType, what: str = "value") -> Lane:
    """The lane in which values of any type are stored.

    >>> carrier_of(pa.int32()), carrier_of(pa.list_(pa.int32()))
    (<Lane.I64: 'i64'>, <Lane.BYTES: 'bytes'>)
    """
    check_carried(kind)
    if isinstance(kind, Payload):
        kind = kind.storage_type
    lane = _lane(kind)
    if lane is None and not nested.can_encode(kind):
        raise UnsupportedType(f"{what} has type {kind}, which cannot be kept in state; cast it to {PLAIN}")
    return lane or Lane.BYTES


_WHOLE = (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32())
_LANES: dict[int, Lane] = {
    **{kind.id: Lane.I64 for kind in (*_WHOLE, pa.timestamp("us"), pa.duration("us"))},
    **{kind.id: Lane.F64 for kind in (pa.float32(), pa.float64())},
    pa.decimal128(1).id: Lane.I128,
    **{kind.id: Lane.BYTES for kind in (pa.string(), pa.binary())},
}
"""The lane of each type that has one, by the number of the type."""


def _lane(kind: pa.DataType) -> Lane | None:
    return _LANES.get(kind.id)


@dataclass(frozen=True)
class LaneColumn:
    """One column as compiled code sees it.

    `valid` is empty when no value is null. For `I128`, `data` holds (low, high) pairs; for `BYTES`,
    value `i` is `data[offsets[i]:offsets[i + 1]]`.
    """

    lane: Lane
    data: NDArray[Any]
    valid: NDArray[np.uint8]
    offsets: NDArray[np.int64] = field(default_factory=lambda: NO_INTS)

    def __len__(self) -> int:
        if self.lane is Lane.BYTES:
            return max(0, len(self.offsets) - 1)
        return len(self.data) // (2 if self.lane is Lane.I128 else 1)


def open_view(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory, seen as writable.

    Compiled code is specialised by writability, so without this every kernel would be compiled twice. No
    kernel writes to its inputs.
    """
    if array.flags.writeable or array.nbytes == 0:
        return array if array.flags.writeable else array.copy()
    return np.asarray(_Writable(array))


class _Writable:
    """The memory of an array under numpy's array interface; a view of it keeps the array alive."""

    def __init__(self, owner: NDArray[Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface = owner.__array_interface__
        interface["data"] = (interface["data"][0], False)


def _single(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def to_lane(column: pa.Array | pa.ChunkedArray) -> LaneColumn:
    """Convert Arrow to a lane, without a copy where the layouts agree."""
    array = _single(column)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    lane = carrier_of(array.type)
    valid: NDArray[np.uint8] = NO_BYTES
    if array.null_count:
        valid = open_view(pc.cast(array.is_valid(), pa.uint8()).to_numpy(zero_copy_only=False))
    if _lane(array.type) is None:
        offsets, data = nested.encode(array)
        return LaneColumn(lane, data, valid, offsets)
    if lane is Lane.BYTES:
        buffers = array.buffers()
        if len(array) == 0:
            return LaneColumn(lane, NO_BYTES, valid, np.zeros(1, np.int64))
        raw = np.frombuffer(buffers[1], np.int32)[array.offset : array.offset + len(array) + 1]
        data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None and buffers[2].size else NO_BYTES
        return LaneColumn(lane, open_view(data), valid, raw.astype(np.int64))
    if lane is Lane.I128:
        if len(array) == 0:
            return LaneColumn(lane, NO_INTS, valid)
        pairs = np.frombuffer(array.buffers()[1], np.int64)
        return LaneColumn(lane, open_view(pairs[2 * array.offset : 2 * (array.offset + len(array))]), valid)
    if lane is Lane.F64:
        plain = array if array.type == pa.float64() else array.cast(pa.float64())
    elif pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        plain = array.view(pa.int64())
    elif pa.types.is_date32(array.type):
        plain = array.view(pa.int32()).cast(pa.int64())
    else:
        plain = array if array.type == pa.int64() else array.cast(pa.int64())
    if plain.null_count:
        plain = plain.fill_null(0)
    return LaneColumn(lane, open_view(plain.to_numpy(zero_copy_only=False)), valid)


def ints(values: NDArray[np.int64]) -> pa.Array:
    """Whole numbers as Arrow, without a copy. (Arrow's own conversion first looks for many other kinds.)"""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def bitmap(valid: NDArray[np.uint8]) -> pa.Buffer | None:
    """Arrow's validity bitmap, or None if nothing is null."""
    if len(valid) == 0 or bool(valid.all()):
        return None
    return pa.py_buffer(np.packbits(valid.astype(bool), bitorder="little").tobytes())


def from_lane(column: LaneColumn, kind: pa.DataType) -> pa.Array:
    """Convert a lane to Arrow, in exactly the given type."""
    if isinstance(kind, Payload):
        return pa.ExtensionArray.from_storage(kind, from_lane(column, kind.storage_type))
    if _lane(kind) is None:
        return nested.decode(column.offsets[:-1], column.data, column.valid, kind)
    n = len(column)
    mask = bitmap(column.valid)
    if column.lane is Lane.BYTES:
        offsets = column.offsets.astype(np.int32)
        buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(column.data))]
        return pa.Array.from_buffers(kind, n, buffers)
    data = np.ascontiguousarray(column.data)
    if column.lane is Lane.F64:
        wide = pa.Array.from_buffers(pa.float64(), n, [mask, pa.py_buffer(data)])
        return wide if kind == pa.float64() else wide.cast(kind, safe=False)
    if (
        column.lane is Lane.I128
        or kind == pa.int64()
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
    ):
        return pa.Array.from_buffers(kind, n, [mask, pa.py_buffer(data)])
    if pa.types.is_boolean(kind):
        return pa.Array.from_buffers(pa.int64(), n, [mask, pa.py_buffer(data)]).cast(pa.bool_())
    if pa.types.is_date32(kind):
        return pa.Array.from_buffers(kind, n, [mask, pa.py_buffer(data.astype(np.int32))])
    return pa.Array.from_buffers(pa.int64(), n, [mask, pa.py_buffer(data)]).cast(kind)
