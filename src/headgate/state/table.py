"""One bin's table: keys with their state, in flat arrays that compiled code updates in place.

A table is stored in one buffer from an *allocator* (private memory by default, a shared mapping in a
Spark task), so that processes can share it without a copy. It remembers which rows a batch touched and
which it removed; the delta consists of these. A removed row keeps its place until the next batch
begins; then the place can be reused. The cost of every call depends on the rows given, never on the
rows stored; growing is amortised by doubling.

Not here: files, versions, and who may write (see `headgate.storage.bin_cache`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.state import index as ix
from headgate.state import kernels as k
from headgate.state.keys import KeyColumn
from headgate.state.lanes import NO_INTS
from headgate.state.layout import HEAD_SLOTS, Kind, StateLayout, head

Allocator = Callable[[int], NDArray[np.uint8]]
SMALLEST = 16
_NO_LINKS = np.zeros(0, np.int32)


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
        header[head.EPOCH], header[head.DUE] = 1, ix.FOREVER
        table = cls(layout, buffer, allocate)
        table.arrays["index"][:] = -1
        if layout.grouped:
            table.arrays["heads"][:] = -1
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
        """The number of rows: one for each key, or for each part of a key."""
        h = self.header
        return int(h[head.ROWS] - h[head.FREED] - h[head.REMOVED])

    @property
    def live(self) -> NDArray[np.int64]:
        """The row numbers of all rows."""
        return np.flatnonzero(self.arrays["stamp"][: int(self.header[head.ROWS])] >= 0)

    @property
    def due(self) -> int:
        """No row is due before this time; `FOREVER` if no row is ever due.

        An operator lowers it, and `take_due` computes it again.
        """
        return int(self.header[head.DUE])

    @due.setter
    def due(self, time: int) -> None:
        self.header[head.DUE] = time

    @property
    def state_bytes(self) -> int:
        """Bytes of live state (keys, columns, heap), without unused capacity."""
        live = int(self.header[head.HEAP_USED] - self.header[head.HEAP_GARBAGE])
        return self.rows * self.layout.row_bytes + live

    @property
    def touched(self) -> NDArray[np.int32]:
        """Rows changed and not removed since `begin`, in the order of their first change."""
        return self._of(self.changed, removed=False) if self._removed else self.changed

    @property
    def removed(self) -> NDArray[np.int32]:
        """Rows removed since `begin`; their keys can still be read."""
        return self._of(self.changed, removed=True) if self._removed else self.changed[:0]

    def _of(self, rows: NDArray[np.int32], *, removed: bool) -> NDArray[np.int32]:
        return np.asarray(ix.removed_of(self.arrays["stamp"], rows, removed))

    @property
    def changed(self) -> NDArray[np.int32]:
        """Rows touched or removed since `begin`."""
        return self.arrays["touched"][: int(self.header[head.TOUCHED])]

    @property
    def _removed(self) -> bool:
        return bool(self.header[head.REMOVED])

    @property
    def touches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The hash of every row that the batch changed or removed, and the number of input rows for it.

        The number is the exact frequency of the key.
        """
        changed = self.changed
        return self.arrays["hash"][changed], np.abs(self.arrays["stamp"][changed]) & 0xFFFFFFFF

    def begin(self) -> None:
        """Begin a new batch: nothing is touched yet, and rows that the last batch removed become free."""
        rows = self.changed
        for column in self.layout.columns:
            if column.kind is Kind.RING:
                self.arrays[f"{column.name}.fresh"][rows] = 0
        self._release(self.removed)
        self.header[head.TOUCHED] = 0
        self.header[head.EPOCH] += 1
        if self.header[head.EPOCH] >= 2**31 - 1:
            stamp = self.arrays["stamp"]
            stamp[stamp > 0] = 0
            self.header[head.EPOCH] = 1

    def _release(self, rows: NDArray[np.int32]) -> None:
        if not len(rows):
            return
        for _, size, unit in self.layout.heap_refs:
            self.header[head.HEAP_GARBAGE] += int(((self.arrays[size][rows] * unit + 7) & ~7).sum())
        for name, array in self.arrays.items():
            if name not in ("index", "heads", "touched", "hash", "stamp"):
                ix.zero(array, rows)
        ix.free_all(self.header, self.arrays["hash"], self.arrays["stamp"], rows)

    def _links(self) -> tuple[NDArray[Any], ...]:
        a = self.arrays
        part = a["part"] if self.layout.parts else NO_INTS
        if not self.layout.grouped:
            return part, _NO_LINKS, _NO_LINKS, _NO_LINKS
        return part, a["heads"], a["next"], a["prev"]

    def probe(
        self, keys: KeyColumn, order: NDArray[np.int64], parts: NDArray[np.int64] = NO_INTS
    ) -> NDArray[np.int64]:
        """Find or insert the rows of `keys` in the given order, mark them touched, and return their slots.

        `parts[i]` is the part of `order[i]`.
        """
        slots = np.empty(len(order), np.int64)
        at, end = 0, len(order)
        while at < end:
            a = self.arrays
            common = (self.header, a["index"], a["hash"], a["stamp"], a["touched"], *self._links())
            if self.layout.fixed_key:
                given = (keys.hashes, keys.data, keys.valid, parts, slots)
                at = ix.probe_fixed(*common, a["key"], a["key.null"], order, at, end, *given)
            else:
                where = (a["key.off"], a["key.len"], self.heap)
                given = (keys.hashes, keys.offsets, keys.data, parts, slots)
                at = ix.probe_bytes(*common, *where, order, at, end, *given)
            if at < end:
                self.grow()
        return slots

    def find(
        self, keys: KeyColumn, order: NDArray[np.int64], parts: NDArray[np.int64] = NO_INTS
    ) -> NDArray[np.int64]:
        """The rows of `keys` in the given order, -1 where there is none. Nothing is inserted or touched."""
        return self._sought("index", self._links()[0], keys, order, parts)

    def first(self, keys: KeyColumn, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first row of each key, -1 where there is none.

        `arrays["next"]` has the number of the key's next row plus one, or 0 at the end.
        """
        return self._sought("heads", NO_INTS, keys, order, NO_INTS)

    def _sought(
        self,
        index: str,
        part: NDArray[np.int64],
        keys: KeyColumn,
        order: NDArray[np.int64],
        parts: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        slots = np.empty(len(order), np.int64)
        a = self.arrays
        if self.layout.fixed_key:
            stored = (a[index], a["key"], a["key.null"], part)
            ix.find_fixed(*stored, order, keys.hashes, keys.data, keys.valid, parts, slots)
        else:
            where = (a[index], a["hash"], a["key.off"], a["key.len"], self.heap, part)
            ix.find_bytes(*where, order, keys.hashes, keys.offsets, keys.data, parts, slots)
        return slots

    def count(self, slots: NDArray[np.int64]) -> None:
        """Count the rows that `find` returned (except -1) as touched."""
        ix.touch_found(self.header, self.arrays["stamp"], self.arrays["touched"], slots)

    def mark(self, rows: NDArray[np.int64]) -> None:
        """Note that these rows changed in this batch without an input row."""
        ix.mark_all(self.header, self.arrays["stamp"], self.arrays["touched"], rows)

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Remove rows: from now on their keys are not found.

        Slots that a caller holds stay valid until the next batch, but a later row of such a key
        must be probed again.
        """
        a = self.arrays
        ix.remove_all(self.header, a["index"], a["hash"], a["stamp"], a["touched"], *self._links(), rows)

    def take_due(self, column: str, now: int) -> NDArray[np.int64]:
        """The rows that are due by `now` according to `column`; `due` becomes the earliest time of the others.

        Cost: one pass over the column.
        """
        rows, self.due = ix.due_rows(self.header, self.arrays["stamp"], self.arrays[column], now)
        return np.asarray(rows)

    def run(self, step: Callable[[int], int], end: int) -> None:
        """Run a resumable kernel `step(start) -> stop` to the end, growing the table as needed."""
        at = step(0)
        while at < end:
            self.grow()
            at = step(at)

    def ring_parts(self, name: str) -> tuple[NDArray[Any], ...]:
        """The arrays of a ring, in the order in which the kernels take them."""
        return tuple(self.arrays[f"{name}.{part}"] for part in ("off", "len", "cap", "at", "fresh"))

    def grow(self) -> None:
        """Allocate more of what the last kernel was short of."""
        rows, capacity = int(self.header[head.ROWS]), int(self.header[head.CAPACITY])
        heap_size = int(self.header[head.HEAP_SIZE])
        used, garbage = int(self.header[head.HEAP_USED]), int(self.header[head.HEAP_GARBAGE])
        if int(self.header[head.NEED]) == ix.SHORT_OF_ROWS:
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
            if name not in ("index", "heads"):
                kept = int(header[head.TOUCHED]) if name == "touched" else rows
                array[:kept] = old[name][:kept]
        a, (part, heads, _, prev) = self.arrays, self._links()
        ix.reindex(self.header, a["index"], heads, a["hash"], part, a["stamp"], prev)
        at = 0
        for off, size, unit in self.layout.heap_refs:
            at = k.move_heap(old_heap, self.heap, self.arrays[off], self.arrays[size], unit, rows, at)
        header[head.HEAP_USED], header[head.HEAP_GARBAGE] = at, 0
