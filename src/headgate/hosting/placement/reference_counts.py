# mypy: allow-untyped-defs, allow-untyped-calls
"""Reference counts of (row, server) pairs: which servers receive a source, and how many queries read it there.

A row is a source, or a query type. The servers of a row lie side by side in a block of a common
pool. A block that is full moves to one of twice the size, and the block it leaves is used again. So
memory grows with the number of pairs, and the servers of a row are read in one sweep.
Law: a pair exists exactly while its count is above 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headgate.compiled import bare, inlined

_SIZE_CLASSES = 40


class ReferenceCounts(NamedTuple):
    """Each row's block (`start`, `size`, `capacity`), the pool (`server`, `count`), and what of the pool is free.

    `free_blocks` heads a linked list of free blocks for each power of two; `pool_end` is where the
    part of the pool that was never used begins.
    """

    start: Any
    size: Any
    capacity: Any
    server: Any
    count: Any
    free_blocks: Any
    pool_end: Any


def new_reference_counts(rows: int, pool: int = 1024) -> ReferenceCounts:
    """Return counts for that many rows, without any pair."""
    return ReferenceCounts(
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int32),
        np.zeros(rows, np.int32),
        np.zeros(pool, np.int32),
        np.zeros(pool, np.int32),
        np.full(_SIZE_CLASSES, -1, np.int64),
        np.zeros(1, np.int64),
    )


def enlarged(counts: ReferenceCounts, *, rows: int | None = None, pool: int | None = None) -> ReferenceCounts:
    """Return the same counts with more rows, or with a larger pool."""
    larger = counts._asdict()
    for name in ("start", "size", "capacity") if rows is not None else ():
        larger[name] = np.append(larger[name], np.zeros(rows - larger[name].shape[0], larger[name].dtype))
    for name in ("server", "count") if pool is not None else ():
        larger[name] = np.append(larger[name], np.zeros(pool - larger[name].shape[0], larger[name].dtype))
    return ReferenceCounts(**larger)


@inlined
def unused_pool(counts):
    """Return how much of the pool was never used."""
    return counts.server.shape[0] - counts.pool_end[0]


@inlined
def find(counts, row, server):
    """Return the position of a pair in the pool, or -1."""
    begin = counts.start[row]
    for at in range(begin, begin + counts.size[row]):
        if counts.server[at] == server:
            return at
    return -1


@bare
def _enlarge_block(counts, row):
    """Move a full block to one of twice the size."""
    old, capacity = counts.start[row], counts.capacity[row]
    doubled = 2 * capacity if capacity > 0 else 1
    rank = 0
    while (1 << rank) < doubled:
        rank += 1
    new = counts.free_blocks[rank]
    if new >= 0:
        counts.free_blocks[rank] = counts.count[new]
    else:
        new = counts.pool_end[0]
        counts.pool_end[0] += doubled
    for i in range(counts.size[row]):
        counts.server[new + i] = counts.server[old + i]
        counts.count[new + i] = counts.count[old + i]
    if capacity > 0:
        counts.count[old] = counts.free_blocks[rank - 1]
        counts.free_blocks[rank - 1] = old
    counts.start[row], counts.capacity[row] = new, doubled


@inlined
def increment(counts, row, server):
    """Count one more query of a pair; return its new count."""
    at = find(counts, row, server)
    if at < 0:
        if counts.size[row] == counts.capacity[row]:
            _enlarge_block(counts, row)
        at = counts.start[row] + counts.size[row]
        counts.size[row] += 1
        counts.server[at], counts.count[at] = server, 0
    counts.count[at] += 1
    return counts.count[at]


@bare
def decrement(counts, row, server):
    """Count one query less of a pair; return its new count. At 0 the pair is removed."""
    at = find(counts, row, server)
    counts.count[at] -= 1
    remaining = counts.count[at]
    if remaining == 0:
        counts.size[row] -= 1
        last = counts.start[row] + counts.size[row]
        counts.server[at], counts.count[at] = counts.server[last], counts.count[last]
    return remaining
