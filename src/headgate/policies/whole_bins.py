"""A plan in whole bins: near the planned shares, the moves with which the coming batches take least.

    y_0j = b_0j n_j + what j gives and takes, in seconds             the batch that begins now
    y_ij = b_ij (n_j + u_ij - u_0j) + move |u_ij - u_(i-1)j|         the i-th after it
    J    = sum_i max_j y_ij + TIDY * everything moved, in seconds

b are the expected costs, u the planned shares, n those after the moves. A difference between n and u_0
stays: bins are whole, so the next plan will not correct it. With n = u_0, J is what the shares were
planned for. The nearest moves (`shares`) mind how many rows a channel has too many, not how long it takes
for them: on a channel with a quarter of the others' speed and two bins, one more is half of the batch.

The search begins with the nearest moves and changes one bin at a time: a bin of a channel that is the
slowest in some batch goes elsewhere, or a move is taken back. It takes what lowers J most until nothing
does. Where several channels are the slowest together no single change lowers the maximum, so a little of
the mean square of the times is part of J.

Law: J of the result is at most that of the nearest moves, and that of no moves; a bin moves at most once;
no channel gets more state than it has room for.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled
from headgate.policies.horizon import TIDY, Floats
from headgate.policies.shares import Bins, Bools, Ints, moved, position
from headgate.routing.table import Move, Table

_SQUARES = 1e-3  # the weight of the mean squares in J
_LEAST = 1e-9  # of the batch's time: less is rounding
_ROUNDS = 4  # changes for each channel, at most


def soonest(
    moves: tuple[Move, ...],
    planned: Floats,
    unit_s: Floats,
    bins: Bins,
    table: Table,
    *,
    room: Floats,
    move_s: float,
    steps: int,
) -> tuple[Move, ...]:
    """The moves to carry out instead of `moves`, those nearest to the first row of `planned`.

    `unit_s` is each channel's expected cost, now or for each of `steps` coming batches; `room` its free memory in
    bytes; `move_s` the time in which a channel gives or takes all of the state.
    """
    costs = np.ascontiguousarray(np.broadcast_to(unit_s, (steps, table.channels)), dtype=np.float64)
    shares = planned[np.minimum(np.arange(steps), len(planned) - 1)]
    later = costs * (shares - shares[0])
    later[1:] += move_s * np.abs(np.diff(shares, axis=0))
    near = bins.place.copy()
    for move in moves:
        near[position(move.bin, table)] = move.target
    seconds = move_s * bins.sizes / max(bins.sizes.sum(), 1.0)
    place = _soonest(bins.weights, bins.sizes, seconds, bins.place, bins.movable, room, costs, later, near)
    gone = np.flatnonzero(place != bins.place)
    return moved(gone, place[gone], table)


@compiled
def _soonest(
    weights: Floats,
    sizes: Floats,
    seconds: Floats,
    place: Ints,
    movable: Bools,
    room: Floats,
    costs: Floats,
    later: Floats,
    near: Ints,
) -> Ints:
    """The channel of every bin. `seconds` is the time to give or take a bin."""
    at, free = near.copy(), room.copy()
    for bin in np.flatnonzero(near != place):
        free[near[bin]] -= sizes[bin]
        free[place[bin]] += sizes[bin]
    stay = times(weights, seconds, place, place, costs, later)
    y = times(weights, seconds, place, at, costs, later)
    squares = _SQUARES / max(stay.max(), y.max()) / costs.shape[1]
    for _ in range(_ROUNDS * costs.shape[1]):
        best, channel = _best(weights, sizes, seconds, place, movable, free, costs, at, y, squares)
        if best < 0:
            break
        free[at[best]] += sizes[best]
        free[channel] -= sizes[best]
        at[best] = channel
        y = times(weights, seconds, place, at, costs, later)
    if total(y, seconds, place, at, squares) < total(stay, seconds, place, place, squares):
        return at
    return place.copy()


@compiled
def times(weights: Floats, seconds: Floats, place: Ints, at: Ints, costs: Floats, later: Floats) -> Floats:
    """The time of each channel in each step if the bins of `place` go to `at`."""
    held, moving = np.zeros(costs.shape[1]), np.zeros(costs.shape[1])
    for bin in range(len(at)):
        held[at[bin]] += weights[bin]
        if at[bin] != place[bin]:
            moving[at[bin]] += seconds[bin]
            moving[place[bin]] += seconds[bin]
    y = later + costs * held
    y[0] += moving
    return y


@compiled
def total(y: Floats, seconds: Floats, place: Ints, at: Ints, squares: float) -> float:
    """J: what the search makes least."""
    spent = squares * (y * y).sum()
    for step in range(len(y)):
        spent += y[step].max()
    for bin in np.flatnonzero(at != place):
        spent += TIDY * seconds[bin]
    return float(spent)


@compiled
def _best(
    weights: Floats,
    sizes: Floats,
    seconds: Floats,
    place: Ints,
    movable: Bools,
    free: Floats,
    costs: Floats,
    at: Ints,
    y: Floats,
    squares: float,
) -> tuple[int, int]:
    """The bin whose change lowers J most, and its channel; -1 if there is none."""
    steps, channels = y.shape
    slowest = _slowest(y)
    is_slowest = np.zeros(channels, np.bool_)
    for step in range(steps):
        is_slowest[slowest[step, 0]] = True
    best, channel, most = -1, -1, _LEAST * y[0, slowest[0, 0]]
    weight_tried, size_tried = np.full(channels, -1.0), np.full(channels, -1.0)
    for bin in range(len(at)):
        now, home, weight, size = at[bin], place[bin], weights[bin], sizes[bin]
        if not movable[bin] or (now == home and not is_slowest[now]):
            continue
        if now == home:
            if weight == weight_tried[now] and size == size_tried[now]:
                continue  # the same as the bin before
            weight_tried[now], size_tried[now] = weight, size
        for to in range(channels):
            if to == now or (now != home and to != home and not is_slowest[now]) or size > free[to]:
                continue
            leaves = seconds[bin] if now == home else -seconds[bin]  # added to the time of `now`
            comes = -seconds[bin] if to == home else seconds[bin]
            lower = -TIDY * (leaves + comes) / 2
            for step in range(steps):
                old, new = y[step, now], y[step, to]
                less, more = old - costs[step, now] * weight, new + costs[step, to] * weight
                if step == 0:
                    less, more = less + leaves, more + comes
                lower += squares * (old * old + new * new - less * less - more * more)
                rest = 0
                while slowest[step, rest] in (now, to):
                    rest += 1
                after = max(less, more)
                if slowest[step, rest] >= 0:
                    after = max(after, y[step, slowest[step, rest]])
                lower += y[step, slowest[step, 0]] - after
            if lower > most:
                best, channel, most = bin, to, lower
    return best, channel


@compiled
def _slowest(y: Floats) -> Ints:
    """The three slowest channels of each step; -1 if there are only two."""
    steps, channels = y.shape
    found = np.full((steps, 3), -1, np.int64)
    for step in range(steps):
        for channel in range(channels):
            rank = 3
            while rank > 0 and (
                found[step, rank - 1] < 0 or y[step, channel] > y[step, found[step, rank - 1]]
            ):
                rank -= 1
            for lower in range(2, rank, -1):
                found[step, lower] = found[step, lower - 1]
            if rank < 3:
                found[step, rank] = channel
    return found
