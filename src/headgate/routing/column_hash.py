# mypy: allow-untyped-defs, allow-untyped-calls
"""Hashes of whole Arrow columns: bit for bit Spark's `xxhash64(column, ...)` with seed 42.

A row's hash is computed column by column, each seeded with the hash before it; a null leaves the seed as it
is. Booleans, integers up to 32 bits, dates and floats are hashed as four bytes; 64-bit integers, doubles,
timestamps, day-time intervals and decimals of at most 18 digits as eight; strings, binary values and larger
decimals (big-endian, in as few bytes as possible) as byte strings. All zeros are one zero and all NaNs one NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled, inlined
from headgate.errors import UnsupportedType
from headgate.routing.key_hash import SPARK_SEED, mix_int64

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_U32 = np.uint64(0xFFFFFFFF)
_LONG_DIGITS = 18
_NO_BYTES = np.zeros(0, np.uint8)
_NO_BYTES.flags.writeable = False


class Key(Protocol):
    """The names and types of key columns (`headgate.state.keys.KeySpec`)."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """Their Arrow types."""


def key_hashes(rows: pa.RecordBatch, key: Key) -> NDArray[np.int64]:
    """The hash of each row's key, as the exchange in Spark computes it: a single integer is hashed as a bigint.

    >>> from headgate.state.keys import KeySpec
    >>> rows = pa.RecordBatch.from_pydict({"k": pa.array([1, None], pa.int16())})
    >>> key_hashes(rows, KeySpec(("k",), (pa.int16(),))).tolist()
    [-7001672635703045582, 42]
    """
    columns = [rows.column(name) for name in key.names]
    if len(columns) == 1 and pa.types.is_signed_integer(key.types[0]):
        return hash_columns(columns, [pa.int64()])
    return hash_columns(columns, key.types)


def hash_columns(columns: Sequence[pa.Array], types: Sequence[pa.DataType]) -> NDArray[np.int64]:
    """Hash rows of some columns, each as a value of the given type.

    >>> hash_columns([pa.array(["gate", None])], [pa.string()]).tolist()
    [4394893885802268062, 42]
    """
    out = np.full(len(columns[0]), SPARK_SEED, np.uint64)
    for column, kind in zip(columns, types, strict=True):
        _add(out, column if column.type == kind else column.cast(kind))
    return out.view(np.int64)


def normalised(column: pa.Array) -> pa.Array:
    """A key column in which equal keys are identical bits: one zero and one NaN.

    >>> normalised(pa.array([-0.0, None, 1.5])).to_pylist()
    [0.0, None, 1.5]
    """
    if not pa.types.is_floating(column.type):
        return column
    values = _values(column, 1, column.type.to_pandas_dtype())
    plain = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(plain, column.type, mask=null, from_pandas=False)


def _add(out: NDArray[np.uint64], column: pa.Array) -> None:
    """Hash one more column; `out` holds the seeds, and then the hashes."""
    t, kind = pa.types, column.type
    if len(column) == 0:
        return
    valid, bit = _NO_BYTES, column.offset
    if column.null_count:
        valid = _frozen(np.frombuffer(column.buffers()[0], np.uint8))
    if t.is_boolean(kind):
        _hash_bits(out, _frozen(np.frombuffer(column.buffers()[1], np.uint8)), valid, bit)
    elif t.is_int8(kind):
        _hash_narrow(out, _values(column, 1, np.int8), valid, bit)
    elif t.is_int16(kind):
        _hash_narrow(out, _values(column, 1, np.int16), valid, bit)
    elif t.is_int32(kind) or t.is_date32(kind):
        _hash_narrow(out, _values(column, 1, np.int32), valid, bit)
    elif t.is_float32(kind):
        _hash_floats(out, _values(column, 1, np.int32), valid, bit)
    elif t.is_float64(kind):
        _hash_doubles(out, _values(column, 1, np.int64), valid, bit)
    elif t.is_int64(kind) or ((t.is_timestamp(kind) or t.is_duration(kind)) and kind.unit == "us"):
        _hash_wide(out, _values(column, 1, np.int64), 1, valid, bit)
    elif t.is_decimal128(kind) and kind.precision <= _LONG_DIGITS:
        _hash_wide(out, _values(column, 2, np.int64), 2, valid, bit)
    elif t.is_decimal128(kind):
        _hash_large_decimals(out, _values(column, 16, np.uint8), valid, bit)
    elif t.is_string(kind) or t.is_binary(kind):
        _, offsets, data = column.buffers()
        starts = _frozen(np.frombuffer(offsets, np.int32)[bit : bit + len(column) + 1])
        text = _NO_BYTES if data is None or data.size == 0 else _frozen(np.frombuffer(data, np.uint8))
        _hash_strings(out, starts, text, valid, bit)
    else:
        raise UnsupportedType(f"a column of type {kind} cannot be a key; cast it")


def _values(column: pa.Array, width: int, dtype: Any) -> NDArray[Any]:
    """The values of a column, `width` items each, without a copy."""
    if len(column) == 0:
        return np.zeros(0, dtype)
    start, stop = width * column.offset, width * (column.offset + len(column))
    return _frozen(np.frombuffer(column.buffers()[1], dtype)[start:stop])


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array, read-only in any case, because compiled code is specialised by that."""
    array.flags.writeable = False
    return array


