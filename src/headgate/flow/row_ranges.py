"""Staged files as a source of a gate: a wave takes ranges of rows from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, order=True)
class RowRange:
    """The positions `start` to `stop` of a file.

    A position is an input row, or an output row where the fan-out of every input row is known.
    """

    file: int
    start: int
    stop: int
    made: int = 0
    """How many outputs the row at `start` has made already, where rows are drawn from an iterator."""
    of: str = ""
    """The input that the file belongs to, where gates are nested; the outermost has no name."""

    def __len__(self) -> int:
        return self.stop - self.start


def whole_files(lengths: Iterable[int], of: str = "") -> list[RowRange]:
    """A range for each file that has rows.

    >>> [(r.file, r.stop) for r in whole_files([5, 0, 3])]
    [(0, 5), (2, 3)]
    """
    return [RowRange(file, 0, length, of=of) for file, length in enumerate(lengths) if length]


class RangeQueue:
    """A queue of files, each with the range of rows that is left of it. A `Batcher` draws from it.

    A wave takes rows from `spread` files, so that as many tasks can share it. With a spread of 1
    the files are read one after the other, in order.

    >>> queue = RangeQueue([5, 3], spread=2)
    >>> for _ in range(2):
    ...     ranges, rows = queue.take(4)
    ...     print([(r.file, r.start, r.stop) for r in ranges], rows)
    [(0, 0, 2), (1, 0, 2)] 4
    [(0, 2, 5), (1, 2, 3)] 4
    """

    def __init__(self, lengths: Iterable[int] = (), spread: int = 1) -> None:
        self._queue = deque(whole_files(lengths))
        self._spread = spread

    @classmethod
    def of(cls, ranges: Iterable[RowRange], spread: int = 1) -> RangeQueue:
        """A queue of some ranges, in their order."""
        queue = cls((), spread)
        queue._queue.extend(ranges)
        return queue

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
            # a range whose first row has made some of its outputs begins anew
            before = None if head.made else taken.pop((head.file, head.start), None)
            taken[head.file, stop] = replace(before or head, stop=stop)
            left -= stop - head.start
            if stop < head.stop:
                rest = replace(head, start=stop, made=0)
                if self._spread > 1:
                    self._queue.append(rest)
                else:
                    self._queue.appendleft(rest)
        return sorted(taken.values()), room - left

    def give_back(self, unfinished: RowRange) -> None:
        """Put a range that a wave took and could not finish at the head of the queue."""
        self._queue.appendleft(unfinished)
