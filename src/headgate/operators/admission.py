"""What a channel does with its rows: now, or later.

Rows come in order: first those that waited, then the batch's own. Rows of bins that are asleep (their state is on disk, or on
its way) wait. Of the others, those that waited are processed in any case. Once the channel is late the batch's own wait, as far
as there is room: when it runs out, the oldest are processed. No channel is late before it has begun with them: else one that
has little to do, and is given little time, would do nothing at all.

Law: the rows of a bin are processed or left in the order in which they came; each is one or the other, once; what is left
beside the rows of sleeping bins never takes more than the room; and a row whose bin is awake waits for one batch at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.state.kernels import sort_by_bin

Process = Callable[[pa.RecordBatch, NDArray[np.int32]], None]


class Admission:
    """Rows in; `process` is called with what is done now."""

    def __init__(
        self,
        process: Process,
        *,
        asleep: frozenset[int] = frozenset(),
        late: Callable[[], bool] = lambda: False,
        room: int = 0,
    ) -> None:
        self._process, self._asleep, self._late = process, asleep, late
        self._room = room
        self._held = 0
        self._begun = False
        self._queue: deque[tuple[int, pa.RecordBatch]] = deque()
        self._sleeping: dict[int, list[pa.RecordBatch]] = {}

    def add(self, rows: pa.RecordBatch, bins: NDArray[np.int32]) -> None:
        """The batch's own rows, of any bins, in order; after all that waited, which goes past this to be processed."""
        if self._asleep:
            sleeping = np.isin(bins, np.fromiter(self._asleep, np.int32))
            if sleeping.any():
                for bin, part in _by_bin(rows, bins, sleeping):
                    self._sleeping.setdefault(bin, []).append(part)
                awake = pa.array(np.flatnonzero(~sleeping))
                rows, bins = rows.take(awake), bins[~sleeping]
        if not rows.num_rows:
            return
        if not self._waits():
            self._begun = True
            self._process(rows, bins)
            return
        for bin, part in _by_bin(rows, bins, np.ones(len(bins), bool)):
            self._queue.append((bin, part))
            self._held += part.nbytes
        while self._held > self._room:
            bin, oldest = self._queue.popleft()
            self._held -= oldest.nbytes
            self._process(oldest, np.full(oldest.num_rows, bin, np.int32))

    def left(self) -> dict[int, list[pa.RecordBatch]]:
        """The rows that are to wait, by bin, in order."""
        found = {bin: list(parts) for bin, parts in self._sleeping.items()}
        for bin, rows in self._queue:
            found.setdefault(bin, []).append(rows)
        return found

    def _waits(self) -> bool:
        """Whether the next rows queue up: behind others, or because it is late. Without room nobody is."""
        return bool(self._queue) or (self._begun and self._room > 0 and self._late())


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
