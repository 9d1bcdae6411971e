"""Rotation: the bins of a channel that do not fit into memory together take
turns there (FLUX-36..38).

There are two queues: the bins in memory, in the order in which they came in, and the bins on disk,
in the order in which they went out. Both change only between batches:

1. When memory runs short, the bin that has been in memory longest goes out.
2. When there is room again, the bin that has been out longest comes in.
3. When there is no room and something waits for a bin on disk (rows, or work that is due), the first such
   bin changes places with the bin that has been in memory longest. The time `gap_ms` (Flux's t_gap) lies
   between two such exchanges: a longer gap means less reading from disk and longer waits.

All waiting rows of a bin that comes in are processed in that batch.

Laws: every bin of the channel is in exactly one queue. The memory in use stays within the limit,
unless a single bin exceeds it alone: such a bin is processed by itself, because otherwise the
stream would stop. A bin that something waits for comes in within `TURN` batches for itself and for
each bin before it in its queue, however short the batches are, unless bins that were moved to this
channel have waited longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.ids import Bin

TURN = 8
"""Batches after which the gap counts as over, however short they are: very short batches
would stretch it endlessly.
"""


@dataclass(frozen=True)
class Rotation:
    """One channel's two queues: bins in memory (`active`) and on disk (`inactive`), oldest first."""

    active: tuple[Bin, ...] = ()
    inactive: tuple[Bin, ...] = ()
    since_ms: float = math.inf
    """The time since the last exchange: since a bin came in because something waited for it."""

    def to_json(self) -> list[Any]:
        """JSON-native values."""
        return [list(self.active), list(self.inactive), self.since_ms]

    @classmethod
    def from_json(cls, data: list[Any]) -> Rotation:
        """Read what `to_json` wrote."""
        return cls(tuple(data[0]), tuple(data[1]), float(data[2]))


def rotate(
    now: Rotation,
    sizes: Mapping[Bin, int],
    limit: int | None,
    waiting: Iterable[Bin],
    *,
    elapsed_ms: float = 0.0,
    gap_ms: float = 0.0,
    ranked: bool = False,
) -> Rotation:
    """The queues for the next batch.

    `sizes` has every bin that the channel holds and its bytes. `waiting` has the bins that
    something waits for, those that have waited longest first. `elapsed_ms` is the time that the
    last batch took, or infinity if the channel had nothing new to do: then every bin that fits
    comes in. Bins that are new to the channel join the end of the queue in memory, those that
    something waits for last. Without a limit all bins are in memory. With `ranked`, bins come in in the
    order of `waiting` (`flow.slack`), and not in that in which they went out.

    >>> rotate(Rotation(), {1: 40, 2: 40, 3: 40}, 100, [], gap_ms=300)
    Rotation(active=(2, 3), inactive=(1,), since_ms=300)
    >>> rotate(Rotation((2, 3), (1,), 0), {1: 40, 2: 40, 3: 40}, 100, [1], elapsed_ms=500, gap_ms=300)
    Rotation(active=(3, 1), inactive=(2,), since_ms=200)
    """
    waiting = list(dict.fromkeys(bin for bin in waiting if bin in sizes))
    new = sizes.keys() - {*now.active, *now.inactive}
    active = [bin for bin in now.active if bin in sizes]
    active += [*sorted(new.difference(waiting)), *(bin for bin in reversed(waiting) if bin in new)]
    inactive = [bin for bin in now.inactive if bin in sizes]
    if limit is None:
        return Rotation((*active, *inactive), (), 0.0)
    used = sum(sizes[bin] for bin in active)

    def make_room() -> None:
        nonlocal used
        while used > limit and len(active) > 1:
            inactive.append(active.pop(0))
            used -= sizes[inactive[-1]]

    def bring_in(bin: Bin) -> None:
        nonlocal used
        inactive.remove(bin)
        active.append(bin)
        used += sizes[bin]

    make_room()
    gap = max(gap_ms, 1.0)
    since = min(now.since_ms, gap) + max(elapsed_ms, gap / TURN)
    rank = {bin: at for at, bin in enumerate(waiting)}
    fresh = [bin for bin in active if bin in new and bin in rank]
    came_in: list[Bin] = []
    out = [bin for bin in now.inactive if bin in rank]
    for bin in sorted(out, key=rank.__getitem__) if ranked else out:
        if used + sizes[bin] > limit:
            # A bin that has just come in stays: otherwise it would go out again before its rows
            # were processed. So does a bin that was moved to this channel and has waited longer
            # than this one.
            staying = [*came_in, *(moved for moved in fresh if rank[moved] < rank[bin])]
            if since <= gap or (staying and sum(sizes[kept] for kept in (*staying, bin)) > limit):
                break
            since -= gap
        bring_in(bin)
        came_in.append(bin)
        make_room()
    for bin in sorted(inactive, key=lambda bin: rank.get(bin, len(rank)) if ranked else bin not in rank):
        if used + sizes[bin] <= limit or not active:
            bring_in(bin)
    return Rotation(tuple(active), tuple(inactive), min(since, gap))
