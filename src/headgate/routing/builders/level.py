# mypy: allow-untyped-defs, allow-untyped-calls
"""Levelling: the readjustment that a stage uses for bins and pins together. It is not in the paper.

`readj` accepts a step only if max - min falls. So it stops when two channels share the highest
level and two the lowest, which is the case when two channels are added at once. Levelling lowers
a potential instead:

    phi = sum over resources and channels of (level / (theta * mean))^2

It takes the resource with the largest spread, tries its fullest channels against its emptiest ones, and
makes the move (or, if no move helps, the swap) that lowers phi most. Every step lowers phi, so it ends;
it stops as soon as max - min of every resource is within ``enough`` times the tolerance. A move costs
O(items of the two channels), a swap the product of both.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled
from headgate.routing.builders.problem import Assignment, Problem, settle
from headgate.routing.builders.readj import add_up


@compiled
def _drop(levels, loads, inverse_speed, scale, i, j, d1, d2):
    """Return by how much phi falls when d1 goes from i to j, and d2 (if not -1) from j to i."""
    drop = 0.0
    for k in range(levels.shape[1]):
        delta = loads[d1, k] if d2 < 0 else loads[d1, k] - loads[d2, k]
        a, b = levels[i, k] * scale[k], levels[j, k] * scale[k]
        da, db = delta * inverse_speed[i] * scale[k], delta * inverse_speed[j] * scale[k]
        drop += a * a + b * b - (a - da) * (a - da) - (b + db) * (b + db)
    return drop


@compiled
def _level(channel, loads, levels, totals, inverse_speed, thetas, enough, step_limit):
    channels, resources = levels.shape
    items = channel.shape[0]
    scale = np.empty(resources)
    for k in range(resources):
        scale[k] = channels / (thetas[k] * totals[k]) if totals[k] > 0 else 0.0
    on_i = np.empty(items, np.int64)
    on_j = np.empty(items, np.int64)
    steps = 0
    while steps < step_limit:
        worst, spread = -1, enough
        for k in range(resources):
            this = (levels[:, k].max() - levels[:, k].min()) * scale[k]
            if this > spread:
                worst, spread = k, this
        if worst < 0:
            break
        order = np.argsort(levels[:, worst], kind="mergesort")  # stable: ties go to the lowest channel
        best_drop, best_1, best_2, target = 1e-12, -1, -1, -1
        for swaps in range(2):
            for high in range(channels - 1, 0, -1):
                i = order[high]
                size_i = 0
                for item in range(items):
                    if channel[item] == i:
                        on_i[size_i] = item
                        size_i += 1
                for low in range(high):
                    j = order[low]
                    if (levels[i, worst] - levels[j, worst]) * scale[worst] <= enough:
                        break
                    size_j = 0
                    if swaps:
                        for item in range(items):
                            if channel[item] == j:
                                on_j[size_j] = item
                                size_j += 1
                    for a in range(size_i):
                        if not swaps:
                            drop = _drop(levels, loads, inverse_speed, scale, i, j, on_i[a], -1)
                            if drop > best_drop:
                                best_drop, best_1, best_2, target = drop, on_i[a], -1, j
                        for b in range(size_j):
                            drop = _drop(levels, loads, inverse_speed, scale, i, j, on_i[a], on_j[b])
                            if drop > best_drop:
                                best_drop, best_1, best_2, target = drop, on_i[a], on_j[b], j
                    if best_1 >= 0:
                        break
                if best_1 >= 0:
                    break
            if best_1 >= 0:
                break
        if best_1 < 0:
            break
        source = channel[best_1]
        for k in range(resources):
            delta = loads[best_1, k] if best_2 < 0 else loads[best_1, k] - loads[best_2, k]
            levels[source, k] -= delta * inverse_speed[source]
            levels[target, k] += delta * inverse_speed[target]
        channel[best_1] = target
        if best_2 >= 0:
            channel[best_2] = source
        steps += 1
    return steps


def level(problem: Problem, *, enough: float = 1.0, max_steps: int = 10_000) -> Assignment:
    """Even out ``problem`` from its start until every resource is within ``enough`` times its tolerance.

    >>> level(Problem(np.full(8, 0.125), np.zeros(8, dtype=np.int64), 4)).channel.tolist()
    [1, 2, 3, 1, 2, 3, 0, 0]
    """
    items = problem.volume.shape[0]
    if problem.channels == 1 or items == 0:
        channel = np.zeros(items, dtype=np.int64)
        return settle(problem, channel, moved=problem.moved(channel))
    assert problem.start is not None
    packed = problem.pack()
    channel = problem.start.copy()
    levels, totals = packed.base.copy(), packed.totals.copy()
    add_up(channel, packed.loads, packed.inverse_speed, levels, totals)
    _level(
        channel, packed.loads, levels, totals, packed.inverse_speed, packed.thetas, float(enough), max_steps
    )
    return settle(problem, channel, moved=problem.moved(channel))
