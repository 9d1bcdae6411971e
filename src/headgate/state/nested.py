# mypy: allow-untyped-defs, allow-untyped-calls
"""A value of any Arrow type as bytes, so that state can hold types for which compiled code has no lane.

Each row becomes a small column of its own: an array of ten numbers is the count 10 (four bytes), then
the ten numbers. The values inside an array, a struct or a map are written level by level. A byte before
each level says whether one of its values is null; if so, a byte for each value follows. So rows are
written and read by copying whole runs, level by level, and never value by value.

Laws: `decode(encode(a)) == a`, bit for bit; equal values have equal bytes, whatever the memory under a
null contains; and the bytes of a row do not depend on the rows around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Part = tuple[Bytes, Ints]
"""The bytes of all rows, and where the bytes of each row begin."""
_NO_BYTES = np.zeros(0, np.uint8)


def can_encode(kind: pa.DataType) -> bool:
    """Whether values of a type can be encoded.

    >>> can_encode(pa.list_(pa.struct([("x", pa.decimal128(9, 2))])))
    True
    >>> can_encode(pa.dictionary(pa.int8(), pa.string()))
    False
    """
    t = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return can_encode(kind.storage_type)
    if t.is_struct(kind):
        return all(can_encode(field.type) for field in kind)
    if t.is_map(kind):
        return can_encode(kind.key_type) and can_encode(kind.item_type)
    if _is_list(kind) or t.is_fixed_size_list(kind):
        return can_encode(kind.value_type)
    return t.is_null(kind) or t.is_boolean(kind) or _is_text(kind) or _width(kind) > 0


def encode(array: pa.Array) -> tuple[Ints, Bytes]:
    """Rows as byte strings: (offsets, bytes). A null row is empty; the caller knows which rows are null.

    >>> offsets, data = encode(pa.array([[1, 2], [], None], pa.list_(pa.int8())))
    >>> np.diff(offsets).tolist(), data.tolist()
    ([7, 4, 0], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0])
    """
    rows = len(array)
    bounds = np.arange(rows + 1)
    nulls = ~_valid(array)
    if nulls.any():
        bounds = _ends(~nulls)
        array = array.take(pa.array(np.flatnonzero(~nulls)))
    parts: list[Part] = []
    _write(array, bounds, np.ones(len(array), bool), parts)
    offsets = np.zeros(rows + 1, np.int64)
    for _, starts in parts:
        offsets += starts - starts[0]
    data = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    for part, starts in parts:
        _put(data, at, part, starts)
    return offsets, data


def decode(starts: Ints, data: Bytes, valid: Bytes, kind: pa.DataType) -> pa.Array:
    """The rows that `encode` wrote; row i begins at `starts[i]`. `valid` is empty if no row is null."""
    counts = np.ones(len(starts), np.int64) if len(valid) == 0 else valid.astype(np.int64)
    values = _read(kind, counts, starts.copy(), data, np.ones(int(counts.sum()), bool))
    if len(values) == len(starts):
        return values
    return values.take(pa.array(np.cumsum(counts) - 1, mask=counts == 0))


def _is_text(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(kind) or t.is_binary(kind) or t.is_large_string(kind) or t.is_large_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_large(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_large_list(kind) or t.is_large_string(kind) or t.is_large_binary(kind))


def _width(kind: pa.DataType) -> int:
    """Bytes of a value, or 0 if values differ in size."""
    t = pa.types
    if t.is_nested(kind) or t.is_dictionary(kind) or t.is_run_end_encoded(kind):
        return 0
    try:
        return int(kind.bit_width) // 8
    except ValueError:
        return 0


def _valid(array: pa.Array) -> NDArray[np.bool_]:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _ends(sizes: NDArray[Any]) -> Ints:
    out = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=out[1:])
    return out


def _offsets(array: pa.Array) -> Ints:
    """Where each value begins in the array's bytes or elements, slices included."""
    if len(array) == 0 or array.buffers()[1] is None:
        return np.zeros(len(array) + 1, np.int64)
    raw = np.frombuffer(array.buffers()[1], np.int64 if _is_large(array.type) else np.int32)
    return raw[array.offset : array.offset + len(array) + 1].astype(np.int64)


