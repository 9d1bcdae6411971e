"""What a batcher draws from: single rows, or items whose rows are counted before they are made.

A source gives at most as many rows as it is asked for, and does nothing until it is asked again.
That makes an expansion of `tuple -> iterator` lazy (Faucet, section 4): `Rows(row for item in items
for row in expand(item))`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.errors import ConfigError


class RowSource(Protocol):
    """An input of a gate."""

    def take(self, room: int) -> tuple[Sequence[Any], int]:
        """The next items, and how many rows they stand for: at most `room`.

        A source that returns no rows is dropped. If it gets more later, offer it again.
        """


class Rows:
    """The rows of any iterable, drawn one by one and only when they are asked for.

    >>> rows = Rows(n * n for n in range(5))
    >>> rows.take(3), rows.take(3), rows.take(3)
    (([0, 1, 4], 3), ([9, 16], 2), ([], 0))
    """

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = iter(rows)

    def take(self, room: int) -> tuple[Sequence[Any], int]:
        """The next rows."""
        taken = list(islice(self._rows, room))
        return taken, len(taken)


@dataclass(frozen=True, slots=True)
class Portion:
    """The rows `start` to `stop` (exclusive) of all that an item expands to."""

    item: Any
    start: int
    stop: int


class CountedItems:
    """Items whose number of rows is known in advance, so that the gate can count
    rows instead of items.

    (In Faucet: the count step before a propose step.) An item with more rows than there is room for
    is given in portions, so the bound on rows is never exceeded. An item without rows is omitted.

    >>> counted = CountedItems([("a", 2), ("b", 0), ("c", 5)])
    >>> counted.take(4)
    ([Portion(item='a', start=0, stop=2), Portion(item='c', start=0, stop=2)], 4)
    >>> counted.take(4)
    ([Portion(item='c', start=2, stop=5)], 3)
    """

    def __init__(self, items: Iterable[tuple[Any, int]]) -> None:
        self._items = iter(items)
        self._rest: Portion | None = None

    def take(self, room: int) -> tuple[Sequence[Any], int]:
        """The next portions."""
        portions: list[Portion] = []
        left = room
        while left and (rest := self._rest or self._next()):
            stop = min(rest.stop, rest.start + left)
            portions.append(Portion(rest.item, rest.start, stop))
            self._rest = Portion(rest.item, stop, rest.stop) if stop < rest.stop else None
            left -= stop - rest.start
        return portions, room - left

    def _next(self) -> Portion | None:
        for item, rows in self._items:
            if rows < 0:
                raise ConfigError(f"item {item!r} has {rows} rows; a count is 0 or more")
            if rows:
                return Portion(item, 0, rows)
        return None


@dataclass(frozen=True)
class PortionArrays:
    """The portions of many items, in order, as arrays: each one's wave, its item, and its
    rows `start` to `stop`.
    """

    wave: NDArray[np.int64]
    item: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]


def cut_into_portions(fan_out: NDArray[np.int64], batch: int) -> PortionArrays:
    """The portions that a batcher would make of counted items, all at once.

    With waves of `batch` rows, wave k has the rows k * batch to (k + 1) * batch of all rows.

    >>> portions = cut_into_portions(np.array([2, 0, 5]), 4)
    >>> [portions.wave.tolist(), portions.item.tolist(), portions.start.tolist(), portions.stop.tolist()]
    [[0, 0, 1], [0, 2, 2], [0, 0, 2], [2, 2, 5]]
    """
    if batch < 1:
        raise ConfigError(f"batch={batch} is below 1")
    counts = np.asarray(fan_out, dtype=np.int64)
    if counts.size and counts.min() < 0:
        raise ConfigError(f"item {int(counts.argmin())} has {int(counts.min())} rows; a count is 0 or more")
    end = np.cumsum(counts)
    begin = end - counts
    pieces = np.where(counts > 0, (end - 1) // batch - begin // batch + 1, 0)
    item = np.repeat(np.arange(counts.size), pieces)
    nth = np.arange(item.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    number = begin[item] // batch + nth
    start = np.maximum(begin[item], number * batch) - begin[item]
    stop = np.minimum(end[item], (number + 1) * batch) - begin[item]
    return PortionArrays(number, item, start, stop)
