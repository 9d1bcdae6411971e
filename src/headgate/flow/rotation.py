"""Bins of one channel through a bounded memory (FLUX-36..38), at the boundaries of batches.

Two queues: bins in memory in the order in which they came in, bins on disk in the order in which they went out. When
memory runs short the oldest in memory goes out; when there is room again, the one that is out longest comes in. If there
is none, and something waits for a bin that is out (rows, or work that is due), the first such bin changes places with the oldest
once the last one that came in so has had its time, `t_gap`: a long one means less reading and more waiting. What comes in
has all of its waiting rows processed in that batch.

Laws: every bin of the channel is in exactly one queue; memory in use stays within the limit, or one bin alone passes it
(a bin that no limit can hold is worked on by itself, or the stream would stop). A bin that something waits for comes in
within `TURN` batches for itself and for each bin before it in its queue, however short these are and whatever else comes, but
for bins moved here that have waited longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.ids import Bin

TURN = 8
"""Batches after which a bin may come in however short they are: many short ones would make the time of a gap endless."""


@dataclass(frozen=True)
class Rotation:
    """One channel's queues, and how long ago a bin came in because something waited for it."""

    active: tuple[Bin, ...] = ()
    inactive: tuple[Bin, ...] = ()
    since_ms: float = math.inf

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
) -> Rotation:
    """The queues for the next batch.

    `sizes` has every bin that the channel holds and its bytes, `waiting` the bins that something waits for, longest first,
    `elapsed_ms` what the last batch took, or infinity if the channel had nothing new to do: then all come in that fit. Bins that are new
    to the channel come in last, those that are waited for after the others. Without a limit everything is in memory.

    >>> rotate(Rotation(), {1: 40, 2: 40, 3: 40}, 100, [], gap_ms=300)
    Rotation(active=(2, 3), inactive=(1,), since_ms=300)
    >>> rotate(Rotation((2, 3), (1,), 0), {1: 40, 2: 40, 3: 40}, 100, [1], elapsed_ms=500, gap_ms=300)
    Rotation(active=(3, 1), inactive=(2,), since_ms=200)
    """
    line = [bin for bin in waiting if bin in sizes]
    new = sizes.keys() - {*now.active, *now.inactive}
    active = [bin for bin in now.active if bin in sizes]
    active += [*sorted(new.difference(line)), *(bin for bin in reversed(line) if bin in new)]
    inactive = [bin for bin in now.inactive if bin in sizes]
    if limit is None:
        return Rotation((*active, *inactive), (), 0.0)
    used = sum(sizes[bin] for bin in active)

    def make_room() -> None:
        nonlocal used
        while used > limit and len(active) > 1:
            inactive.append(active.pop(0))
            used -= sizes[inactive[-1]]

    def bring(bin: Bin) -> None:
        nonlocal used
        inactive.remove(bin)
        active.append(bin)
        used += sizes[bin]

    make_room()
    gap = max(gap_ms, 1.0)
    since = min(now.since_ms, gap) + max(elapsed_ms, gap / TURN)
    rank = {bin: at for at, bin in enumerate(line)}
    fresh = [bin for bin in active if bin in new and bin in rank]
    came: list[Bin] = []
    for bin in [bin for bin in now.inactive if bin in rank]:
        if used + sizes[bin] > limit:
            # What has just come in stays, or it would go out again without having been worked on; of what was moved
            # here, that which has waited longer.
            stays = [*came, *(one for one in fresh if rank[one] < rank[bin])]
            if since <= gap or (stays and sum(sizes[one] for one in (*stays, bin)) > limit):
                break
            since -= gap
        bring(bin)
        came.append(bin)
        make_room()
    for bin in sorted(inactive, key=lambda bin: bin not in rank):
        if used + sizes[bin] <= limit or not active:
            bring(bin)
    return Rotation(tuple(active), tuple(inactive), min(since, gap))
