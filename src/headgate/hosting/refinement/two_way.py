# mypy: allow-untyped-defs, allow-untyped-calls
"""The partitioner: the queries of a sample are divided anew between two servers, beginning with the division that is there. Compiled.

This is the refinement of Fiduccia and Mattheyses, as hypergraph partitioners use it between two blocks. Queries are vertices
and sources are nets; what is not in the sample stays where it is, and counts. First the fewer of the readers of one source
change sides, which closes a stream. Then, again and again, the query whose move gains most changes sides, even if it is a
loss; each moves once. At the end the best moment of the sequence is taken. So it leaves placements in which no single
move helps, where repair stops.

Moves are chosen by smoothed traffic. Law: what is taken lowers the real traffic, or keeps it and lowers the smoothed one
(so refinement ends); both servers are within their limits afterwards, or hold no more than before; no more queries move than
the budget allows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headgate.compiled import bare, compiled, inlined
from headgate.hosting.placement.reference_counts import find
from headgate.hosting.placement.state import (
    ARRIVALS,
    DEPARTURES,
    MOVED_BEFORE,
    MOVED_QUERIES,
    REFINEMENTS,
    SAVED_TRAFFIC,
    add_query,
    remove_query,
)
from headgate.hosting.refinement.sample import MOST_READS, draw_sample
from headgate.hosting.repair.smoothed_traffic import reader_weight
from headgate.hosting.settings import limit_per_size

REFINED = 64
"""No step of refinement moves more queries than this."""
_LEAST_GAIN = 1e-9


class Division(NamedTuple):
    """A sample as a hypergraph, and how it is divided now.

    By query of the sample: its `side` (0 or 1), the `gain` of its move, and whether it is `free` to move. By net: its readers
    on both sides (`count`), and those of the sample, `member[start[e]:start[e + 1]]`. `load` is by side, and `saved` holds what
    the moves made so far save of the real traffic and of the smoothed one.
    """

    query: Any
    side: Any
    gain: Any
    free: Any
    count: Any
    start: Any
    member: Any
    load: Any
    saved: Any


@bare
def worth(rate, here, there):
    """Return by how much moving one of ``here`` readers to a server with ``there`` lowers a source's smoothed traffic."""
    return rate * (reader_weight(here) - reader_weight(there + 1))


@compiled
def divided(state, query, home, other):
    """Return a sample as a hypergraph. The nets are numbered in `state.group_reads`, from 1, until `forget_nets`."""
    size, reads, nets = query.shape[0], 0, 0
    for v in range(size):
        reads += state.type_start[state.type_of[query[v]] + 1] - state.type_start[state.type_of[query[v]]]
    source, start = np.empty(reads, np.int64), np.zeros(reads + 1, np.int64)
    for v in range(size):
        query_type = state.type_of[query[v]]
        for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
            s = state.type_source[i]
            if state.group_reads[s] == 0:
                source[nets] = s
                nets += 1
                state.group_reads[s] = nets
            start[state.group_reads[s]] += 1
    count = np.zeros((nets, 2), np.int64)
    for e in range(nets):
        start[e + 1] += start[e]
        at, there = find(state.streams, source[e], home), find(state.streams, source[e], other)
        count[e, 0] = state.streams.count[at] if at >= 0 else 0
        count[e, 1] = state.streams.count[there] if there >= 0 else 0
    made = Division(
        query, np.zeros(size, np.int64), np.zeros(size), np.ones(size, np.bool_),
        count, start[: nets + 1], np.empty(reads, np.int64), np.array([state.load[home], state.load[other]]), np.zeros(2),
    )  # fmt: skip
    filled = start[:nets].copy()
    for v in range(size):
        made.side[v] = 0 if state.server_of[query[v]] == home else 1
        query_type = state.type_of[query[v]]
        for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
            s = state.type_source[i]
            e = state.group_reads[s] - 1
            made.member[filled[e]] = v
            filled[e] += 1
            made.gain[v] += worth(state.rate[s], count[e, made.side[v]], count[e, 1 - made.side[v]])
    return made


@bare
def forget_nets(state, query):
    """Leave no number of a net behind."""
    for v in range(query.shape[0]):
        query_type = state.type_of[query[v]]
        for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
            state.group_reads[state.type_source[i]] = 0


