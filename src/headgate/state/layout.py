"""What one bin's table consists of: the key, and named state columns.

A layout is a value: it says which arrays a table of a given capacity has and where each is in one flat
buffer, so that the same table can be in private memory or in a shared mapping. It holds no data itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEAD_SLOTS = 32
"""int64 slots at the start of every table's buffer: first counters (see `head`), then slots for the owner
of the buffer."""


class head:  # a namespace of slot numbers, read by compiled code as constants
    """Slots of a table's header."""

    ROWS, CAPACITY, INDEX, HEAP_USED, HEAP_SIZE, HEAP_GARBAGE, EPOCH, TOUCHED, NEED = range(9)
    FREE, FREED, REMOVED, DUE = range(9, 13)
    OWNER = 16  # slots 16..31 belong to the cache that owns the buffer


class Kind(StrEnum):
    """Kinds of state column. A ring keeps the last `length` float64 values, oldest first."""

    I64 = "i64"
    F64 = "f64"
    U8 = "u8"
    BYTES = "bytes"
    RING = "ring"


@dataclass(frozen=True)
class StateColumn:
    """One named column of state.

    It is zero (or empty) in a new row, so an operator must interpret zero as "nothing yet".
    """

    name: str
    kind: Kind
    length: int = 0


_PARTS: dict[Kind, tuple[tuple[str, type], ...]] = {
    Kind.I64: (("", np.int64),),
    Kind.F64: (("", np.float64),),
    Kind.U8: (("", np.uint8),),
    Kind.BYTES: ((".off", np.int64), (".len", np.int64)),
    Kind.RING: (
        (".off", np.int64),
        (".len", np.int64),
        (".cap", np.int64),
        (".at", np.int64),
        (".fresh", np.int64),
    ),
}
_KEY_PARTS: dict[bool, tuple[tuple[str, type], ...]] = {
    True: (("key", np.int64), ("key.null", np.uint8)),
    False: (("key.off", np.int64), ("key.len", np.int64)),
}


def _padded(nbytes: int) -> int:
    return (nbytes + 7) & ~7


@dataclass(frozen=True)
class StateLayout:
    """The arrays of one bin's table.

    With `fixed_key` a key is one int64 and a null flag; otherwise keys are byte strings in the heap.
    With `parts` a key may have several rows, each with a number (one for each open window, or for each
    row that waits for a match). With `grouped` the rows of a key can be listed.

    >>> layout = StateLayout(True, (StateColumn("n", Kind.I64),))
    >>> sorted(layout.arrays(16))
    ['hash', 'index', 'key', 'key.null', 'n', 'stamp', 'touched']
    """

    fixed_key: bool
    columns: tuple[StateColumn, ...]
    parts: bool = False
    grouped: bool = False

    @property
    def keys_only(self) -> StateLayout:
        """The same keys without any columns: enough to name removed rows."""
        return StateLayout(self.fixed_key, (), self.parts)

    @cached_property
    def row_bytes(self) -> int:
        """Bytes that one key takes in the arrays, without the heap."""
        return sum(dtype.itemsize for dtype, _ in self.arrays(1).values()) + 4

    def arrays(self, capacity: int) -> dict[str, tuple[np.dtype[np.generic], int]]:
        """Array name to (dtype, length), in buffer order."""
        out: dict[str, tuple[np.dtype[np.generic], int]] = {
            "index": (np.dtype(np.int32), 2 * capacity),
            "hash": (np.dtype(np.int64), capacity),
            "stamp": (np.dtype(np.int64), capacity),
            "touched": (np.dtype(np.int32), capacity),
        }
        for name, dtype in _KEY_PARTS[self.fixed_key]:
            out[name] = (np.dtype(dtype), capacity)
        if self.parts:
            out["part"] = (np.dtype(np.int64), capacity)
        if self.grouped:
            out["heads"] = (np.dtype(np.int32), 2 * capacity)
            out["next"] = out["prev"] = (np.dtype(np.int32), capacity)
        for column in self.columns:
            for suffix, dtype in _PARTS[column.kind]:
                out[column.name + suffix] = (np.dtype(dtype), capacity)
        return out

    def nbytes(self, capacity: int, heap_size: int) -> int:
        """Bytes of a whole table's buffer."""
        return self._places(capacity)[1] + _padded(heap_size)

    @cached_property
    def _known(self) -> dict[int, tuple[list[tuple[str, np.dtype[np.generic], int, int]], int]]:
        return {}

    def _places(self, capacity: int) -> tuple[list[tuple[str, np.dtype[np.generic], int, int]], int]:
        """(name, dtype, start, end) of each array in the buffer, and where the heap begins."""
        known = self._known.get(capacity)
        if known is None:
            places, at = [], 8 * HEAD_SLOTS
            for name, (dtype, length) in self.arrays(capacity).items():
                size = dtype.itemsize * length
                places.append((name, dtype, at, at + size))
                at += _padded(size)
            known = self._known[capacity] = places, at
        return known

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def views(
        self, buffer: NDArray[np.uint8], capacity: int, heap_size: int
    ) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]], NDArray[np.uint8]]:
        """The header, the arrays by name and the heap, all views into `buffer`."""
        places, heap = self._places(capacity)
        arrays: dict[str, NDArray[Any]] = {
            name: buffer[start:end].view(dtype) for name, dtype, start, end in places
        }
        return buffer[: 8 * HEAD_SLOTS].view(np.int64), arrays, buffer[heap : heap + heap_size]

    @cached_property
    def heap_refs(self) -> tuple[tuple[str, str, int], ...]:
        """(offset array, size array, bytes per unit of size) of everything that lives in the heap."""
        refs: list[tuple[str, str, int]] = [] if self.fixed_key else [("key.off", "key.len", 1)]
        for column in self.columns:
            if column.kind is Kind.BYTES:
                refs.append((f"{column.name}.off", f"{column.name}.len", 1))
            elif column.kind is Kind.RING:
                refs.append((f"{column.name}.off", f"{column.name}.cap", 8))
        return tuple(refs)

    def fingerprint(self) -> list[list[object]]:
        """JSON-ready identity: two layouts with equal fingerprints read each other's files."""
        return [
            ["key", "fixed" if self.fixed_key else "bytes", int(self.parts)],
            *[[c.name, str(c.kind), c.length] for c in self.columns],
        ]
