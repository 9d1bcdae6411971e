# mypy: allow-untyped-defs, allow-untyped-calls
"""The redist builder (Gedik, Algorithm 3): each step places the key and channel of best utility per volume.

    while items are left:
        (d, l) = argmin U(rho(H + {d -> l}), gamma(H + {d -> l})) / volume(d);  H = H + {d -> l}

Costs O(items^2 * channels). The migration of a step is charged to the chosen item, not to the last item
tried as in the printed listing (PART-E12). It is the paper's most robust builder, and the default here.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled
from headgate.routing.builders.kernels import find_extremes, penalty_term, power, root, utility_of
from headgate.routing.builders.problem import Assignment, Problem, settle


@compiled
def _redist(
    volume, loads, levels, totals, inverse_speed, thetas, counts, state, old, ideal, moved, code, out
):
    channels, resources = levels.shape
    items = volume.shape[0]
    factors = counts.sum()
    top = np.empty((resources, 3))
    low = np.empty((resources, 3))
    top_at = np.empty((resources, 3), np.int64)
    low_at = np.empty((resources, 3), np.int64)
    scale = np.empty(resources)
    left = np.arange(items)
    count = items
    while count > 0:
        find_extremes(levels, top, top_at, low, low_at)
        best, best_place, best_utility = -1, -1, np.inf
        for place in range(count):
            item = left[place]
            per_volume = 1.0 / volume[item]
            for k in range(resources):
                allowed = thetas[k] * (totals[k] + loads[item, k]) / channels
                scale[k] = 1.0 / allowed if allowed > 0 else 0.0
            for channel in range(channels):
                product = 1.0
                for k in range(resources):
                    level = levels[channel, k] + loads[item, k] * inverse_speed[channel]
                    rest = low[k, 1] if low_at[k, 0] == channel else low[k, 0]
                    term = penalty_term(max(top[k, 0], level), min(rest, level), scale[k])
                    product *= power(term, counts[k])
                away = state[item] if channel != old[item] else 0.0
                value = utility_of(code, root(product, factors), (moved + away) / ideal) * per_volume
                if value < best_utility:
                    best, best_place, best_utility = channel, place, value
        item = left[best_place]
        for place in range(best_place, count - 1):  # keeps the order, so that ties go to the earlier item
            left[place] = left[place + 1]
        count -= 1
        for k in range(resources):
            levels[best, k] += loads[item, k] * inverse_speed[best]
            totals[k] += loads[item, k]
        if best != old[item]:
            moved += state[item]
        out[item] = best
    return moved


def redist(problem: Problem) -> Assignment:
    """Place every item of ``problem``, each time the item of best utility per volume.

    >>> redist(Problem(np.array([0.5, 0.3, 0.2]), np.array([0, 0, 0]), 2)).channel.tolist()
    [0, 1, 1]
    """
    items = problem.volume.shape[0]
    if problem.channels == 1 or items == 0:
        channel = np.zeros(items, dtype=np.int64)
        return settle(problem, channel, moved=problem.moved(channel))
    packed = problem.pack()
    out = np.empty(items, dtype=np.int64)
    moved = _redist(
        problem.volume,
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