# Writing.


def _write_values(array: pa.Array, bounds: Ints, there: NDArray[np.bool_], parts: list[Part]) -> None:
    """Write values that may be null: `array[bounds[r]:bounds[r + 1]]` belongs to row r.

    A value whose parent is null has False in `there`.
    """
    valid = _valid(array) & there
    parts.append(_flags(valid, bounds))
    _write(array, bounds, valid, parts)


def _flags(valid: NDArray[np.bool_], bounds: Ints) -> Part:
    counts = np.diff(bounds)
    if valid.all():
        starts = _ends(counts > 0)
        return np.zeros(int(starts[-1]), np.uint8), starts
    nulls = np.diff(_ends(~valid)[bounds])
    starts = _ends((counts > 0) + np.where(nulls > 0, counts, 0))
    data = np.zeros(int(starts[-1]), np.uint8)
    with_nulls = np.flatnonzero(nulls)
    data[starts[with_nulls]] = 1
    shift = np.repeat(starts[with_nulls] + 1 - bounds[with_nulls], counts[with_nulls])
    at = _ranges(bounds[with_nulls], counts[with_nulls])
    data[at + shift] = valid[at]
    return data, starts


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """The concatenated ranges `start, start + 1, ..., start + size - 1`."""
    ends = _ends(sizes)
    return np.repeat(starts - ends[:-1], sizes) + np.arange(int(ends[-1]))


def _write(array: pa.Array, bounds: Ints, valid: NDArray[np.bool_], parts: list[Part]) -> None:
    """Write the contents of values, once it is known which are null."""
    kind = array.type
    t = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        _write(array.storage, bounds, valid, parts)
    elif t.is_null(kind):
        pass
    elif t.is_struct(kind):
        for at in range(kind.num_fields):
            _write_values(array.field(at), bounds, valid, parts)
    elif t.is_fixed_size_list(kind):
        size = kind.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        _write_values(values, bounds * size, np.repeat(valid, size), parts)
    elif t.is_map(kind) or _is_list(kind):
        within = [array.keys, array.items] if t.is_map(kind) else [array.values]
        starts, ends = _sizes(array, bounds, valid, parts)
        every = np.ones(int(ends[-1]), bool)
        for values in within:
            _write_values(_cut(values, starts, ends), ends[bounds], every, parts)
    elif _is_text(kind):
        starts, ends = _sizes(array, bounds, valid, parts)
        buffer = array.buffers()[2]
        raw = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else _NO_BYTES
        if len(starts) and starts[-1] - starts[0] + ends[-1] - ends[-2] != ends[-1]:
            raw = raw[_ranges(starts, np.diff(ends))]
        elif len(starts):
            raw = raw[starts[0] : starts[0] + ends[-1]]
        parts.append((raw, ends[bounds]))
    else:
        parts.append(_fixed(array, bounds, valid))


def _sizes(array: pa.Array, bounds: Ints, valid: NDArray[np.bool_], parts: list[Part]) -> tuple[Ints, Ints]:
    """Write the length of each value; return where each begins, and where it ends among the non-null ones."""
    offsets = _offsets(array)
    sizes = np.where(valid, np.diff(offsets), 0)
    parts.append((sizes.astype(np.int32).view(np.uint8), 4 * bounds))
    return offsets[:-1], _ends(sizes)


def _cut(values: pa.Array, starts: Ints, ends: Ints) -> pa.Array:
    """The elements of all lists, concatenated."""
    total = int(ends[-1])
    if len(starts) and starts[-1] - starts[0] + ends[-1] - ends[-2] == total:
        return values.slice(int(starts[0]), total)
    return values.take(pa.array(_ranges(starts, np.diff(ends))))


