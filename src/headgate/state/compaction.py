"""Which bins to snapshot in a batch.

Every batch appends a delta per touched bin, so a bin's chain (last snapshot, then deltas) grows.
Rewriting a bin costs its size. To keep a batch's cost in proportion to what it touches, snapshots are
paid from a *credit* that grows by the bytes of deltas written. The oldest chain comes first, because
that lets old files be deleted. In steady state each delta byte pays for one snapshot byte, so the log
stays within about twice the live state, and reading a bin costs at most about twice its size.
"""

from __future__ import annotations

from collections.abc import Mapping

SHORTEST_CHAIN = 8
"""Chains of fewer batches are not rewritten: a few small deltas are cheaper to read than a snapshot is to
write."""


def bins_to_snapshot(
    batch: int,
    bases: Mapping[int, int],
    state_bytes: Mapping[int, int],
    credit: int,
    *,
    limit: int | None = None,
    shortest: int = SHORTEST_CHAIN,
) -> tuple[list[int], int]:
    """The bins to rewrite in `batch`, and the credit left.

    `bases[b]` is the batch at which the chain of bin b starts. `limit` bounds the bytes that one batch
    writes, so that saved credit is not spent at once. One bin is always allowed; otherwise a bin larger
    than the limit would never be rewritten.

    >>> bins_to_snapshot(20, {0: 0, 1: 5, 2: 18}, {0: 60, 1: 50, 2: 10}, credit=100)
    ([0], 40)
    """
    chosen: list[int] = []
    spent = 0
    for _, b in sorted((base, b) for b, base in bases.items() if batch - base >= shortest):
        size = state_bytes.get(b, 0)
        if spent + size > credit or (chosen and limit is not None and spent + size > limit):
            break
        chosen.append(b)
        spent += size
    return chosen, credit - spent
