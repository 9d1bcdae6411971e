# mypy: allow-untyped-defs, allow-untyped-calls
"""Which server takes a query: the procedure of the paper's Figure 2 with its rules and ours. Compiled.

Candidates are the servers that stay within the limit with the query. The best score among them wins;
ties go to the least filled server, then to the lowest number (MICE-18, MICE-E9). If no server is a
candidate, the least filled one takes the query, and that is counted as a fallback (MICE-E1).

LeastCost and the rules like it look only at servers that already receive one of the query's sources.
All other servers tie, and the fill tree names the least filled of them. So a decision costs the number
of copies of its sources, not the number of servers. RareFirst sweeps over all servers for a query with
a source that is new.

``s`` stands for a source and ``j`` for a server; ``state.gain[j]`` collects what server j is worth.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import bare, inlined
from headgate.hosting.online.rules import (
    FENNEL,
    HDRF,
    LEAST_QT,
    LEAST_SOURCE,
    MIN_MAX,
    ON_RAND,
    RARE_FIRST,
    RESERVED,
)
from headgate.hosting.placement.fill_tree import least_filled
from headgate.hosting.placement.state import ARRIVALS, COST, DEPARTURES, FALLBACKS, QUERIES, READS, SIZE
from headgate.hosting.repair.smoothed_traffic import reader_weight
from headgate.hosting.settings import limit_per_size


@inlined
def source_worth(state, settings, s, all_readers):
    """Return what it is worth to receive a source already: its rate, and in two rules more if it has fewer readers."""
    if settings.rule == HDRF:
        return state.rate[s] * (1.0 + settings.parameter * (1.0 - (state.readers[s] + 1.0) / all_readers))
    if settings.rule == RARE_FIRST:
        return state.rate[s] / np.sqrt(np.sqrt(state.readers[s] + 1.0))
    return state.rate[s]


@inlined
def short_lived_discount(state, settings):
    """Return how strongly RareFirst discounts a stream with few readers: by 1/2, and by 1 if as many leave as arrive."""
    if settings.rule != RARE_FIRST:
        return 0.0
    return 0.5 + 0.5 * state.totals[DEPARTURES] / max(state.totals[ARRIVALS], 1.0)


@inlined
def popularity_worth(state, settings, query_type):
    """Return what a unit of popularity is worth to RareFirst: above 0 for a query with sources that nobody reads yet.

    A server's popularity over all reads is the rate that a read drawn from those now hosted finds on
    that server. The later readers of a new source bring such companions, as many as queries have now;
    the factor 1/2 is ours.
    """
    reads = state.totals[READS]
    if settings.rule != RARE_FIRST or reads == 0.0:
        return 0.0
    new = 0.0
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        if state.readers[state.type_source[i]] == 0:
            new += 1.0
    return 0.5 * new * (1.0 - state.totals[QUERIES] / reads) / reads


@inlined
def collect_gains(state, settings, query_type):
    """Add up, for each server that receives a source of the type, what receiving it is worth.

    RareFirst discounts a stream by the weight that the query would have as its next reader.
    """
    begin, end = state.type_start[query_type], state.type_start[query_type + 1]
    all_readers = 0.0
    if settings.rule == HDRF:
        for i in range(begin, end):
            all_readers += state.readers[state.type_source[i]] + 1.0
    discount = short_lived_discount(state, settings)
    gain, server, count = state.gain, state.streams.server, state.streams.count
    for i in range(begin, end):
        s = state.type_source[i]
        worth = source_worth(state, settings, s, all_readers)
        first = state.streams.start[s]
        if discount == 0.0:
            for at in range(first, first + state.streams.size[s]):
                gain[server[at]] += worth
        else:
            for at in range(first, first + state.streams.size[s]):
                gain[server[at]] += worth * (1.0 - discount * reader_weight(count[at] + 1))


@inlined
def clear_gains(state, query_type):
    """Set the gains back to 0."""
    gain, server = state.gain, state.streams.server
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        s = state.type_source[i]
        first = state.streams.start[s]
        for at in range(first, first + state.streams.size[s]):
            gain[server[at]] = 0.0


@inlined
def load_price(state, settings, query_type, cost):
    """Return the price of a unit of fill (for Fennel: of its square root) in the rules that weigh load against sources."""
    if settings.rule != RARE_FIRST and settings.rule != FENNEL:
        return 0.0
    weight = 0.0
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        weight += source_worth(state, settings, state.type_source[i], 1.0)
    mean = (state.totals[COST] + cost) / state.totals[SIZE]
    weight *= settings.parameter
    if settings.rule == RARE_FIRST:
        return weight / mean
    return weight / (state.type_start[query_type + 1] - state.type_start[query_type]) / np.sqrt(mean)


@bare
def best_receiver(state, settings, query_type, cost, limit):
    """Return the candidate with the largest gain less the price of its load, the least filled among equals, or -1.

    Only servers that receive a source of the query have a gain. The price grows with the fill, so of all
    other servers the least filled is the best.
    """
    collect_gains(state, settings, query_type)
    price = load_price(state, settings, query_type, cost)
    root = settings.rule == FENNEL
    load, size, fill, gain, server = state.load, state.size, state.fill, state.gain, state.streams.server
    best, best_score = np.int64(-1), -np.inf
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        s = state.type_source[i]
        first = state.streams.start[s]
        for at in range(first, first + state.streams.size[s]):
            j = server[at]
            score = gain[j]
            if price > 0.0:
                score -= price * (np.sqrt(fill[j]) if root else fill[j])
            if score < best_score:
                continue
            if score == best_score and (fill[j] > fill[best] or (fill[j] == fill[best] and j >= best)):
                continue
            if load[j] + cost <= limit * size[j]:
                best, best_score = np.int64(j), score
    clear_gains(state, query_type)
    least = least_filled(state)
    score = -price * (np.sqrt(fill[least]) if root else fill[least])
    if best < 0 or score > best_score or (score == best_score and fill[least] < fill[best]):
        other = least_filled_with_room(state, cost, limit)
        if best < 0 or (other >= 0 and fill[other] == fill[least]):
            best = other
    return best


@bare
def best_of_all(state, settings, query_type, cost, limit):
    """Return the candidate with the best score over all servers, or -1.

    The score is the traffic (LeastSource), the number of query types (LeastQT), the added traffic
    (MinMax), or gain, popularity and load (RareFirst). MinMax admits only the servers whose traffic is
    within the query's own of the least.
    """
    load, size, fill, traffic, distinct_types, gain = (
        state.load, state.size, state.fill, state.traffic, state.distinct_types, state.gain,
    )  # fmt: skip
    hosted = state.hosted_types
    if settings.rule == LEAST_QT:
        for at in range(hosted.start[query_type], hosted.start[query_type] + hosted.size[query_type]):
            gain[hosted.server[at]] = 1.0
    else:
        collect_gains(state, settings, query_type)
    most_traffic = np.inf
    if settings.rule == MIN_MAX:
        for j in range(size.shape[0]):
            if size[j] > 0.0 and load[j] + cost <= limit * size[j]:
                most_traffic = min(most_traffic, traffic[j])
        weight = 0.0
        for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
            weight += state.rate[state.type_source[i]]
        most_traffic += settings.parameter * weight
    price = load_price(state, settings, query_type, cost)
    per_popularity = popularity_worth(state, settings, query_type)
    best, least = np.int64(-1), np.inf
    for j in range(size.shape[0]):
        if size[j] == 0.0 or load[j] + cost > limit * size[j] or traffic[j] > most_traffic:
            continue
        score = -gain[j]
        if settings.rule == LEAST_QT:
            score += distinct_types[j]
        elif settings.rule == LEAST_SOURCE:
            score += traffic[j]
        elif settings.rule == RARE_FIRST:
            score += price * fill[j] - per_popularity * state.popularity[j]
        if best < 0 or score < least or (score == least and fill[j] < fill[best]):
            best, least = np.int64(j), score
    if settings.rule == LEAST_QT:
        for at in range(hosted.start[query_type], hosted.start[query_type] + hosted.size[query_type]):
            gain[hosted.server[at]] = 0.0
    else:
        clear_gains(state, query_type)
    return best


@bare
def random_candidate(state, cost, limit, chance):
    """Return the candidate that a number in [0, 1) picks uniformly, or -1."""
    candidates = 0
    for j in range(state.size.shape[0]):
        if state.size[j] > 0.0 and state.load[j] + cost <= limit * state.size[j]:
            candidates += 1
    skip = np.int64(chance * candidates)
    for j in range(state.size.shape[0]):
        if state.size[j] > 0.0 and state.load[j] + cost <= limit * state.size[j]:
            if skip == 0:
                return j
            skip -= 1
    return -1


@bare
def reserved_server(state, settings, query_type, cost, limit, chance):
    """Return the server that the type's shares and a number in [0, 1) pick, or -1 if it is full or there are no shares."""
    if query_type + 1 >= settings.share_start.shape[0]:
        return -1
    for i in range(settings.share_start[query_type], settings.share_start[query_type + 1]):
        if chance < settings.share_upto[i]:
            j = settings.share_server[i]
            return j if state.size[j] > 0.0 and state.load[j] + cost <= limit * state.size[j] else -1
    return -1


