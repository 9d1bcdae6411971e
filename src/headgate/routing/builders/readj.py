# mypy: allow-untyped-defs, allow-untyped-calls
"""The readj builder (Gedik, Algorithm 4): start from where the keys are, then move or swap while rho falls.

    H = {d -> p_t(d)}
    repeat: over all moves and swaps w with rho(A(H, w)) < rho(H), apply the one of largest gain
            (u - u') / |volume(d1) - volume(d2)|, until there is none

Two variants (PART-E9). ``clean``, the default: u is the utility of the current placement. ``literal``:
as printed in the paper, u starts at 0 and takes the value of every improving candidate within a pass,
so that the result depends on the order of enumeration (channels i, j, item d1, then the move, then the
swaps). The reproduction says which variant produced a number. The utility may have either base of the
logarithm.

A pass costs O(items^2) in the worst case. Exact shortcuts make it much cheaper: rho falls only if, for
some resource, the only channel with the highest level gives, or the only channel with the lowest level
takes, less than the gap between the two. So most pairs of channels are skipped. If loads grow with
volume (as all in the paper do) only partners of nearly the same size are tried.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from headgate.compiled import compiled, inlined
from headgate.routing.builders.kernels import (
    STRICT,
    find_extremes,
    penalty_term,
    power,
    root,
    utility_of,
)
from headgate.routing.builders.problem import Assignment, Problem, settle

Variant = Literal["clean", "literal"]


@inlined
def _beyond(values, at, k, i, j, none):
    """Return the first of three extremes that is on neither channel i nor j."""
    for place in range(3):
        if at[k, place] != i and at[k, place] != j:
            return values[k, place] if at[k, place] >= 0 else none
    return none


@compiled
def _members(channel, channels, starts, members):
    """Sort item indices by channel, keeping their order."""
    starts[:] = 0
    for c in channel:
        starts[c + 1] += 1
    for c in range(channels):
        starts[c + 1] += starts[c]
    cursor = starts[:-1].copy()
    for item in range(channel.shape[0]):
        c = channel[item]
        members[cursor[c]] = item
        cursor[c] += 1


@compiled
def _look_around(levels, inverse_speed, top, top_at, low, low_at, i, j, high, bottom, out, back):
    """Fill the extremes without channels i and j, and how much load may usefully go i -> j and j -> i.

    rho_k can only fall if its only highest channel loses load, or its only lowest channel gains
    load, and the other channel of the pair does not pass the old extreme. Moving as much as the
    gap helps no resource.
    """
    some_out, some_back = False, False
    for k in range(levels.shape[1]):
        high[k] = _beyond(top, top_at, k, i, j, -np.inf)
        bottom[k] = _beyond(low, low_at, k, i, j, np.inf)
        peak, floor = top[k, 0], low[k, 0]
        out[k], back[k] = 0.0, 0.0
        if high[k] < peak:
            if levels[i, k] == peak:
                out[k] = (peak - levels[j, k]) / inverse_speed[j]
            if levels[j, k] == peak:
                back[k] = (peak - levels[i, k]) / inverse_speed[i]
        if bottom[k] > floor:
            if levels[j, k] == floor:
                out[k] = max(out[k], (levels[i, k] - floor) / inverse_speed[i])
            if levels[i, k] == floor:
                back[k] = max(back[k], (levels[j, k] - floor) / inverse_speed[j])
        some_out = some_out or out[k] > 0
        some_back = some_back or back[k] > 0
    return some_out, some_back


@compiled
def _best_of_pair(levels, inverse_speed, i, j, high, bottom, scale, counts, factors):
    """Return a lower bound of rho after any exchange between channels i and j: rho if they were equal."""
    product = 1.0
    for k in range(levels.shape[1]):
        capacity_i, capacity_j = 1.0 / inverse_speed[i], 1.0 / inverse_speed[j]
        equal = (levels[i, k] * capacity_i + levels[j, k] * capacity_j) / (capacity_i + capacity_j)
        product *= power(penalty_term(max(high[k], equal), min(bottom[k], equal), scale[k]), counts[k])
    return root(product, factors)


@compiled
def _readj(
    channel, volume, loads, levels, totals, inverse_speed, thetas, counts, state, old, ideal, moved, code,
    literal, monotone, enough, move_limit, step_limit,
):  # fmt: skip
    channels, resources = levels.shape
    items = volume.shape[0]
    factors = counts.sum()
    top, low = np.empty((resources, 3)), np.empty((resources, 3))
    top_at, low_at = np.empty((resources, 3), np.int64), np.empty((resources, 3), np.int64)
    high, bottom = np.empty(resources), np.empty(resources)
    out, back = np.empty(resources), np.empty(resources)
    scale = np.empty(resources)
    for k in range(resources):
        scale[k] = channels / (thetas[k] * totals[k]) if totals[k] > 0 else 0.0
    starts = np.empty(channels + 1, np.int64)
    members = np.empty(items, np.int64)
    returning = np.empty(items)  # state that moving the partner costs, or saves if it returns
    ask = np.empty(items + 1)  # how much d1 must offer before a swap with this partner can beat the best gain
    least_ask = np.empty(items + 1)  # the smallest of these from here on
    moves = np.zeros(items, np.int64)
    edge = np.zeros(channels, np.bool_)  # the channel has the highest or lowest level of some resource
    trace = np.empty(64)
    steps = 0
    utility = 0.0
    per_ideal = 1.0 / ideal
    while True:
        find_extremes(levels, top, top_at, low, low_at)
        product, worst = 1.0, 0.0
        for k in range(resources):
            term = penalty_term(top[k, 0], low[k, 0], scale[k])
            worst = max(worst, term)
            product *= power(term, counts[k])
        rho = root(product, factors)
        if steps == trace.shape[0]:
            longer = np.empty(2 * steps)
            longer[:steps] = trace
            trace = longer
        trace[steps] = rho
        if worst <= enough or steps >= step_limit:
            break
        if not literal:
            utility = utility_of(code, rho, moved * per_ideal)
        _members(channel, channels, starts, members)
        edge[:] = False
        for k in range(resources):
            edge[top_at[k, 0]] = True
            edge[low_at[k, 0]] = True
        best_gain = -np.inf
        best_1, best_2, best_j = -1, -1, -1
        for i in range(channels):
            if starts[i] == starts[i + 1]:
                continue
            for j in range(channels):
                if i == j or not (edge[i] or edge[j]):
                    continue
                some_out, some_back = _look_around(
                    levels, inverse_speed, top, top_at, low, low_at, i, j, high, bottom, out, back
                )
                if not (some_out or some_back) or (monotone and not literal and not some_out):
                    continue
                begin, end = starts[j], starts[j + 1]
                if not literal and not monotone and i > j:
                    end = begin  # `clean` looks at each swap once: from its larger item, or else from i < j
                # A swap's utility is at least base + slope * (state moved), and it wins only if its gain
                # exceeds best_gain * (difference of volumes). Both are sums of a part of d1 and a part of d2.
                base = _best_of_pair(levels, inverse_speed, i, j, high, bottom, scale, counts, factors)
                slope = per_ideal if code == 1 else (base * per_ideal if code == 3 else 0.0)
                # Below 0 this is sound only if d2 is always the smaller one.
                bounded = best_gain > 0.0 or (best_gain > -np.inf and monotone and not literal)
                bar = best_gain if bounded else 0.0
                least_ask[end] = 0.0  # a plain move
                for place in range(end - 1, begin - 1, -1):
                    item = members[place]
                    weight = 1.0 if old[item] == j else (-1.0 if old[item] == i else 0.0)
                    returning[place] = state[item] * weight
                    ask[place] = slope * returning[place] - bar * volume[item]
                    if not bounded:
                        ask[place] = -np.inf
                    least_ask[place] = min(least_ask[place + 1], ask[place])
                smaller, first, last = begin, begin, begin if monotone else end
                for place_1 in range(starts[i], starts[i + 1]):
                    d1 = members[place_1]
                    if moves[d1] >= move_limit:
                        continue
                    moved_1 = moved + state[d1] * (
                        (1.0 if old[d1] == i else 0.0) - (1.0 if old[d1] == j else 0.0)
                    )
                    slack = STRICT * (1.0 + abs(bar) * volume[d1])  # rounding must not exclude a winner
                    offer = utility - base - slope * moved_1 - bar * volume[d1] + slack
                    if bounded and offer <= least_ask[begin]:
                        continue
                    if monotone:  # the range of possible partners moves along as d1 gets smaller
                        while smaller < end and members[smaller] < d1:
                            smaller += 1
                        if not (literal and some_back):
                            first = smaller
                        far = True
                        while far and first < smaller:
                            for k in range(resources):
                                far = far and loads[members[first], k] - loads[d1, k] >= back[k]
                            first += far
                        last = max(last, smaller)
                        near = some_out
                        while near and last < end:
                            near = False
                            for k in range(resources):
                                near = near or loads[d1, k] - loads[members[last], k] < out[k]
                            last += near
                    final = last
                    if bounded and offer <= least_ask[smaller if monotone else first]:
                        if first >= smaller:
                            continue
                        final = smaller  # only larger partners may still win
                    for place_2 in range(first - 1, final):
                        d2, away, moved_new = -1, volume[d1], moved_1
                        if place_2 >= first:
                            ask_2 = ask[place_2]
                            if place_2 < smaller:  # with a larger partner the difference has the other sign
                                ask_2 += 2.0 * bar * (volume[members[place_2]] - volume[d1])
                            if offer <= ask_2:
                                continue
                            d2 = members[place_2]
                            if moves[d2] >= move_limit:
                                continue
                            away = max(abs(away - volume[d2]), STRICT)  # PART-E11
                            moved_new += returning[place_2]
                        product_new = 1.0
                        for k in range(resources):
                            delta = loads[d1, k] if d2 < 0 else loads[d1, k] - loads[d2, k]
                            new_i = levels[i, k] - delta * inverse_speed[i]
                            new_j = levels[j, k] + delta * inverse_speed[j]
                            upper = max(high[k], max(new_i, new_j))
                            lower = min(bottom[k], min(new_i, new_j))
                            product_new *= power(penalty_term(upper, lower, scale[k]), counts[k])
                        if product_new >= product:
                            continue
                        rho_new = root(product_new, factors)
                        if rho_new >= rho - STRICT:
                            continue
                        value = utility_of(code, rho_new, moved_new * per_ideal)
                        if utility - value > best_gain * away:
                            best_gain, best_1, best_2, best_j = (utility - value) / away, d1, d2, j
                            if literal:
                                offer += value - utility
                                utility = value
        if best_1 < 0:
            break
        pair, ends = (best_1, best_2), (channel[best_1], best_j)
        for side in range(2):
            item, source, target = pair[side], ends[side], ends[1 - side]
            if item < 0:
                continue
            if old[item] == source:
                moved += state[item]
            elif old[item] == target:
                moved -= state[item]
            for k in range(resources):
                levels[source, k] -= loads[item, k] * inverse_speed[source]
                levels[target, k] += loads[item, k] * inverse_speed[target]
            channel[item] = target
            moves[item] += 1
        steps += 1
    return moved, trace[: steps + 1]


@compiled
def add_up(channel, loads, inverse_speed, levels, totals):
    """Add every item's loads to the level of its channel, and to the totals."""
    for item in range(channel.shape[0]):
        c = channel[item]
        for k in range(loads.shape[1]):
            levels[c, k] += loads[item, k] * inverse_speed[c]
            totals[k] += loads[item, k]


