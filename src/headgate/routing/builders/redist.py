# mypy: allow-untyped-defs, allow-untyped-calls
"""The redist builder (Gedik, Algorithm 3): each step places the key and channel of best utility per volume.

    while items are left:  (d, l) = argmin U(rho(H + {d -> l}), gamma(H + {d -> l})) / volume(d)
                           H = H + {d -> l}

Costs O(items^2 * channels). The migration of a step is charged to the chosen item, not to the last item
tried as in the printed listing (PART-E12). It is the paper's most robust builder, and the default here.
The utility may have either base of the logarithm.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled
from headgate.routing.builders.greedy import best_channel, new_extremes, put, solve
from headgate.routing.builders.kernels import find_extremes
from headgate.routing.builders.problem import Assignment, Problem


@compiled
def _redist(
    volume, loads, levels, totals, inverse_speed, thetas, counts, state, old, ideal, moved, code, out
):
    factors = counts.sum()
    top, top_at, low, low_at = new_extremes(levels.shape[1])
    scale = np.empty(levels.shape[1])
    left = np.arange(volume.shape[0])
    for count in range(volume.shape[0], 0, -1):
        find_extremes(levels, top, top_at, low, low_at)
        best, best_place, best_value = -1, -1, np.inf
        for place in range(count):
            channel, value = best_channel(
                left[place], 1.0 / volume[left[place]], loads, levels, totals, inverse_speed, thetas,
                counts, factors, state, old, ideal, moved, code, top, low, low_at, scale,
            )  # fmt: skip
            if value < best_value:
                best, best_place, best_value = channel, place, value
        item = left[best_place]
        for place in range(best_place, count - 1):  # keeps the order, so that ties go to the earlier item
            left[place] = left[place + 1]
        moved += put(item, best, loads, levels, totals, inverse_speed, state, old, out)
    return moved


def redist(problem: Problem) -> Assignment:
    """Place every item of ``problem``, each time the item of best utility per volume.

    >>> redist(Problem(np.array([0.5, 0.3, 0.2]), np.array([0, 0, 0]), 2)).channel.tolist()
    [0, 1, 1]
    """
    return solve(_redist, problem.volume, problem)
