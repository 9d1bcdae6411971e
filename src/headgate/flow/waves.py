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
    """Files in line, each with what is left of it.

    `spread` files take part in a wave, so that as many tasks share it; with a spread of 1 files go one after the other, in order.

    >>> waiting = Waiting([5, 3], spread=2)
    >>> waiting.take(4), waiting.take(4)
    ([Range(file=0, start=0, stop=2), Range(file=1, start=0, stop=2)], [Range(file=0, start=2, stop=5), Range(file=1, start=2, stop=3)])
    """

    def __init__(self, lengths: Iterable[int], spread: int = 1) -> None:
        self._line = deque(Range(file, 0, length) for file, length in enumerate(lengths) if length)
        self._spread = spread

    def __bool__(self) -> bool:
        return bool(self._line)

    @property
    def left(self) -> int:
        """How much has not been taken."""
        return sum(map(len, self._line))

    def take(self, most: int) -> list[Range]:
        """Ranges of at most `most` positions together, in order; none if nothing is left."""
        share = max(1, most // self._spread)
        taken: dict[int, Range] = {}
        while self._line and most:
            head = self._line.popleft()
            amount = min(share, len(head), most)
            before = taken.get(head.file)
            taken[head.file] = Range(head.file, before.start if before else head.start, head.start + amount)
            most -= amount
            if amount < len(head):
                rest = Range(head.file, head.start + amount, head.stop)
                self._line.append(rest) if self._spread > 1 else self._line.appendleft(rest)
        return sorted(taken.values())

    def give_back(self, some: Range) -> None:
        """What a wave took and could not finish comes first again."""
        if len(some):
            self._line.appendleft(some)
