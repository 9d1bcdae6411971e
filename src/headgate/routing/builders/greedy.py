# mypy: allow-untyped-defs, allow-untyped-calls
"""What `scan` and `redist` share: both place one item at a time, on its best channel, and never revise a choice.

They differ in which item is next. Ties go to the lowest channel, because only a strictly smaller utility
replaces the best one found so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headgate.compiled import compiled, inlined
from headgate.routing.balance import Floats, Ints
from headgate.routing.builders.kernels import penalty_term, power, root, utility_of
from headgate.routing.builders.problem import Assignment, Problem, settle


@compiled
def new_extremes(resources):
    """Return the empty arrays that `find_extremes` fills: the largest levels and their channels, the smallest and theirs."""
    shape = (resources, 3)
    return np.empty(shape), np.empty(shape, np.int64), np.empty(shape), np.empty(shape, np.int64)


@inlined
def best_channel(
    item, weight, loads, levels, totals, inverse_speed, thetas, counts, factors, state, old, ideal, moved, code,
    top, low, low_at, scale,
):  # fmt: skip
    """Return the channel on which ``item`` has the least utility times ``weight``, and that product."""
    channels, resources = levels.shape
    for k in range(resources):
        allowed = thetas[k] * (totals[k] + loads[item, k]) / channels
        scale[k] = 1.0 / allowed if allowed > 0 else 0.0
    best, best_value = -1, np.inf
    for channel in range(channels):
        product = 1.0
        for k in range(resources):
            level = levels[channel, k] + loads[item, k] * inverse_speed[channel]
            rest = low[k, 1] if low_at[k, 0] == channel else low[k, 0]
            product *= power(penalty_term(max(top[k, 0], level), min(rest, level), scale[k]), counts[k])
        away = state[item] if channel != old[item] else 0.0
        value = utility_of(code, root(product, factors), (moved + away) / ideal) * weight
        if value < best_value:
            best, best_value = channel, value
    return best, best_value


@inlined
def put(item, channel, loads, levels, totals, inverse_speed, state, old, out):
    """Place ``item`` on ``channel``; return the state that this moves."""
    for k in range(levels.shape[1]):
        levels[channel, k] += loads[item, k] * inverse_speed[channel]
        totals[k] += loads[item, k]
    out[item] = channel
    return state[item] if channel != old[item] else 0.0


def solve(kernel: Callable[..., Any], items: Floats | Ints, problem: Problem) -> Assignment:
    """Place every item of ``problem`` by a compiled ``kernel``, which is given ``items`` (their order, or their volume) first."""
    count = problem.volume.shape[0]
    if problem.channels == 1 or count == 0:
        channel = np.zeros(count, dtype=np.int64)
        return settle(problem, channel, moved=problem.moved(channel))
    packed = problem.pack()
    out = np.empty(count, dtype=np.int64)
    moved = kernel(
        items,
        packed.loads,
        packed.base.copy(),
        packed.totals.copy(),
        packed.inverse_speed,
        packed.thetas,
        packed.counts,
        packed.state,
        problem.old,
        packed.ideal_state,
        problem.moved_state,
        problem.objective.utility.value,
        out,
    )
    return settle(problem, out, moved=float(moved))
