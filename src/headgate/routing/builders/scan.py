# mypy: allow-untyped-defs, allow-untyped-calls
"""The scan builder (Gedik, Algorithm 2): hottest key first, each on the channel of best utility.

    for d in items by decreasing volume:  channel = argmin_l U(rho(H + {d -> l}), gamma(H + {d -> l}))

Costs O(items * channels); ties go to the lowest channel, and between equal items to the earlier one
(PART-E27). It is the fastest of the three, and about as balanced as `redist`. It never revises a choice.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled
from headgate.routing.builders.kernels import find_extremes, penalty_term, power, root, utility_of
from headgate.routing.builders.problem import Assignment, Problem, settle


@compiled
def _scan(order, loads, levels, totals, inverse_speed, thetas, counts, state, old, ideal, moved, code, out):
    channels, resources = levels.shape
    factors = counts.sum()
    top = np.empty((resources, 3))
    low = np.empty((resources, 3))
    top_at = np.empty((resources, 3), np.int64)
    low_at = np.empty((resources, 3), np.int64)
    scale = np.empty(resources)
    for item in order:
        find_extremes(levels, top, top_at, low, low_at)
        for k in range(resources):
            allowed = thetas[k] * (totals[k] + loads[item, k]) / channels
            scale[k] = 1.0 / allowed if allowed > 0 else 0.0
        best = -1
        best_utility = np.inf
        for channel in range(channels):
            product = 1.0
            for k in range(resources):
                level = levels[channel, k] + loads[item, k] * inverse_speed[channel]
                rest = low[k, 1] if low_at[k, 0] == channel else low[k, 0]
                product *= power(penalty_term(max(top[k, 0], level), min(rest, level), scale[k]), counts[k])
            away = state[item] if channel != old[item] else 0.0
            value = utility_of(code, root(product, factors), (moved + away) / ideal)
            if value < best_utility:
                best, best_utility = channel, value
        for k in range(resources):
            levels[best, k] += loads[item, k] * inverse_speed[best]
            totals[k] += loads[item, k]
        if best != old[item]:
            moved += state[item]
        out[item] = best
    return moved


def scan(problem: Problem) -> Assignment:
    """Place every item of ``problem``, hottest first.

    >>> scan(Problem(np.array([0.5, 0.3, 0.2]), np.array([0, 0, 0]), 2)).channel.tolist()
    [0, 1, 1]
    """
    items = problem.volume.shape[0]
    if problem.channels == 1 or items == 0:
        channel = np.zeros(items, dtype=np.int64)
        return settle(problem, channel, moved=problem.moved(channel))
    packed = problem.pack()
    out = np.empty(items, dtype=np.int64)
    moved = _scan(
        np.argsort(-problem.volume, kind="stable"),
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