def readj(
    problem: Problem,
    *,
    variant: Variant = "clean",
    enough: float = 0.0,
    moves_per_item: int | None = None,
    max_steps: int | None = None,
) -> Assignment:
    """Improve the current placement of ``problem`` until no move or swap lowers rho.

    Every step lowers rho by more than 1e-12, so it ends. It stops on plateaus: if two channels share
    the highest level and two the lowest, no single step lowers rho. Add one channel at a time as the
    paper does, or use another builder. It also stops when rho of each resource is at most ``enough`` (1
    is the tolerated imbalance). ``moves_per_item`` is the paper's c; ``max_steps`` bounds the work.

    >>> readj(Problem(np.array([0.5, 0.3, 0.2]), np.array([0, 0, 0]), 2)).channel.tolist()
    [1, 0, 0]
    """
    if variant not in ("clean", "literal"):
        raise ValueError(f"variant is 'clean' or 'literal', got {variant!r}")
    items = problem.volume.shape[0]
    if problem.channels == 1 or items == 0:
        channel = np.zeros(items, dtype=np.int64)
        return settle(problem, channel, moved=problem.moved(channel))
    assert problem.start is not None
    packed = problem.pack()
    order = np.argsort(-problem.volume, kind="stable")
    channel, loads = problem.start[order], np.ascontiguousarray(packed.loads[order])
    levels, totals = packed.base.copy(), packed.totals.copy()
    add_up(channel, loads, packed.inverse_speed, levels, totals)
    limit = np.iinfo(np.int64).max
    moved, trace = _readj(
        channel,
        problem.volume[order],
        loads,
        levels,
        totals,
        packed.inverse_speed,
        packed.thetas,
        packed.counts,
        packed.state[order],
        problem.old[order],
        packed.ideal_state,
        problem.moved(problem.start),
        problem.objective.utility.value,
        variant == "literal",
        bool(np.all(np.diff(loads, axis=0) <= 0)),
        float(enough),
        limit if moves_per_item is None else moves_per_item,
        limit if max_steps is None else max_steps,
    )
    out = np.empty_like(channel)
    out[order] = channel
    return settle(problem, out, moved=float(moved), rho_trace=tuple(float(x) for x in trace))
