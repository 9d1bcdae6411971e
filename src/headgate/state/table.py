"""One bin's table: keys with their state, in flat arrays that compiled code updates in place.

A table lives in one buffer given by an *allocator* (private memory by default, a shared mapping in a Spark
task), so that it can be handed from process to process without being copied. It remembers which rows a batch
touched; that is what the delta is made of. Cost of every call: the rows given, never the rows kept; growing
is amortised by doubling.

Not here: files, versions, and who may write (see `headgate.spark.bin_cache`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.state import kernels as k
from headgate.state.keys import KeyColumn
from headgate.state.layout import HEAD_SLOTS, Kind, StateLayout, head

Allocator = Callable[[int], NDArray[np.uint8]]
SMALLEST = 16


def private_memory(nbytes: int) -> NDArray[np.uint8]:
    """Zeroed memory of this process."""
    return np.zeros(nbytes, np.uint8)


class BinTable:
    """Keys and state of one bin.

    >>> from headgate.state.layout import StateColumn
    >>> layout = StateLayout(True, (StateColumn("n", Kind.I64),))
    >>> table = BinTable.create(layout)
    >>> keys = KeyColumn.fixed(np.array([7, 7, 9]), hashes=np.array([1, 1, 2]))
    >>> slots = table.probe(keys, np.arange(3))
    >>> np.add.at(table.arrays["n"], slots, 1); table.rows, table.arrays["n"][:2].tolist()
    (2, [2, 1])
    """

    def __init__(
        self, layout: StateLayout, buffer: NDArray[np.uint8], allocate: Allocator = private_memory
    ) -> None:
        self.layout = layout
        self._allocate = allocate
        self._attach(buffer)

    @classmethod
    def create(
        cls, layout: StateLayout, allocate: Allocator = private_memory, *, rows: int = SMALLEST, heap: int = 0
    ) -> BinTable:
        """An empty table with room for `rows` keys."""
        capacity = SMALLEST
        while capacity < rows:
            capacity *= 2
        heap = max((heap + 7) & ~7, 8 * SMALLEST if layout.heap_refs else 0)
        buffer = allocate(layout.nbytes(capacity, heap))
        header = buffer[: 8 * HEAD_SLOTS].view(np.int64)
        header[head.CAPACITY], header[head.INDEX], header[head.HEAP_SIZE] = capacity, 2 * capacity, heap
        header[head.EPOCH] = 1
        table = cls(layout, buffer, allocate)
        table.arrays["index"][:] = -1
        return table

    def _attach(self, buffer: NDArray[np.uint8]) -> None:
        header = buffer[: 8 * HEAD_SLOTS].view(np.int64)
        self.buffer = buffer
        self.header, self.arrays, self.heap = self.layout.views(
            buffer, int(header[head.CAPACITY]), int(header[head.HEAP_SIZE])
        )
        self.heap64 = self.heap.view(np.float64)

    @property
    def rows(self) -> int:
        """Keys in this table."""
        return int(self.header[head.ROWS])

    @property
    def state_bytes(self) -> int:
        """Bytes of live state (keys, columns, heap), without spare room."""
        live = int(self.header[head.HEAP_USED] - self.header[head.HEAP_GARBAGE])
        return self.rows * self.layout.row_bytes + live

    @property
    def touched(self) -> NDArray[np.int32]:
        """Rows changed since `begin`, in the order of their first change."""
        return self.arrays["touched"][: int(self.header[head.TOUCHED])]

    @property
    def touches(self) -> NDArray[np.int64]:
        """How many rows of the batch each touched row has had: the exact frequency of its key."""
        return self.arrays["stamp"][self.touched] & 0xFFFFFFFF

    def begin(self) -> None:
        """A new batch: nothing is touched yet."""
        rows = self.touched
        for column in self.layout.columns:
            if column.kind is Kind.RING:
                self.arrays[f"{column.name}.fresh"][rows] = 0
        self.header[head.TOUCHED] = 0
        self.header[head.EPOCH] += 1
        if self.header[head.EPOCH] >= 2**31 - 1:
            self.arrays["stamp"][:] = 0
            self.header[head.EPOCH] = 1

    def probe(self, keys: KeyColumn, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find or insert the rows of `keys` in the given order; returns their slots and marks them
        touched.
        """
        slots = np.empty(len(order), np.int64)
        at, end = 0, len(order)
        while at < end:
            a = self.arrays
            common = (self.header, a["index"], a["hash"], a["stamp"], a["touched"])
            if self.layout.fixed_key:
                at = k.probe_fixed(
                    *common,
                    a["key"],
                    a["key.null"],
                    order,
                    at,
                    end,
                    keys.hashes,
                    keys.data,
                    keys.valid,
                    slots,
                )
            else:
                at = k.probe_bytes(
                    *common,
                    a["key.off"],
                    a["key.len"],
                    self.heap,
                    order,
                    at,
                    end,
                    keys.hashes,
                    keys.offsets,
                    keys.data,
                    slots,
                )
            if at < end:
                self.grow()
        return slots

    def find(self, keys: KeyColumn, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of `keys` in the given order, -1 where there is none; counts them as touched. Null fixed keys have none."""
        slots = np.empty(len(order), np.int64)
        a = self.arrays
        if self.layout.fixed_key:
            fixed = (self.header, a["index"], a["stamp"], a["touched"], a["key"], a["key.null"])
            k.find_fixed(*fixed, order, keys.hashes, keys.data, keys.valid, slots)
        else:
            where = (a["key.off"], a["key.len"], self.heap)
            varied = (self.header, a["index"], a["hash"], a["stamp"], a["touched"], *where)
            k.find_bytes(*varied, order, keys.hashes, keys.offsets, keys.data, slots)
        return slots

    def run(self, step: Callable[[int], int], end: int) -> None:
        """Drive a resumable kernel `step(from) -> stopped at` to the end, growing the table whenever it
        stops.
        """
        at = step(0)
        while at < end:
            self.grow()
            at = step(at)

    def ring_parts(self, name: str) -> tuple[NDArray[Any], ...]:
        """The arrays of a ring, in the order in which the kernels take them."""
        return tuple(self.arrays[f"{name}.{part}"] for part in ("off", "len", "cap", "at", "fresh"))

    def grow(self) -> None:
        """Make room for what the last kernel was short of."""
        rows, capacity = self.rows, int(self.header[head.CAPACITY])
        heap_size = int(self.header[head.HEAP_SIZE])
        used, garbage = int(self.header[head.HEAP_USED]), int(self.header[head.HEAP_GARBAGE])
        if int(self.header[head.NEED]) == k.SHORT_OF_ROWS:
            capacity *= 2
        elif garbage * 2 <= used or heap_size < 1024:  # `<=`: an empty heap has to grow for its first string
            heap_size = max(2 * heap_size, 1024)
        old_header, old, old_heap = self.header, self.arrays, self.heap
        buffer = self._allocate(self.layout.nbytes(capacity, heap_size))
        header = buffer[: 8 * HEAD_SLOTS].view(np.int64)
        header[: head.OWNER] = old_header[: head.OWNER]
        header[head.CAPACITY], header[head.INDEX], header[head.HEAP_SIZE] = capacity, 2 * capacity, heap_size
        self._attach(buffer)
        for name, array in self.arrays.items():
            if name != "index":
                kept = int(header[head.TOUCHED]) if name == "touched" else rows
                array[:kept] = old[name][:kept]
        k.reindex(self.header, self.arrays["index"], self.arrays["hash"])
        at = 0
        for off, size, unit in self.layout.heap_refs:
            at = k.move_heap(old_heap, self.heap, self.arrays[off], self.arrays[size], unit, rows, at)
        header[head.HEAP_USED], header[head.HEAP_GARBAGE] = at, 0
