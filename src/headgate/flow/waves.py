"""Cutting what waits at a gate into waves: ranges of files, so many rows at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Range:
    """Positions `start` to `stop` of a file; a position is a row, or an output row where fan-outs are known."""

    file: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


class Waiting:
    """Files in line, each with what is left of it: a source for a `Batcher`.

    `spread` files take part in a wave, so that as many tasks share it; with a spread of 1 files go one after the other, in order.

    >>> waiting = Waiting([5, 3], spread=2)
    >>> waiting.take(4)
    ([Range(file=0, start=0, stop=2), Range(file=1, start=0, stop=2)], 4)
    >>> waiting.take(4)
    ([Range(file=0, start=2, stop=5), Range(file=1, start=2, stop=3)], 4)
    """

    def __init__(self, lengths: Iterable[int] = (), spread: int = 1) -> None:
        self._line = deque(Range(file, 0, length) for file, length in enumerate(lengths) if length)
        self._spread = spread

    @property
    def left(self) -> list[Range]:
        """What has not been taken, in line."""
        return list(self._line)

    def __bool__(self) -> bool:
        return bool(self._line)

    def take(self, room: int) -> tuple[list[Range], int]:
        """Ranges of at most `room` positions together, and how many they are."""
        share, left = max(1, room // self._spread), room
        taken: dict[tuple[int, int], Range] = {}  # by where they end
        while self._line and left:
            head = self._line.popleft()
            stop = head.start + min(share, len(head), left)
            before = taken.pop((head.file, head.start), None)
            taken[head.file, stop] = Range(head.file, before.start if before else head.start, stop)
            left -= stop - head.start
            if stop < head.stop:
                rest = Range(head.file, stop, head.stop)
                if self._spread > 1:
                    self._line.append(rest)
                else:
                    self._line.appendleft(rest)
        return sorted(taken.values()), room - left

    def give_back(self, some: Range) -> None:
        """What a wave took and could not finish comes first again."""
        self._line.appendleft(some)