@inlined
def _rotated(value, bits):
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inlined
def _mixed(h):
    """The last step of a hash: every bit depends on every other."""
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


@inlined
def _mix_int32(value, seed):
    """xxHash64 of four bytes."""
    h = (seed + _P5 + np.uint64(4)) ^ ((np.uint64(value) & _U32) * _P1)
    return _mixed(_rotated(h, 23) * _P2 + _P3)


@inlined
def _is_null(valid, at):
    return len(valid) > 0 and (valid[at >> 3] >> np.uint8(at & 7)) & 1 == 0


@inlined
def _word(data, at, size):
    """`size` bytes, the lowest first: one load, because the compiler knows that no index is negative."""
    value = np.uint64(0)
    for j in range(size):
        value |= np.uint64(data[np.uint64(at) + np.uint64(j)]) << np.uint64(8 * j)
    return value


@inlined
def _round(lane, word):
    return _rotated(lane + word * _P2, 31) * _P1


@compiled
def _mix_bytes(data, at, size, seed):
    """xxHash64 of `data[at:at + size]`."""
    end = at + size
    if size >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at <= end - 32:
            a = _round(a, _word(data, at, 8))
            b = _round(b, _word(data, at + 8, 8))
            c = _round(c, _word(data, at + 16, 8))
            d = _round(d, _word(data, at + 24, 8))
            at += 32
        h = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        for lane in (a, b, c, d):
            h = (h ^ _round(np.uint64(0), lane)) * _P1 + _P4
    else:
        h = seed + _P5
    h += np.uint64(size)
    while at <= end - 8:
        h = _rotated(h ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at <= end - 4:
        h = _rotated(h ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        h = _rotated(h ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    return _mixed(h)


@compiled
def _hash_bits(out, bits, valid, bit):
    for i in range(len(out)):
        at = bit + i
        if not _is_null(valid, at):
            out[i] = _mix_int32((bits[at >> 3] >> np.uint8(at & 7)) & 1, out[i])


@compiled
def _hash_narrow(out, values, valid, bit):
    for i in range(len(out)):
        if not _is_null(valid, bit + i):
            out[i] = _mix_int32(np.int64(values[i]), out[i])


@compiled
def _hash_wide(out, values, stride, valid, bit):
    if stride == 1 and len(valid) == 0:  # a loop that the compiler can vectorise
        for i in range(len(out)):
            out[i] = mix_int64(np.uint64(values[i]), out[i])
        return
    for i in range(len(out)):
        if not _is_null(valid, bit + i):
            out[i] = mix_int64(np.uint64(values[stride * i]), out[i])


@compiled
def _hash_floats(out, values, valid, bit):
    for i in range(len(out)):
        v = np.int64(values[i])
        size = v & 0x7FFFFFFF
        if size == 0:
            v = np.int64(0)
        elif size > 0x7F800000:
            v = np.int64(0x7FC00000)
        if not _is_null(valid, bit + i):
            out[i] = _mix_int32(v, out[i])


@compiled
def _hash_doubles(out, values, valid, bit):
    for i in range(len(out)):
        v = values[i]
        size = v & 0x7FFFFFFFFFFFFFFF
        if size == 0:
            v = 0
        elif size > 0x7FF0000000000000:
            v = 0x7FF8000000000000
        if not _is_null(valid, bit + i):
            out[i] = mix_int64(np.uint64(v), out[i])


@compiled
def _hash_large_decimals(out, values, valid, bit):
    short = np.empty(16, np.uint8)
    for i in range(len(out)):
        if _is_null(valid, bit + i):
            continue
        size = 16  # leave out leading bytes that only repeat the sign
        sign = np.uint8(255) if values[16 * i + 15] >= 128 else np.uint8(0)
        while size > 1 and values[16 * i + size - 1] == sign and (values[16 * i + size - 2] ^ sign) < 128:
            size -= 1
        for j in range(size):
            short[j] = values[16 * i + size - 1 - j]
        out[i] = _mix_bytes(short, 0, size, out[i])


@compiled
def _hash_strings(out, starts, text, valid, bit):
    for i in range(len(out)):
        if not _is_null(valid, bit + i):
            at = np.int64(starts[i])
            out[i] = _mix_bytes(text, at, np.int64(starts[i + 1]) - at, out[i])
