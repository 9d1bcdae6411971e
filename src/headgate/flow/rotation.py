"""Bins of one channel through a bounded memory (FLUX-36..38), at the boundaries of batches.

Two queues: bins in memory in the order in which they came in, bins on disk in the order in which they went out. When
memory runs short the oldest in memory goes out; when there is room again, the one that is out longest comes in. If there
is none, and rows wait for a bin that is out, the two heads change places once the last bin that came in has had its time,
`t_gap`: a long one means less reading and more waiting. What comes in has all of its waiting rows processed in that batch.

Laws: every bin of the channel is in exactly one queue; memory in use stays within the limit, or one bin alone passes it
(a bin that no limit can hold is worked on by itself, or the stream would stop); every bin for which rows wait comes in again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.ids import Bin


@dataclass(frozen=True)
class Rotation:
    """One channel's queues, and how long ago the last bin came in."""

    active: tuple[Bin, ...] = ()
    inactive: tuple[Bin, ...] = ()
    since_ms: float = 0.0

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
    waiting: Mapping[Bin, int],
    *,
    elapsed_ms: float = 0.0,
    gap_ms: float = 0.0,
) -> Rotation:
    """The queues for the next batch.

    `sizes` has every bin that the channel holds and its bytes, `waiting` the rows that wait for a bin, `elapsed_ms` what
    the last batch took. Bins that are new to the channel come in last. Without a limit everything is in memory.

    >>> rotate(Rotation(), {1: 40, 2: 40, 3: 40}, 100, {})
    Rotation(active=(2, 3), inactive=(1,), since_ms=0.0)
    >>> rotate(Rotation((2, 3), (1,)), {1: 40, 2: 40, 3: 40}, 100, {1: 7}, elapsed_ms=500, gap_ms=300)
    Rotation(active=(3, 1), inactive=(2,), since_ms=200.0)
    """
    known = {*now.active, *now.inactive}
    active = [bin for bin in now.active if bin in sizes] + sorted(sizes.keys() - known)
    inactive = [bin for bin in now.inactive if bin in sizes]
    if limit is None:
        return Rotation((*active, *inactive), (), 0.0)
    used = sum(sizes[bin] for bin in active)

    def out() -> None:
        nonlocal used
        inactive.append(active.pop(0))
        used -= sizes[inactive[-1]]

    def bring(bin: Bin) -> None:
        nonlocal used
        inactive.remove(bin)
        active.append(bin)
        used += sizes[bin]

    while used > limit and len(active) > 1:
        out()
    for bin in tuple(inactive):
        if used + sizes[bin] <= limit or not active:
            bring(bin)
    wanted = [bin for bin in inactive if waiting.get(bin, 0)]
    since = now.since_ms + elapsed_ms if wanted else 0.0
    gap = max(gap_ms, 1.0)
    for bin in wanted:
        if since <= gap:
            break
        since -= gap
        bring(bin)
        while used > limit and len(active) > 1:
            out()
    return Rotation(tuple(active), tuple(inactive), min(since, gap))
