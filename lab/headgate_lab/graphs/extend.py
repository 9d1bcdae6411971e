"""One step of GenericJoin over a graph's index (FAUCET-15): cliques of k vertices become cliques
of k + 1.

The index holds, for every vertex, its neighbours of higher rank, sorted (`offsets`, `targets`).
A prefix v1 < ... < vk is extended by vertices after vk that are neighbours of all of them.
*Count*: the vertex with the fewest neighbours after vk proposes, so the number of proposals is
known in advance. *Propose*: these neighbours, or a part of them, `first` to `last`.
*Intersect*: each proposal is looked for among the neighbours of the others, by galloping from
where the last one was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.compiled import compiled, inlined
from headgate.errors import ConfigError

Offsets: TypeAlias = NDArray[np.int64]
Vertices: TypeAlias = NDArray[np.int32]


SMALLEST, LARGEST = 3, 5


def check_size(size: int) -> None:
    """Refuse cliques that are too small or too large to be listed."""
    if not SMALLEST <= size <= LARGEST:
        raise ConfigError(f"size={size}: cliques of {SMALLEST} to {LARGEST} vertices can be listed")


@inlined
def _reach(targets: Vertices, at: int, end: int, wanted: int) -> int:
    """The first position from `at` on whose vertex is at least `wanted`, or `end`."""
    step = 1
    low = at
    high = at
    while high < end and targets[high] < wanted:
        low = high + 1
        high += step
        step += step
    high = min(high, end)
    while low < high:
        middle = (low + high) >> 1
        if targets[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def proposals(prefixes: Vertices, offsets: Offsets, targets: Vertices) -> NDArray[np.int64]:
    """How many proposals each prefix (a row) will get."""
    rows, k = prefixes.shape
    counts = np.empty(rows, np.int64)
    for row in range(rows):
        v = prefixes[row, k - 1]
        least = offsets[v + 1] - offsets[v]
        for i in range(k - 1):
            begin, end = offsets[prefixes[row, i]], offsets[prefixes[row, i] + 1]
            if least:
                least = min(least, end - _reach(targets, begin, end, v + 1))
        counts[row] = least
    return counts


@compiled
def _extend(
    prefixes: Vertices,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    offsets: Offsets,
    targets: Vertices,
    room: Vertices,
) -> int:
    """Write the larger cliques into `room` and return how many there are; with an empty `room`
    they are only counted.
    """
    rows, k = prefixes.shape
    keep = room.shape[0] > 0
    places = np.empty(k, np.int64)
    ends = np.empty(k, np.int64)
    total = 0
    for row in range(rows):
        if first[row] == last[row]:
            continue
        proposer = k - 1
        v = prefixes[row, k - 1]
        places[k - 1], ends[k - 1] = offsets[v], offsets[v + 1]
        for i in range(k - 1):
            begin, ends[i] = offsets[prefixes[row, i]], offsets[prefixes[row, i] + 1]
            places[i] = _reach(targets, begin, ends[i], v + 1)
            if ends[i] - places[i] < ends[proposer] - places[proposer]:
                proposer = i
        begin = places[proposer]
        for at in range(begin + first[row], begin + last[row]):
            wanted = targets[at]
            everywhere = True
            for i in range(k):
                if i != proposer:
                    place = _reach(targets, places[i], ends[i], wanted)
                    places[i] = place
                    if place == ends[i] or targets[place] != wanted:
                        everywhere = False
                        break
            if everywhere:
                if keep:
                    for i in range(k):
                        room[total, i] = prefixes[row, i]
                    room[total, k] = wanted
                total += 1
    return total


def extended(
    prefixes: Vertices,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    offsets: Offsets,
    targets: Vertices,
    most: int,
) -> Iterator[Vertices]:
    """The larger cliques, in pieces made from at most `most` proposals each (or from
    one prefix with more).
    """
    ends = np.cumsum(last - first)
    start, done = 0, 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        room = int(ends[stop - 1]) - done
        cliques = np.empty((room, prefixes.shape[1] + 1), np.int32)
        if room:
            total = _extend(
                prefixes[start:stop], first[start:stop], last[start:stop], offsets, targets, cliques
            )
            if total:
                yield cliques[:total]
        start, done = stop, int(ends[stop - 1])


def counted(
    prefixes: Vertices,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    offsets: Offsets,
    targets: Vertices,
) -> int:
    """How many larger cliques there are."""
    nothing = np.empty((0, prefixes.shape[1] + 1), np.int32)
    return int(_extend(prefixes, first, last, offsets, targets, nothing))
