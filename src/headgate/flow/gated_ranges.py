"""The rows that wait at one gate, as ranges of staged files, and the waves that are cut from them.

This is what `hg.bounded` and a stage have in common, whatever runs the waves: a wave takes ranges, is in
flight until it is done, and may return what it did not finish.

Law: at most `in_flight` waves, of at most `batch` positions each, are in flight at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from headgate.flow.gate import Batcher, Gate
from headgate.flow.progress import Stamp
from headgate.flow.row_ranges import RangeQueue, RowRange


@dataclass(frozen=True)
class RangeWave:
    """The ranges that one wave takes, and how many positions these are."""

    stamp: Stamp
    ranges: tuple[RowRange, ...]
    rows: int
    size: int
    """The size of waves when this one was cut."""

    @property
    def budget(self) -> int:
        """How many rows may be drawn from each range, if rows are counted as they are drawn: no more than
        the size of a wave in total.
        """
        return max(1, self.size // len(self.ranges))


class GatedRanges:
    """The input of a gate at one outer stamp. `sized` says which gate holds now: its size may change.

    >>> from headgate.flow.row_ranges import whole_files
    >>> gated = GatedRanges(lambda: Gate(in_flight=2, batch=3), whole_files([7]))
    >>> [(w.stamp, w.rows) for w in gated.admit()], gated.inside
    ([((0,), 3), ((1,), 3)], 6)
    """

    def __init__(
        self, sized: Callable[[], Gate], ranges: Iterable[RowRange], *, spread: int = 1, outer: Stamp = ()
    ) -> None:
        self._sized, self._outer = sized, outer
        self._waiting = RangeQueue.of(ranges, spread)
        self._batcher = Batcher(sized())
        self._batcher.offer(outer, self._waiting)
        self.inside = self.most_inside = 0
        """Positions in flight, now and at most."""

    @property
    def left(self) -> tuple[RowRange, ...]:
        """What no wave has taken yet."""
        return tuple(self._waiting.left)

    def admit(self) -> Iterator[RangeWave]:
        """The waves that may enter now; each is cut when it is asked for."""
        self._batcher.gate = self._sized()
        for wave in self._batcher.admit():
            self.inside += wave.rows
            self.most_inside = max(self.most_inside, self.inside)
            yield RangeWave(wave.stamp, wave.items, wave.rows, self._batcher.gate.size)

    def give_back(self, left: Iterable[RowRange]) -> None:
        """Put what a wave could not finish before everything that waits."""
        unfinished = list(left)
        for piece in reversed(unfinished):
            self._waiting.give_back(piece)
        if unfinished:
            self._batcher.offer(self._outer, self._waiting)

    def done(self, wave: RangeWave) -> None:
        """A wave has left the guarded part."""
        self._batcher.done(wave.stamp)
        self.inside -= wave.rows


def unfinished(ranges: Iterable[RowRange], ended: Callable[[RowRange], tuple[int, int]]) -> list[RowRange]:
    """What is left of ranges from which rows were drawn; `ended` says how far each came: the row, and how
    many outputs it has made.

    >>> unfinished([RowRange(0, 2, 9)], lambda r: (4, 7))
    [RowRange(file=0, start=4, stop=9, made=7, of='')]
    """
    left = []
    for piece in ranges:
        at, made = ended(piece)
        if at < piece.stop:
            left.append(replace(piece, start=at, made=made))
    return left
