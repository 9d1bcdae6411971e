# mypy: allow-untyped-defs, allow-untyped-calls
"""Keys as compiled code sees them: one int64, or one byte string, with the 64-bit hash that chose the bin.

A single integer, date, timestamp or boolean column stays an int64 with a null flag. Any other key
(strings, decimals, several columns) is written as one byte string, column after column: a flag (0 null, 1
value), then 8 or 16 bytes, or a length and the bytes. Two keys are equal if and only if their encodings
are, so equality is exact and never depends on the hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.state.lanes import NO_BYTES, NO_INTS, Lane, LaneColumn, carrier_of, from_lane, lane_of, to_lane


@dataclass(frozen=True)
class KeyColumn:
    """The keys of many rows.

    `offsets` is empty for fixed keys, `valid` is empty if no key is null, and `parts` is empty
    if a key has one row.
    """

    hashes: NDArray[np.int64]
    data: NDArray[Any]
    valid: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    parts: NDArray[np.int64] = field(default_factory=lambda: NO_INTS)

    @classmethod
    def fixed(
        cls, data: NDArray[np.int64], *, hashes: NDArray[np.int64], valid: NDArray[np.uint8] = NO_BYTES
    ) -> KeyColumn:
        """Keys that are one int64 each."""
        return cls(hashes, data, valid, NO_INTS)

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True)
class KeySpec:
    """Names and Arrow types of the key columns."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lane of each column."""
        named = zip(self.names, self.types, strict=True)
        return tuple(lane_of(t, f"key column {n!r}", "cannot be a key") for n, t in named)

    @cached_property
    def is_fixed(self) -> bool:
        """Whether the key is a single int64."""
        return self.lanes == (Lane.I64,)

    def encode(self, columns: list[pa.Array], hashes: NDArray[np.int64]) -> KeyColumn:
        """Convert Arrow key columns to keys."""
        if self.is_fixed:
            lane = to_lane(columns[0])
            return KeyColumn(hashes, lane.data, lane.valid, NO_INTS)
        offsets, data = pack(columns, len(hashes))
        return KeyColumn(hashes, data, NO_BYTES, offsets)

    def decode(self, keys: KeyColumn) -> list[pa.Array]:
        """Convert keys back to Arrow columns of the declared types."""
        if self.is_fixed:
            return [from_lane(LaneColumn(Lane.I64, keys.data, keys.valid), self.types[0])]
        return unpack(keys.offsets[:-1], keys.data, self.types)


def pack(columns: list[pa.Array], rows: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Rows of any columns as byte strings: (offsets, bytes)."""
    lanes = [to_lane(c) for c in columns]
    sizes = np.zeros(rows, np.int64)
    for lane in lanes:
        _add_sizes(sizes, _WIDTHS[lane.lane], lane.valid, lane.offsets)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    for lane in lanes:
        _write(data, at, _WIDTHS[lane.lane], _raw(lane), lane.valid, lane.offsets)
    return offsets, data


def unpack(
    starts: NDArray[np.int64], data: NDArray[np.uint8], types: Sequence[pa.DataType]
) -> list[pa.Array]:
    """The columns of rows that `pack` wrote; row i begins at `starts[i]`."""
    n, at = len(starts), starts.copy()
    out = []
    for kind in types:
        lane = carrier_of(kind)
        valid = np.empty(n, np.uint8)
        width = _WIDTHS[lane]
        if lane is Lane.BYTES:
            offsets = np.zeros(n + 1, np.int64)
            _read_sizes(data, at, valid, offsets)
            raw = np.empty(int(offsets[-1]), np.uint8)
            _read_bytes(data, at, valid, offsets, raw)
            out.append(from_lane(LaneColumn(lane, raw, valid, offsets), kind))
            continue
        raw = np.zeros(n * width, np.uint8)
        _read_fixed(data, at, valid, width, raw)
        wide = raw.view(np.float64 if lane is Lane.F64 else np.int64)
        out.append(from_lane(LaneColumn(lane, wide, valid), kind))
    return out


_WIDTHS = {Lane.I64: 8, Lane.F64: 8, Lane.I128: 16, Lane.BYTES: 0}


def _raw(lane: LaneColumn) -> NDArray[np.uint8]:
    return np.ascontiguousarray(lane.data).view(np.uint8)


@compiled
def _add_sizes(sizes, width, valid, offsets):
    for i in range(len(sizes)):
        sizes[i] += 1
        if len(valid) == 0 or valid[i]:
            sizes[i] += width if width else 4 + offsets[i + 1] - offsets[i]


@compiled
def _write(out, at, width, data, valid, offsets):
    for i in range(len(at)):
        p = at[i]
        if len(valid) > 0 and valid[i] == 0:
            out[p] = 0
            at[i] = p + 1
            continue
        out[p] = 1
        p += 1
        if width:
            for j in range(width):
                out[p + j] = data[i * width + j]
            at[i] = p + width
            continue
        n = offsets[i + 1] - offsets[i]
        for j in range(4):
            out[p + j] = (n >> (8 * j)) & 255
        p += 4
        for j in range(n):
            out[p + j] = data[offsets[i] + j]
        at[i] = p + n


@compiled
def _read_fixed(data, at, valid, width, out):
    for i in range(len(at)):
        valid[i] = data[at[i]]
        at[i] += 1
        if valid[i]:
            for j in range(width):
                out[i * width + j] = data[at[i] + j]
            at[i] += width


@compiled
def _read_sizes(data, at, valid, offsets):
    for i in range(len(at)):
        p = at[i]
        valid[i] = data[p]
        n = np.int64(0)
        if valid[i]:
            for j in range(4):
                n |= np.int64(data[p + 1 + j]) << (8 * j)
        offsets[i + 1] = offsets[i] + n


@compiled
def _read_bytes(data, at, valid, offsets, out):
    for i in range(len(at)):
        p = at[i] + 1
        if valid[i]:
            n = offsets[i + 1] - offsets[i]
            for j in range(n):
                out[offsets[i] + j] = data[p + 4 + j]
            p += 4 + n
        at[i] = p
