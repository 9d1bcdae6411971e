"""From shares to moves: which bins to move so that the channels get the shares that a controller wants.

    deficit(c) = target(c) - sum of the weights of c's bins        weight: a bin's part of all work

The channel with the largest surplus gives to the channel with the largest deficit, one bin at a time.
It gives the bin that reduces the two deficits most per byte of its state; among equals the one that
reduces them most; then the one with the lowest id. A bin that does not fit the receiver's memory stays.
If no bin helps, the next pair is tried.

Law: every move makes sum |deficit| strictly smaller, and a bin moves at most once. At the end no bin
that fits helps any pair: for a pair (d, r), the surplus of d plus the deficit of r is at most the
weight of the lightest bin of d that has work. There must be many more bins than channels; a target
smaller than a bin's weight cannot be met.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import repeat
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from headgate.compiled import compiled
from headgate.control.view import LoadView
from headgate.ids import Bin
from headgate.policies.horizon import Floats
from headgate.policies.pairing import STRICTLY
from headgate.routing.table import Move, Table

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]


class Bins(NamedTuple):
    """The bins of a table, in its order."""

    work: Floats
    weights: Floats
    """Parts of all work."""
    sizes: Floats
    """Bytes of state."""
    place: Ints
    """Channels."""
    movable: Bools
    """A bin without work stays, and so do the pieces of split keys: two must not be on one channel."""


def bins_of(view: LoadView, table: Table) -> Bins:
    """What is known of the bins of a table."""
    work = np.array(list(map(view.bin_work.get, table.bins, repeat(0.0))), dtype=np.float64)
    sizes = np.array(list(map(view.bin_bytes.get, table.bins, repeat(0))), dtype=np.float64)
    weights = work / (work.sum() or 1.0)
    movable = weights > 0
    pieces = {pin.bin for pins in table.splits.values() for pin in pins}
    if pieces:
        movable[[at for at, bin in enumerate(table.bins) if bin in pieces]] = False
    return Bins(work, weights, sizes, np.array(table.assignment, dtype=np.int64), movable)


def shares_of(bins: Bins, channels: int) -> Floats:
    """Each channel's share of the work; equal shares if there is no work."""
    if not bins.weights.any():
        return np.full(channels, 1 / channels)
    return np.asarray(np.bincount(bins.place, bins.weights, channels), dtype=np.float64)


def departs(target: Floats, current: Floats, deadband: float) -> bool:
    """Whether some share changes by at least this part of itself; any increase from zero counts.

    >>> departs(np.array([0.524, 0.476]), np.array([0.5, 0.5]), 0.05)
    False
    >>> departs(np.array([0.53, 0.47]), np.array([0.5, 0.5]), 0.05)
    True
    """
    change = np.abs(target - current)
    return bool((change[change > 0] >= deadband * current[change > 0]).any())


def moves_to(target: Floats, bins: Bins, table: Table, *, room: Floats | None = None) -> tuple[Move, ...]:
    """The moves that bring the shares near the target, best first.

    `room` is each channel's free memory in bytes. Cost: for each move one compiled pass over the bins.
    """
    free = np.full(table.channels, np.inf) if room is None else room.copy()
    lacks = target - shares_of(bins, table.channels)
    chosen, targets = _greedy(bins.weights, bins.sizes, bins.place, bins.movable.copy(), lacks, free)
    return moved(chosen, targets, table)


def position(bin: Bin, table: Table) -> int:
    """Where a bin is in the table, whose bins ascend."""
    return bisect_left(table.bins, bin)


def moved(bins: Ints, targets: Ints, table: Table) -> tuple[Move, ...]:
    """The moves of the bins at these positions in the table."""
    return tuple(
        Move(table.bins[at], table.assignment[at], channel)
        for at, channel in zip(bins.tolist(), targets.tolist(), strict=True)
    )


@compiled
def _greedy(
    weights: Floats, sizes: Floats, place: Ints, may_move: Bools, deficit: Floats, room: Floats
) -> tuple[Ints, Ints]:
    """The positions in the table of the bins to move, in order, and their new channels."""
    chosen = np.empty(len(weights), np.int64)
    targets = np.empty(len(weights), np.int64)
    moves = 0
    moved = True
    while moved:
        moved = False
        order = np.argsort(deficit, kind="mergesort")
        for donor in order:
            surplus = -deficit[donor]
            if moved or surplus <= 0:
                break
            for receiver in order[::-1]:
                lack = deficit[receiver]
                if lack <= 0:
                    break
                best, best_rate, best_relief = -1, 0.0, 0.0
                for at in range(len(weights)):
                    weight = weights[at]
                    if place[at] != donor or not may_move[at] or sizes[at] > room[receiver]:
                        continue
                    if weight >= (surplus + lack) * STRICTLY:
                        continue
                    relief = surplus + lack - abs(surplus - weight) - abs(lack - weight)
                    rate = relief / max(sizes[at], 1.0)
                    if rate > best_rate or (rate == best_rate and relief > best_relief):
                        best, best_rate, best_relief = at, rate, relief
                if best >= 0:
                    deficit[donor] += weights[best]
                    deficit[receiver] -= weights[best]
                    room[donor] += sizes[best]
                    room[receiver] -= sizes[best]
                    may_move[best] = False
                    chosen[moves], targets[moves] = best, receiver
                    moves += 1
                    moved = True
                    break
    return chosen[:moves], targets[:moves]
