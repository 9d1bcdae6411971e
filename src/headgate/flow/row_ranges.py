"""Staged files as a source of a gate: a wave takes ranges of rows from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class RowRange:
    """The positions `start` to `stop` of a file.

    A position is an input row, or an output row where the fan-out of every input row is known.
    """

    file: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


class RangeQueue:
    """A queue of files, each with the range of rows that is left of it. A `Batcher` draws from it.

    A wave takes rows from `spread` files, so that as many tasks can share it. With a spread of 1
    the files are read one after the other, in order.

    >>> queue = RangeQueue([5, 3], spread=2)
    >>> queue.take(4)
    ([RowRange(file=0, start=0, stop=2), RowRange(file=1, start=0, stop=2)], 4)
    >>> queue.take(4)
    ([RowRange(file=0, start=2, stop=5), RowRange(file=1, start=2, stop=3)], 4)
    """

    def __init__(self, lengths: Iterable[int] = (), spread: int = 1) -> None:
        self._queue = deque(RowRange(file, 0, length) for file, length in enumerate(lengths) if length)
        self._spread = spread

    @property
    def left(self) -> list[RowRange]:
        """The ranges that have not been taken, in the order of the queue."""
        return list(self._queue)

    def __bool__(self) -> bool:
        return bool(self._queue)

    def take(self, room: int) -> tuple[list[RowRange], int]:
        """Take ranges of at most `room` positions in total; return them and that total."""
        share, left = max(1, room // self._spread), room
        taken: dict[tuple[int, int], RowRange] = {}  # by file and stop, so that adjacent ranges are joined
        while self._queue and left:
            head = self._queue.popleft()
            stop = head.start + min(share, len(head), left)
            before = taken.pop((head.file, head.start), None)
            taken[head.file, stop] = RowRange(head.file, before.start if before else head.start, stop)
            left -= stop - head.start
            if stop < head.stop:
                rest = RowRange(head.file, stop, head.stop)
                if self._spread > 1:
                    self._queue.append(rest)
                else:
                    self._queue.appendleft(rest)
        return sorted(taken.values()), room - left

    def give_back(self, unfinished: RowRange) -> None:
        """Put a range that a wave took and could not finish at the head of the queue."""
        self._queue.appendleft(unfinished)
