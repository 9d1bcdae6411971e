# mypy: allow-untyped-defs, allow-untyped-calls
"""Reference counts of (row, server) pairs: which servers receive a source, and how many queries there want it.

The servers of a row lie side by side in a block of a common pool; a block that is full moves to one of twice the
size, and the one it leaves is used again. So memory follows the number of pairs, and the servers of a row are
read in one sweep. Law: a pair exists exactly while its count is above 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headgate.compiled import bare, inlined

_CLASSES = 40


class Pairs(NamedTuple):
    """Blocks by row (`start`, `size`, `room`), the pool (`server`, `count`), free blocks, and the pool's top."""

    start: Any
    size: Any
    room: Any
    server: Any
    count: Any
    free: Any
    top: Any


def new_pairs(rows: int, pool: int = 1024) -> Pairs:
    """Return pairs of that many rows, none there yet."""
    return Pairs(
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int32),
        np.zeros(rows, np.int32),
        np.zeros(pool, np.int32),
        np.zeros(pool, np.int32),
        np.full(_CLASSES, -1, np.int64),
        np.zeros(1, np.int64),
    )


def widened(pairs: Pairs, *, rows: int | None = None, pool: int | None = None) -> Pairs:
    """Return the same pairs with more rows, or a larger pool."""
    wider = pairs._asdict()
    for name in ("start", "size", "room") if rows is not None else ():
        wider[name] = np.append(wider[name], np.zeros(rows - wider[name].shape[0], wider[name].dtype))
    for name in ("server", "count") if pool is not None else ():
        wider[name] = np.append(wider[name], np.zeros(pool - wider[name].shape[0], wider[name].dtype))
    return Pairs(**wider)


@inlined
def spare(pairs):
    """Return how much of the pool was never used."""
    return pairs.server.shape[0] - pairs.top[0]


@inlined
def find(pairs, row, server):
    """Return the position of a pair in the pool, or -1."""
    begin = pairs.start[row]
    for at in range(begin, begin + pairs.size[row]):
        if pairs.server[at] == server:
            return at
    return -1


@bare
def _enlarge(pairs, row):
    """Move a full block to one of twice the size."""
    old, room = pairs.start[row], pairs.room[row]
    wide = 2 * room if room > 0 else 1
    rank = 0
    while (1 << rank) < wide:
        rank += 1
    new = pairs.free[rank]
    if new >= 0:
        pairs.free[rank] = pairs.count[new]
    else:
        new = pairs.top[0]
        pairs.top[0] += wide
    for i in range(pairs.size[row]):
        pairs.server[new + i] = pairs.server[old + i]
        pairs.count[new + i] = pairs.count[old + i]
    if room > 0:
        pairs.count[old] = pairs.free[rank - 1]
        pairs.free[rank - 1] = old
    pairs.start[row], pairs.room[row] = new, wide


@inlined
def add(pairs, row, server):
    """Count one more query of a pair; return how many it has now."""
    at = find(pairs, row, server)
    if at < 0:
        if pairs.size[row] == pairs.room[row]:
            _enlarge(pairs, row)
        at = pairs.start[row] + pairs.size[row]
        pairs.size[row] += 1
        pairs.server[at], pairs.count[at] = server, 0
    pairs.count[at] += 1
    return pairs.count[at]


@bare
def drop(pairs, row, server):
    """Count one query less; return how many are left. At 0 the pair is gone."""
    at = find(pairs, row, server)
    pairs.count[at] -= 1
    left = pairs.count[at]
    if left == 0:
        pairs.size[row] -= 1
        last = pairs.start[row] + pairs.size[row]
        pairs.server[at], pairs.count[at] = pairs.server[last], pairs.count[last]
    return left