@bare
def change_side(state, now, v):
    """Move a query of a division to the other side, once."""
    here, there = now.side[v], 1 - now.side[v]
    now.free[v], now.side[v] = False, there
    now.load[here] -= state.cost[now.query[v]]
    now.load[there] += state.cost[now.query[v]]
    now.saved[1] += now.gain[v]
    query_type = state.type_of[now.query[v]]
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        s = state.type_source[i]
        e, rate = state.group_reads[s] - 1, state.rate[s]
        left, right = now.count[e, here], now.count[e, there]
        now.saved[0] += (rate if left == 1 else 0.0) - (rate if right == 0 else 0.0)
        now.count[e, here], now.count[e, there] = left - 1, right + 1
        of_left = worth(rate, left - 1, right + 1) - worth(rate, left, right)
        of_right = worth(rate, right + 1, left - 1) - worth(rate, right, left)
        if of_left != 0.0 or of_right != 0.0:
            for at in range(now.start[e], now.start[e + 1]):
                u = now.member[at]
                if now.free[u]:
                    now.gain[u] += of_left if now.side[u] == here else of_right


@bare
def best_free(state, now, most, spare):
    """Return the free query whose move gains most, to a side that it fills by no more than ``spare`` beyond ``most``; or -1."""
    best = -1
    for v in range(now.query.shape[0]):
        if now.free[v] and (best < 0 or now.gain[v] > now.gain[best]):
            there = 1 - now.side[v]
            if now.load[there] + state.cost[now.query[v]] <= most[there] + spare:
                best = v
    return best


@inlined
def most_opened(settings):
    """Return how many streams one event can open at most, with the repair and the refinement after it."""
    opened = settings.max_sources * (1 + 2 * settings.moves)
    if settings.sample > 0:
        opened += min(settings.max_sources, MOST_READS) * REFINED
    return opened


@compiled
def refine_if_due(state, settings, log):
    """After every ``settings.every`` events refine a sample, with what repair has left of its moves; return how many moved."""
    totals = state.totals
    if (totals[ARRIVALS] + totals[DEPARTURES]) % settings.every != 0.0:
        return 0
    left = settings.every * settings.moves - np.int64(totals[MOVED_QUERIES] - totals[MOVED_BEFORE])
    number = (np.int64(settings.seed) << 32) + np.int64(totals[REFINEMENTS])
    totals[REFINEMENTS] += 1.0
    moved = refine_placement(state, settings, number, min(left, log.query.shape[0]), log)
    totals[MOVED_BEFORE] = totals[MOVED_QUERIES]
    return moved


@compiled
def refine_placement(state, settings, number, budget, log):
    """Refine the sample that a number draws; move at most ``budget`` queries, and return how many moved."""
    sample = np.empty(settings.sample, np.int64)
    found, home, other, source = draw_sample(state, np.uint64(number), sample)
    if found == 0 or budget <= 0:
        return 0
    now = divided(state, sample[:found], home, other)
    limit = limit_per_size(state, settings, 0.0)
    most = np.maximum(now.load, limit * np.array([state.size[home], state.size[other]]))
    spare = 0.0
    for v in range(found):
        spare = max(spare, state.cost[now.query[v]])
    # Its readers may all read too many sources to be in the sample: then no stream is closed first.
    known, e = state.group_reads[source] > 0, max(state.group_reads[source] - 1, 0)
    fewer = 0 if now.count[e, 0] <= now.count[e, 1] else 1
    closes = known and now.count[e, fewer] <= budget // 2
    made, taken, real, smoothed, at = 0, 0, 0.0, 0.0, now.start[e]
    while made < budget:
        v = -1
        while closes and v < 0 and at < now.start[e + 1]:
            if now.free[now.member[at]] and now.side[now.member[at]] == fewer:
                v = now.member[at]
            at += 1
        if v < 0:
            v = best_free(state, now, most, spare)
        if v < 0:
            break
        change_side(state, now, v)
        log.query[made] = now.query[v]
        made += 1
        if now.load[0] <= most[0] and now.load[1] <= most[1]:
            equal = _LEAST_GAIN * (1.0 + abs(real))
            if now.saved[0] > real + equal or (
                now.saved[0] >= real and now.saved[1] > smoothed + _LEAST_GAIN * (1.0 + abs(smoothed))
            ):
                taken, real, smoothed = made, now.saved[0], now.saved[1]
    forget_nets(state, now.query)
    for line in range(taken):
        query = log.query[line]
        origin = np.int64(state.server_of[query])
        log.origin[line], log.server[line], log.first[line] = origin, home + other - origin, 0
        remove_query(state, query)
        add_query(state, query, log.server[line])
    if taken > 0:
        log.saved[0] = real
        state.totals[MOVED_QUERIES] += taken
        state.totals[SAVED_TRAFFIC] += real
    return taken
