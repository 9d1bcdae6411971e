"""From shares to moves: which bins carry the channels to the shares that a controller asks for.

    deficit(c) = target(c) - sum of the weights of c's bins        weight: a bin's part of all work

The channel with most too much gives to the one with most too little, a bin at a time. Among the donor's bins it
is the one that takes most of the two channels' deficits away for each byte of its state; then the one that takes
most away; then the lowest id. A bin that the receiver has no room for stays. When no bin helps, the next pair is tried.

Law: every move makes sum |deficit| strictly smaller, and a bin moves once. When it ends, no bin with room
helps any pair, so for the pair (d, r): target(r) lacks, and d has too much, together at most the lightest bin of d that
has work. Bins must be many more than channels; a target below a bin's weight cannot be met.
"""

from __future__ import annotations

import numpy as np

from headgate.ids import Bin, Channel
from headgate.policies.horizon import Floats
from headgate.policies.pairing import STRICTLY, bins_held
from headgate.reports.load_view import LoadView
from headgate.routing.table import Move, Table


def shares_of(view: LoadView, table: Table) -> Floats:
    """The part of the work that each channel has under a table; equal parts where there is no work."""
    shares = np.zeros(table.channels)
    for bin, channel in table.items():
        shares[channel] += view.bin_work.get(bin, 0.0)
    total = shares.sum()
    return shares / total if total > 0 else np.full(table.channels, 1 / table.channels)


def departs(target: Floats, current: Floats, deadband: float) -> bool:
    """Whether some share changes by at least this part of itself; any increase from nothing counts.

    >>> departs(np.array([0.524, 0.476]), np.array([0.5, 0.5]), 0.05)
    False
    >>> departs(np.array([0.53, 0.47]), np.array([0.5, 0.5]), 0.05)
    True
    """
    change = np.abs(target - current)
    return bool((change[change > 0] >= deadband * current[change > 0]).any())


def moves_to(
    target: Floats, view: LoadView, table: Table, *, room: list[float] | None = None
) -> tuple[Move, ...]:
    """The moves that bring the shares near the target, best first. `room` is each channel's free memory in bytes.

    Cost: for each move one pass over the donor's bins.
    """
    return tuple(_Shift(target, view, table, room).run())


class _Shift:
    def __init__(self, target: Floats, view: LoadView, table: Table, room: list[float] | None) -> None:
        total = sum(view.bin_work.get(bin, 0.0) for bin in table.bins) or 1.0
        held = bins_held(table)
        self.bins = [np.array(mine, dtype=np.int64) for mine in held]
        self.weights = [
            np.array([view.bin_work.get(bin, 0.0) / total for bin in mine], dtype=np.float64) for mine in held
        ]
        self.sizes = [
            np.array([view.bin_bytes.get(bin, 0) for bin in mine], dtype=np.float64) for mine in held
        ]
        self.room = np.full(table.channels, np.inf) if room is None else np.array(room, dtype=np.float64)
        self.deficit = target - shares_of(view, table)

    def run(self) -> list[Move]:
        moves: list[Move] = []
        while (move := self._next()) is not None:
            moves.append(move)
        return moves

    def _next(self) -> Move | None:
        """The next move: the outermost pair that a bin helps."""
        order = np.argsort(self.deficit, kind="stable")
        donors = [int(c) for c in order if self.deficit[c] < 0]
        receivers = [int(c) for c in order[::-1] if self.deficit[c] > 0]
        for donor in donors:
            for receiver in receivers:
                at = self._best(donor, receiver)
                if at is not None:
                    return self._shift(donor, receiver, at)
        return None

    def _best(self, donor: Channel, receiver: Channel) -> int | None:
        weight, size = self.weights[donor], self.sizes[donor]
        surplus, lack = -self.deficit[donor], self.deficit[receiver]
        relief = surplus + lack - np.abs(surplus - weight) - np.abs(lack - weight)
        helps = (weight > 0) & (weight < (surplus + lack) * STRICTLY) & (size <= self.room[receiver])
        if not helps.any():
            return None
        per_byte = np.where(helps, relief / np.maximum(size, 1.0), -np.inf)
        best = np.flatnonzero(per_byte == per_byte.max())
        return int(best[np.argmax(relief[best])])

    def _shift(self, donor: Channel, receiver: Channel, at: int) -> Move:
        weight, size, bin = self.weights[donor][at], self.sizes[donor][at], int(self.bins[donor][at])
        self.deficit[donor] += weight
        self.deficit[receiver] -= weight
        self.room[donor] += size
        self.room[receiver] -= size
        for column in (self.bins, self.weights, self.sizes):
            column[donor] = np.delete(column[donor], at)
        return Move(Bin(bin), donor, receiver)
