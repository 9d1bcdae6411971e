"""Which rows a channel processes in this batch, and which rows wait for a later one.

Rows come in order: first those that already waited, then the rows of this batch. Rows of bins that are
asleep (their state is on disk, or being moved) wait. For the other bins, rows that already waited are
always processed. When the channel is late, rows of this batch wait too, as long as the buffer has room;
when it is full, the oldest are processed, or those of the most urgent bins if bins have deadlines. A channel
is never late before it has processed some rows of this batch; otherwise a channel with little work and little
time would process nothing at all.

Law: the rows of a bin are processed or left in the order in which they came, and each row is either
processed or left, exactly once. The rows that are left, without those of sleeping bins, never exceed the
buffer. A row whose bin is awake waits for at most one batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.state.kernels import sort_by_bin

Process = Callable[[pa.RecordBatch, NDArray[np.int32]], None]


class Admission:
    """Takes rows, and calls `process` with those to be processed now.

    `late` says whether the channel is late; `room` is the size of the buffer for waiting rows, in bytes.
    `deadlines` says which bins are urgent: those with the shortest.
    """

    def __init__(
        self,
        process: Process,
        *,
        asleep: frozenset[int] = frozenset(),
        late: Callable[[], bool] = lambda: False,
        room: int = 0,
        deadlines: Mapping[int, float] | None = None,
    ) -> None:
        self._deadlines: Mapping[int, float] = deadlines or {}
        self._process, self._asleep, self._late = process, asleep, late
        self._room = room
        self._held = 0
        self._begun = False
        self._queue: list[tuple[float, int, int, pa.RecordBatch]] = []
        """A heap: deadline and place in the order of arrival, bin and rows."""
        self._places = count()
        self._sleeping: dict[int, list[pa.RecordBatch]] = {}

    def add(self, rows: pa.RecordBatch, bins: NDArray[np.int32]) -> None:
        """Add rows of this batch, of any bins, in order.

        Call it after the rows that already waited were processed; those do not pass through here.
        """
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
            heappush(self._queue, (self._deadlines.get(bin, math.inf), next(self._places), bin, part))
            self._held += part.nbytes
        while self._held > self._room:
            _, _, bin, first = heappop(self._queue)
            self._held -= first.nbytes
            self._process(first, np.full(first.num_rows, bin, np.int32))

    def left(self) -> dict[int, list[pa.RecordBatch]]:
        """The rows that must wait, by bin, in order."""
        left = {bin: list(parts) for bin, parts in self._sleeping.items()}
        for _, _, bin, rows in sorted(self._queue, key=itemgetter(1)):
            left.setdefault(bin, []).append(rows)
        return left

    def _waits(self) -> bool:
        """Whether the next rows must wait: behind others, or because the channel is late and has room."""
        return bool(self._queue) or (self._begun and self._room > 0 and self._late())


def urgent_first(bins: NDArray[np.int32], deadlines: Mapping[int, float]) -> NDArray[np.intp]:
    """The places of the rows, those of bins with a short deadline first; the rows of a bin stay in order."""
    known = np.full(int(bins.max(initial=0)) + 1, math.inf)
    for bin, deadline in deadlines.items():
        if bin < len(known):
            known[bin] = deadline
    return np.argsort(known[bins], kind="stable")


def _by_bin(
    rows: pa.RecordBatch, bins: NDArray[np.int32], chosen: NDArray[np.bool_]
) -> list[tuple[int, pa.RecordBatch]]:
    """The chosen rows, grouped by bin, in order."""
    where = np.flatnonzero(chosen)
    if not len(where):
        return []
    chosen_bins = bins[where]
    order, starts = sort_by_bin(chosen_bins, int(chosen_bins.max()) + 1)
    return [
        (bin, rows.take(pa.array(where[order[starts[bin] : starts[bin + 1]]])))
        for bin in np.flatnonzero(np.diff(starts)).tolist()
    ]
