"""A piece of one bin's state as bytes: what a batch changed (a delta), or all of it (a snapshot).

Both have one form, rows of (hash, key, columns), and are applied in the same way: find or insert the key,
replace its columns, append to its rings. A delta comes with the keys of the rows that the batch removed;
these are applied first, because a removed key may have returned in the same batch. A snapshot is applied
to an empty table. So `table(snapshot, delta, delta ...)` equals the table that wrote them (a tested law),
and the cost of a delta is what the batch touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.errors import CorruptState
from headgate.state import kernels as k
from headgate.state.keys import KeyColumn
from headgate.state.lanes import NO_BYTES, NO_INTS
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.table import BinTable

_DTYPES = {Kind.I64: np.int64, Kind.F64: np.float64, Kind.U8: np.uint8}
Rows = NDArray[np.int32] | NDArray[np.int64]
Varied = tuple[NDArray[np.int64], NDArray[Any]]
Column = NDArray[Any] | Varied


@dataclass(frozen=True)
class Extract:
    """Rows copied out of a table. A column is one array, or (offsets, values) for byte strings and rings."""

    keys: KeyColumn
    columns: dict[str, Column]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays: about its size in a file."""
        keys = self.keys
        flat = [keys.hashes, keys.data, keys.valid, keys.offsets, keys.parts]
        for values in self.columns.values():
            flat += values if isinstance(values, tuple) else (values,)
        return sum(a.nbytes for a in flat)


@dataclass(frozen=True)
class Change:
    """What a batch did to one bin: the rows that it changed, and the keys of the rows that it removed."""

    rows: Extract
    gone: Extract

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self.rows.nbytes + self.gone.nbytes


def extract(table: BinTable, rows: Rows, *, whole: bool) -> Extract:
    """Copy rows out of a table. For rings, copy the values new in this batch, or (`whole`) all of them."""
    a = table.arrays
    keys = extract_keys(table, rows)
    columns: dict[str, Column] = {}
    for column in table.layout.columns:
        if column.kind is Kind.BYTES:
            columns[column.name] = _gather(table, column.name, rows)
        elif column.kind is Kind.RING:
            off, length, _, at, fresh = table.ring_parts(column.name)
            offsets = k.gather_offsets(length if whole else np.minimum(fresh, length), rows)
            values = np.empty(int(offsets[-1]), np.float64)
            k.ring_gather(table.heap64, off, length, at, rows, offsets, values)
            columns[column.name] = (offsets, values)
        else:
            columns[column.name] = a[column.name][rows]
    return Extract(keys, columns)


def extract_keys(table: BinTable, rows: Rows) -> KeyColumn:
    """Copy the keys of the given rows out of a table."""
    a = table.arrays
    hashes = a["hash"][rows]
    parts = a["part"][rows] if table.layout.parts else NO_INTS
    if table.layout.fixed_key:
        return KeyColumn(hashes, a["key"][rows], _valid(a["key.null"][rows]), NO_INTS, parts)
    offsets, data = _gather(table, "key", rows)
    return KeyColumn(hashes, data, NO_BYTES, offsets, parts)


def extract_removed(table: BinTable) -> Extract:
    """The keys of the rows that the batch removed."""
    return Extract(extract_keys(table, table.removed), {})


def join_extracts(pieces: list[Extract]) -> Extract:
    """Concatenate several pieces of one layout."""
    if len(pieces) == 1:
        return pieces[0]
    hashes = np.concatenate([p.keys.hashes for p in pieces])
    valid = NO_BYTES
    if any(len(p.keys.valid) for p in pieces):
        valid = np.concatenate(
            [p.keys.valid if len(p.keys.valid) else np.ones(len(p), np.uint8) for p in pieces]
        )
    if len(pieces[0].keys.offsets):
        offsets, data = _join([(p.keys.offsets, p.keys.data) for p in pieces])
    else:
        offsets, data = NO_INTS, np.concatenate([p.keys.data for p in pieces])
    columns: dict[str, Column] = {}
    for name, first in pieces[0].columns.items():
        if isinstance(first, tuple):
            columns[name] = _join([c for p in pieces if isinstance(c := p.columns[name], tuple)])
        else:
            columns[name] = np.concatenate([p.columns[name] for p in pieces])
    parts = np.concatenate([p.keys.parts for p in pieces])
    return Extract(KeyColumn(hashes, data, valid, offsets, parts), columns)


def _join(parts: list[Varied]) -> Varied:
    ends = np.cumsum([0, *[int(offsets[-1]) for offsets, _ in parts]])
    offsets = np.concatenate(
        [np.zeros(1, np.int64), *[o[1:] + end for (o, _), end in zip(parts, ends[:-1], strict=True)]]
    )
    return offsets, np.concatenate([data for _, data in parts])


def take(piece: Extract, rows: NDArray[np.int64]) -> Extract:
    """The given rows of a piece."""
    keys = piece.keys
    if len(keys.offsets):
        offsets, data = _take((keys.offsets, keys.data), rows)
    else:
        offsets, data = NO_INTS, keys.data[rows]
    valid = keys.valid[rows] if len(keys.valid) else NO_BYTES
    columns: dict[str, NDArray[np.generic] | Varied] = {
        name: _take(values, rows) if isinstance(values, tuple) else values[rows]
        for name, values in piece.columns.items()
    }
    parts = keys.parts[rows] if len(keys.parts) else NO_INTS
    return Extract(KeyColumn(keys.hashes[rows], data, valid, offsets, parts), columns)