def _fixed(array: pa.Array, bounds: Ints, valid: NDArray[np.bool_]) -> Part:
    kind, n = array.type, len(array)
    buffer = array.buffers()[1]
    if buffer is None or n == 0:
        width = 1 if pa.types.is_boolean(kind) else _width(kind)
        return np.zeros(n * width, np.uint8), bounds * width
    raw = np.frombuffer(buffer, np.uint8)
    if pa.types.is_boolean(kind):
        bits = np.unpackbits(raw, bitorder="little", count=array.offset + n)[array.offset :]
        return bits * valid, bounds
    width = _width(kind)
    raw = raw[array.offset * width : (array.offset + n) * width]
    if not valid.all():
        raw = (raw.reshape(n, width) * valid[:, None]).reshape(-1)
    return raw, bounds * width


@compiled
def _put(out, at, data, starts):
    """Append each row's bytes at its position, and advance the position."""
    for r in range(len(at)):
        p = at[r]
        for j in range(starts[r], starts[r + 1]):
            out[p] = data[j]
            p += 1
        at[r] = p


# Reading.


def _read_values(kind: pa.DataType, counts: Ints, at: Ints, data: Bytes) -> pa.Array:
    """Read `counts[r]` values of each row from position `at[r]`, and advance the position."""
    valid = np.ones(int(counts.sum()), np.uint8)
    _take_flags(data, at, counts, valid)
    return _read(kind, counts, at, data, valid.view(bool))


def _read(kind: pa.DataType, counts: Ints, at: Ints, data: Bytes, valid: NDArray[np.bool_]) -> pa.Array:
    t = pa.types
    n = len(valid)
    mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _read(kind.storage_type, counts, at, data, valid))
    if t.is_null(kind):
        return pa.nulls(n)
    if t.is_struct(kind):
        fields = [_read_values(field.type, counts, at, data) for field in kind]
        return pa.Array.from_buffers(kind, n, [mask], children=fields)
    if t.is_fixed_size_list(kind):
        values = _read_values(kind.value_type, counts * kind.list_size, at, data)
        return pa.Array.from_buffers(kind, n, [mask], children=[values])
    if t.is_map(kind) or _is_list(kind) or _is_text(kind):
        ends = _ends(_run(data, at, 4 * counts).view(np.int32))
        place = pa.py_buffer(ends if _is_large(kind) else ends.astype(np.int32))
        bounds = _ends(counts)
        within = np.diff(ends[bounds])
        if _is_text(kind):
            return pa.Array.from_buffers(kind, n, [mask, place, pa.py_buffer(_run(data, at, within))])
        if _is_list(kind):
            values = _read_values(kind.value_type, within, at, data)
        else:
            pairs = [_read_values(entry, within, at, data) for entry in (kind.key_type, kind.item_type)]
            entries = pa.struct([kind.key_field, kind.item_field])
            values = pa.Array.from_buffers(entries, len(pairs[0]), [None], children=pairs)
        return pa.Array.from_buffers(kind, n, [mask, place], children=[values])
    if t.is_boolean(kind):
        bits = np.packbits(_run(data, at, counts).view(bool), bitorder="little")
        return pa.Array.from_buffers(kind, n, [mask, pa.py_buffer(bits)])
    return pa.Array.from_buffers(kind, n, [mask, pa.py_buffer(_run(data, at, counts * _width(kind)))])


def _run(data: Bytes, at: Ints, sizes: Ints) -> Bytes:
    out = np.empty(int(sizes.sum()), np.uint8)
    _take(data, at, sizes, out)
    return out


@compiled
def _take(data, at, sizes, out):
    """Each row's next bytes, concatenated."""
    p = 0
    for r in range(len(at)):
        a = at[r]
        for j in range(a, a + sizes[r]):
            out[p] = data[j]
            p += 1
        at[r] = a + sizes[r]


@compiled
def _take_flags(data, at, counts, valid):
    """Each row's null flags."""
    p = 0
    for r in range(len(at)):
        n = counts[r]
        if n > 0:
            a = at[r] + 1
            if data[a - 1]:
                for j in range(n):
                    valid[p + j] = data[a + j]
                a += n
            at[r] = a
            p += n
