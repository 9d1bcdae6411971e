# mypy: allow-untyped-defs, allow-untyped-calls
"""The scan builder (Gedik, Algorithm 2): hottest key first, each on the channel of best utility.

    for d in items by decreasing volume:  channel = argmin_l U(rho(H + {d -> l}), gamma(H + {d -> l}))

Costs O(items * channels); ties go to the lowest channel, and between equal items to the earlier one
(PART-E27). It is the fastest of the three, and about as balanced as `redist`. It never revises a choice.
The utility may have either base of the logarithm.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled
from headgate.routing.builders.greedy import best_channel, new_extremes, put, solve
from headgate.routing.builders.kernels import find_extremes
from headgate.routing.builders.problem import Assignment, Problem


@compiled
def _scan(order, loads, levels, totals, inverse_speed, thetas, counts, state, old, ideal, moved, code, out):
    factors = counts.sum()
    top, top_at, low, low_at = new_extremes(levels.shape[1])
    scale = np.empty(levels.shape[1])
    for item in order:
        find_extremes(levels, top, top_at, low, low_at)
        best, _ = best_channel(
            item, 1.0, loads, levels, totals, inverse_speed, thetas, counts, factors, state, old, ideal,
            moved, code, top, low, low_at, scale,
        )  # fmt: skip
        moved += put(item, best, loads, levels, totals, inverse_speed, state, old, out)
    return moved


def scan(problem: Problem) -> Assignment:
    """Place every item of ``problem``, hottest first.

    >>> scan(Problem(np.array([0.5, 0.3, 0.2]), np.array([0, 0, 0]), 2)).channel.tolist()
    [0, 1, 1]
    """
    return solve(_scan, np.argsort(-problem.volume, kind="stable"), problem)
