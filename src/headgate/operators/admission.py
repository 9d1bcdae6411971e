"""What a channel does with its rows: now, or later.

Rows come in order: first those that waited, then the batch's own. Rows of bins that are asleep (their state is on disk, or on
its way) wait. Once the channel is late the others wait too, as far as there is room: when it runs out, the oldest are processed.

Law: the rows of a bin are processed or left in the order in which they came; each is one or the other, once; and what is
left beside the rows of sleeping bins never takes more than the room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.state.kernels import sort_by_bin

Entry = TypeVar("Entry")
Process = Callable[[pa.RecordBatch, NDArray[np.int32]], None]


@dataclass(frozen=True)
class _Part:
    """Rows of one bin, of this batch, that queue up."""

    bin: int
    rows: pa.RecordBatch


class Admission(Generic[Entry]):
    """Rows in; `process` is called with what is done now.

    An entry stands for rows that waited, of any bins that are awake, and is read only when it is its turn.
    """

    def __init__(
        self,
        process: Process,
        read: Callable[[Entry], tuple[pa.RecordBatch, NDArray[np.int32]]],
        *,
        asleep: frozenset[int] = frozenset(),
        late: Callable[[], bool] = lambda: False,
        room: int = 0,
    ) -> None:
        self._process, self._read, self._asleep, self._late = process, read, asleep, late
        self._room = room
        self._held = 0
        self._queue: deque[_Part | Entry] = deque()
        self._sleeping: dict[int, list[pa.RecordBatch]] = {}
        self.taken: list[Entry] = []
        """Entries whose rows were processed."""

    def resume(self, entry: Entry) -> None:
        """Rows that waited."""
        if self._waits():
            self._queue.append(entry)
        else:
            self._take(entry)

    def add(self, rows: pa.RecordBatch, bins: NDArray[np.int32]) -> None:
        """Rows of any bins, in order."""
        waits = self._waits()
        if not waits and not self._asleep:
            self._process(rows, bins)
            return
        if self._asleep:
            sleeping = np.isin(bins, np.fromiter(self._asleep, np.int32))
            if sleeping.any():
                for bin, part in _by_bin(rows, bins, sleeping):
                    self._sleeping.setdefault(bin, []).append(part)
                awake = pa.array(np.flatnonzero(~sleeping))
                rows, bins = rows.take(awake), bins[~sleeping]
        if not waits:
            if rows.num_rows:
                self._process(rows, bins)
            return
        for bin, part in _by_bin(rows, bins, np.ones(len(bins), bool)):
            self._queue.append(_Part(bin, part))
            self._held += part.nbytes
        while self._held > self._room:
            oldest = self._queue.popleft()
            if isinstance(oldest, _Part):
                self._held -= oldest.rows.nbytes
                self._process(oldest.rows, np.full(oldest.rows.num_rows, oldest.bin, np.int32))
            else:
                self._take(oldest)

    def left(self) -> dict[int, list[pa.RecordBatch]]:
        """The batch's rows that are to wait, by bin, in order. Entries that were not taken wait on."""
        found = {bin: list(parts) for bin, parts in self._sleeping.items()}
        for item in self._queue:
            if isinstance(item, _Part):
                found.setdefault(item.bin, []).append(item.rows)
        return found

    def _waits(self) -> bool:
        """Whether the next rows queue up: behind others, or because it is late. Without room nobody is."""
        return bool(self._queue) or (self._room > 0 and self._late())

    def _take(self, entry: Entry) -> None:
        self._process(*self._read(entry))
        self.taken.append(entry)


def _by_bin(
    rows: pa.RecordBatch, bins: NDArray[np.int32], chosen: NDArray[np.bool_]
) -> list[tuple[int, pa.RecordBatch]]:
    """The chosen rows, apart by bin, in order."""
    where = np.flatnonzero(chosen)
    if not len(where):
        return []
    mine = bins[where]
    order, starts = sort_by_bin(mine, int(mine.max()) + 1)
    return [
        (bin, rows.take(pa.array(where[order[starts[bin] : starts[bin + 1]]])))
        for bin in np.flatnonzero(np.diff(starts)).tolist()
    ]