@bare
def least_filled_with_room(state, cost, limit):
    """Return the least filled server that stays within the limit with the cost, or -1."""
    best = least_filled(state)
    if state.load[best] + cost <= limit * state.size[best]:
        return np.int64(best)
    least = np.int64(-1)
    for j in range(state.size.shape[0]):
        fits = state.size[j] > 0.0 and state.load[j] + cost <= limit * state.size[j]
        if fits and (least < 0 or state.fill[j] < state.fill[least]):
            least = np.int64(j)
    return least


@inlined
def select_server(state, settings, query, chance):
    """Return the server for a query, or -1 if none can hold it within the hard capacity."""
    query_type, cost = state.type_of[query], state.cost[query]
    limit = limit_per_size(state, settings, cost)
    j = -1
    if settings.rule == ON_RAND:
        j = random_candidate(state, cost, limit, chance)
    elif settings.rule == RESERVED:
        j = reserved_server(state, settings, query_type, cost, limit, chance)
    sweep = (
        settings.rule in (LEAST_SOURCE, LEAST_QT, MIN_MAX)
        or popularity_worth(state, settings, query_type) > 0.0
    )
    if j < 0 and sweep:
        j = best_of_all(state, settings, query_type, cost, limit)
    elif j < 0 and settings.rule != ON_RAND:
        j = best_receiver(state, settings, query_type, cost, limit)
    if j < 0:
        state.totals[FALLBACKS] += 1.0
        j = least_filled_with_room(state, cost, settings.capacity)
    return j