def _take(varied: Varied, rows: NDArray[np.int64]) -> Varied:
    offsets, data = varied
    sizes = np.diff(offsets)[rows]
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    places = np.repeat(offsets[rows] - ends[:-1], sizes) + np.arange(int(ends[-1]))
    return ends, data[places]


def _valid(null: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return (null == 0).astype(np.uint8) if null.any() else NO_BYTES


def _gather(table: BinTable, name: str, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    offsets = k.gather_offsets(table.arrays[f"{name}.len"], rows)
    data = np.empty(int(offsets[-1]), np.uint8)
    k.gather_bytes(table.heap, table.arrays[f"{name}.off"], rows, offsets, data)
    return offsets, data


def encode(piece: Extract, layout: StateLayout) -> list[NDArray[np.uint8]]:
    """The buffers of a section, in file order; the size of each is a multiple of eight bytes."""
    parts = [_bytes(piece.keys.hashes)]
    if layout.fixed_key:
        parts.append(_bytes(piece.keys.data))
        null = 1 - piece.keys.valid if len(piece.keys.valid) else np.zeros(len(piece), np.uint8)
        parts.append(_bytes(null.astype(np.uint8)))
    else:
        parts += [_bytes(np.diff(piece.keys.offsets)), _bytes(piece.keys.data)]
    if layout.parts:
        parts.append(_bytes(piece.keys.parts))
    for column in layout.columns:
        values = piece.columns[column.name]
        if isinstance(values, tuple):
            parts += [_bytes(np.diff(values[0])), _bytes(values[1])]
        else:
            parts.append(_bytes(values))
    return parts


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    raw = np.ascontiguousarray(array).view(np.uint8)
    spare = -len(raw) % 8
    return np.concatenate([raw, np.zeros(spare, np.uint8)]) if spare else raw


def decode(payload: NDArray[np.uint8], rows: int, layout: StateLayout) -> Extract:
    """The reverse of `encode`; a payload that is too short or too long is corrupt."""
    at = 0

    def take(dtype: type, count: int) -> NDArray[Any]:
        nonlocal at
        size = np.dtype(dtype).itemsize * count
        if count < 0 or at + size > len(payload):
            raise CorruptState(f"a section of {rows} rows ends after {len(payload)} bytes, inside a column")
        out: NDArray[Any] = payload[at : at + size].view(dtype)
        at += (size + 7) & ~7
        return out

    def varied(dtype: type) -> Varied:
        sizes = take(np.int64, rows)
        if rows and not 0 <= sizes.min() <= sizes.max() <= len(payload):
            raise CorruptState(
                f"a section of {rows} rows and {len(payload)} bytes holds a value of impossible size"
            )
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return offsets, take(dtype, int(offsets[-1]))

    hashes = take(np.int64, rows)
    if layout.fixed_key:
        data = take(np.int64, rows)
        keys = KeyColumn(hashes, data, _valid(take(np.uint8, rows)), NO_INTS)
    else:
        offsets, text = varied(np.uint8)
        keys = KeyColumn(hashes, text, NO_BYTES, offsets)
    if layout.parts:
        keys = replace(keys, parts=take(np.int64, rows))
    columns: dict[str, Column] = {}
    for column in layout.columns:
        if column.kind is Kind.BYTES:
            columns[column.name] = varied(np.uint8)
        elif column.kind is Kind.RING:
            columns[column.name] = varied(np.float64)
        else:
            columns[column.name] = take(_DTYPES[column.kind], rows)
    if at != len(payload):
        raise CorruptState(f"a section of {rows} rows has {len(payload)} bytes where its columns need {at}")
    return Extract(keys, columns)


def apply(table: BinTable, piece: Extract) -> None:
    """Replace the columns of the piece's keys, and append to their rings."""
    if len(piece) == 0:
        return
    slots = table.probe(piece.keys, np.arange(len(piece)), piece.keys.parts)
    for column in table.layout.columns:
        values = piece.columns[column.name]
        if isinstance(values, tuple):
            table.run(_putter(table, column, slots, *values), len(slots))
        else:
            table.arrays[column.name][slots] = values


def apply_removed(table: BinTable, gone: Extract) -> None:
    """Remove the keys of `gone`; keys that the table does not have are ignored."""
    slots = table.find(gone.keys, np.arange(len(gone)), gone.keys.parts)
    table.remove(slots[slots >= 0])
    table.begin()


def _putter(
    table: BinTable, column: StateColumn, slots: Rows, offsets: NDArray[np.int64], data: NDArray[Any]
) -> Callable[[int], int]:
    """The resumable kernel that stores byte strings or appends to rings.

    A table that grows has new arrays, so the kernel looks them up each time.
    """
    name = column.name

    def put(at: int) -> int:
        off, length = table.arrays[f"{name}.off"], table.arrays[f"{name}.len"]
        return int(k.put_all_bytes(table.header, table.heap, off, length, slots, at, offsets, data))

    def push(at: int) -> int:
        parts = table.ring_parts(name)
        return int(
            k.ring_push_all(table.header, table.heap64, *parts, slots, at, offsets, data, column.length)
        )

    return put if column.kind is Kind.BYTES else push
