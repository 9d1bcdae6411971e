# mypy: allow-untyped-defs, allow-untyped-calls
"""Columns that compiled code writes while it parses values: 64 bits for each item, and whether it is there.

The bits are a number, those of a float, the length of a list, or where bytes are: the place in the
data in the upper half, the length in the lower. Where an item is null, the bits are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.state.lanes import bitmap

Ints = NDArray[np.int64]
LARGEST = (1 << 31) - 1


class Lanes:
    """The columns of some values, which lie in `data` one after another and begin after a header of
    `skipped` bytes. `more` stands behind them. `room` says how many items each column takes; it is
    kept from one use to the next, and grows.
    """

    def __init__(self, values: Sequence[bytes], skipped: int, more: bytes, room: Ints) -> None:
        self.ends = np.fromiter(accumulate(map(len, values)), np.int64, len(values))
        self.size = int(self.ends[-1])
        if self.size > LARGEST:
            raise ValueError("has more than 2 GB")
        self.begins = np.concatenate([[0], self.ends[:-1]]) + skipped
        self.data = np.frombuffer(b"".join([*values, more, b"\0"]), np.uint8)
        self.room = room
        self.status = np.zeros(len(values), np.int64)

    def fill(self, run: Callable[..., Any], *arguments: Any) -> None:
        """Parse all values with compiled code, which returns the column that is full, or -1. If one is, it
        and those that are not larger get twice the room, and all is done anew.
        """
        full = 0
        np.maximum(self.room, len(self.ends), out=self.room)
        while full >= 0:
            self.base = np.concatenate([[0], np.cumsum(self.room)])
            self._values = np.empty(self.base[-1], np.int64)
            self._valid = np.empty(self.base[-1], np.uint8)
            self.filled = np.zeros(len(self.room), np.int64)
            self.status[:] = 0
            full = int(
                run(
                    self.data, self.begins, self.ends, self._values, self._valid, self.base, self.room, self.filled,
                    np.zeros_like(self.filled), self.status, *arguments,
                )
            )  # fmt: skip
            if full >= 0:
                self.room[self.room <= self.room[full]] *= 2

    def values(self, column: int) -> Ints:
        """What was written to a column."""
        return self._values[self.base[column] : self.base[column] + self.filled[column]]

    def mask(self, column: int) -> pa.Buffer | None:
        """Arrow's bitmap of the items that are there; None if all are."""
        return bitmap(self._valid[self.base[column] : self.base[column] + self.filled[column]])


def packed(values: Ints, kind: type) -> pa.Buffer:
    """Numbers as a buffer of Arrow."""
    return pa.py_buffer(np.ascontiguousarray(values.astype(kind, copy=False)))


def packed_bits(values: Ints) -> pa.Buffer:
    """Whether numbers are not zero, as a buffer of Arrow."""
    return pa.py_buffer(np.packbits(values != 0, bitorder="little"))


def offsets_of(lengths: Ints) -> pa.Buffer:
    """Where lists begin and end."""
    return packed(_ends(lengths), np.int32)


def bytes_of(lanes: Lanes, places: Ints, mask: pa.Buffer | None, *, text: bool, what: str) -> pa.Array:
    """Bytes or text; raise `ValueError` if it is not UTF-8, or too much."""
    ends = _ends(places & 0xFFFFFFFF)
    if ends[-1] > LARGEST:
        raise ValueError(f"has more than 2 GB in field {what}")
    buffers = [mask, packed(ends, np.int32), pa.py_buffer(_gathered(lanes.data, places, ends))]
    array = pa.Array.from_buffers(pa.string() if text else pa.binary(), len(places), buffers)
    if text:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise ValueError(f"has text in field {what} that is not UTF-8") from error
    return array


def decimals_of(pairs: Ints, kind: pa.DataType, mask: pa.Buffer | None) -> pa.Array:
    """Decimals of (low, high) pairs."""
    return pa.Array.from_buffers(kind, len(pairs) // 2, [mask, pa.py_buffer(pairs)])


def _ends(lengths: Ints) -> Ints:
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


@compiled
def _gathered(data, places, ends):
    """The bytes at packed places one after another; `ends` has where each ends."""
    out = np.empty(ends[-1], np.uint8)
    for i in range(len(places)):
        begin, to = places[i] >> 32, ends[i]
        for k in range(ends[i + 1] - to):
            out[to + k] = data[begin + k]
    return out


@compiled
def wide_integers(data, places):
    """Big-endian integers as (low, high) pairs of 64 bits, and the first that has more than 128 bits, or -1."""
    out, wrong = np.zeros(2 * len(places), np.int64), -1
    for i in range(len(places)):
        begin, size = places[i] >> 32, places[i] & 0xFFFFFFFF
        if size == 0:
            continue
        fill = np.uint64(0xFF) if data[begin] >= 0x80 else np.uint64(0)
        low = high = np.uint64(0) if fill == 0 else ~np.uint64(0)
        for k in range(size):
            if k < size - 16 and np.uint64(data[begin + k]) != fill and wrong < 0:
                wrong = i
            high = (high << np.uint64(8)) | (low >> np.uint64(56))
            low = (low << np.uint64(8)) | np.uint64(data[begin + k])
        if size > 16 and (data[begin + size - 16] >= 0x80) != (fill != 0) and wrong < 0:
            wrong = i
        out[2 * i], out[2 * i + 1] = np.int64(low), np.int64(high)
    return out, wrong
