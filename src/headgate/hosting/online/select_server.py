# mypy: allow-untyped-defs, allow-untyped-calls
"""Which server takes a query: the frame of the paper's Figure 2 with its rules and ours, compiled.

Candidates are the servers that stay within the limit with the query; the best score among them wins; ties go to
the least filled, then to the lowest number (MICE-18, MICE-E9). If no server is a candidate the least filled one
takes it, and that is counted (MICE-E1).

LeastCost and its kin look only at servers that already receive one of the query's sources; all others tie, and
the tree of the books names the least filled of those. So a decision costs the copies of its sources, not k. RareFirst
sweeps over all servers for a query with a source that is new.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headgate.compiled import bare, inlined
from headgate.hosting.balance import SLACK
from headgate.hosting.placement.state import (
    CAME,
    COST,
    FALLBACKS,
    QUERIES,
    READINGS,
    SERVERS,
    SIZE,
    WENT,
    least_filled,
)
from headgate.hosting.repair.smoothed_traffic import reader

LEAST_COST, LEAST_SOURCE, LEAST_QT, ON_RAND, RESERVED, HDRF, FENNEL, MIN_MAX, RARE_FIRST = range(9)
_SLACK = 1.0 + SLACK


class Frame(NamedTuple):
    """A rule's number and parameter, the balance limits, and for `Reserved` the shares of servers by type.

    After each event at most ``moves`` queries are moved, each the best of ``look``; no query has more than ``widest`` sources.
    """

    rule: int
    parameter: float
    relative: float
    absolute: float
    capacity: float
    moves: int
    look: int
    widest: int
    share_start: Any
    share_server: Any
    share_upto: Any


@inlined
def per_size(books, frame, cost):
    """Return the limit of a server of size 1 once a query of this cost is in; cost 0 asks for the limit as it is."""
    queries, total = books.totals[QUERIES] + (1.0 if cost > 0.0 else 0.0), books.totals[COST] + cost
    if queries == 0.0:
        return frame.capacity
    servers, size = books.totals[SERVERS], books.totals[SIZE]
    few = total / size + frame.absolute * (total / queries) * (servers / size)
    many = (1.0 + frame.relative) * total / size
    return min(max(few, many), frame.capacity) * _SLACK


@inlined
def worth(books, frame, s, all_use):
    """Return what it is worth to have a source already: its rate, and in two rules more if fewer queries read it."""
    if frame.rule == HDRF:
        return books.rate[s] * (1.0 + frame.parameter * (1.0 - (books.use[s] + 1.0) / all_use))
    if frame.rule == RARE_FIRST:
        return books.rate[s] / np.sqrt(np.sqrt(books.use[s] + 1.0))
    return books.rate[s]


@inlined
def doubt(books, frame):
    """Return how much RareFirst discounts a stream for having few readers: half, and all of it where as many go as come."""
    if frame.rule != RARE_FIRST:
        return 0.0
    return 0.5 + 0.5 * books.totals[WENT] / max(books.totals[CAME], 1.0)


@inlined
def foresight(books, frame, kind):
    """Return what a unit of reach is worth to RareFirst: above 0 for a query with sources that nobody reads yet.

    Reach over all readings is the rate that a reading drawn from those now hosted finds on a server already. A new
    source's later readers come with such partners, as many as queries have now; the half is ours.
    """
    readings = books.totals[READINGS]
    if frame.rule != RARE_FIRST or readings == 0.0:
        return 0.0
    new = 0.0
    for i in range(books.type_start[kind], books.type_start[kind + 1]):
        if books.use[books.type_source[i]] == 0:
            new += 1.0
    return 0.5 * new * (1.0 - books.totals[QUERIES] / readings) / readings


@inlined
def collect(books, frame, kind):
    """Add up, for each server that receives a source of the type, what having it is worth.

    RareFirst discounts a stream by what the query would count as its next reader, times the doubt.
    """
    begin, end = books.type_start[kind], books.type_start[kind + 1]
    all_use = 0.0
    if frame.rule == HDRF:
        for i in range(begin, end):
            all_use += books.use[books.type_source[i]] + 1.0
    less = doubt(books, frame)
    gain, server, count = books.gain, books.streams.server, books.streams.count
    for i in range(begin, end):
        s = books.type_source[i]
        value = worth(books, frame, s, all_use)
        first = books.streams.start[s]
        if less == 0.0:
            for at in range(first, first + books.streams.size[s]):
                gain[server[at]] += value
        else:
            for at in range(first, first + books.streams.size[s]):
                gain[server[at]] += value * (1.0 - less * reader(count[at] + 1))


@inlined
def forget(books, kind):
    """Set the gains back to 0."""
    gain, server = books.gain, books.streams.server
    for i in range(books.type_start[kind], books.type_start[kind + 1]):
        s = books.type_source[i]
        first = books.streams.start[s]
        for at in range(first, first + books.streams.size[s]):
            gain[server[at]] = 0.0


@inlined
def price_of_load(books, frame, kind, cost):
    """Return what a unit of fill costs in the rules that weigh load against sources (for Fennel: its square root)."""
    if frame.rule != RARE_FIRST and frame.rule != FENNEL:
        return 0.0
    weight = 0.0
    for i in range(books.type_start[kind], books.type_start[kind + 1]):
        weight += books.rate[books.type_source[i]]
    mean = (books.totals[COST] + cost) / books.totals[SIZE]
    weight *= frame.parameter / (books.type_start[kind + 1] - books.type_start[kind])
    return weight / mean if frame.rule == RARE_FIRST else weight / np.sqrt(mean)


@bare
def best_touched(books, frame, kind, cost, limit):
    """Return the candidate of largest gain less the price of its load, the least filled among equals, or -1.

    The price grows with the fill, so among servers without a gain the least filled is the best.
    """
    collect(books, frame, kind)
    price = price_of_load(books, frame, kind, cost)
    root = frame.rule == FENNEL
    load, size, fill, gain, server = books.load, books.size, books.fill, books.gain, books.streams.server
    best, most = np.int64(-1), -np.inf
    for i in range(books.type_start[kind], books.type_start[kind + 1]):
        s = books.type_source[i]
        first = books.streams.start[s]
        for at in range(first, first + books.streams.size[s]):
            j = server[at]
            value = gain[j]
            if price > 0.0:
                value -= price * (np.sqrt(fill[j]) if root else fill[j])
            if value < most:
                continue
            if value == most and (fill[j] > fill[best] or (fill[j] == fill[best] and j >= best)):
                continue
            if load[j] + cost <= limit * size[j]:
                best, most = np.int64(j), value
    forget(books, kind)
    least = least_filled(books)
    value = -price * (np.sqrt(fill[least]) if root else fill[least])
    if best < 0 or value > most or (value == most and fill[least] < fill[best]):
        other = any_with_room(books, cost, limit)
        if best < 0 or (other >= 0 and fill[other] == fill[least]):
            best = other
    return best


@bare
def best_of_all(books, frame, kind, cost, limit):
    """Return the candidate of least traffic, types or added traffic, or of best gain, reach and load, over all servers, or -1.

    MinMax takes the least added traffic among those whose traffic is within the query's own of the lightest.
    """
    load, size, fill, traffic, kinds, gain = (
        books.load, books.size, books.fill, books.traffic, books.kinds, books.gain,
    )  # fmt: skip
    hosted = books.hosted
    if frame.rule == LEAST_QT:
        for at in range(hosted.start[kind], hosted.start[kind] + hosted.size[kind]):
            gain[hosted.server[at]] = 1.0
    else:
        collect(books, frame, kind)
    heaviest = np.inf
    if frame.rule == MIN_MAX:
        for j in range(size.shape[0]):
            if size[j] > 0.0 and load[j] + cost <= limit * size[j]:
                heaviest = min(heaviest, traffic[j])
        weight = 0.0
        for i in range(books.type_start[kind], books.type_start[kind + 1]):
            weight += books.rate[books.type_source[i]]
        heaviest += frame.parameter * weight
    price, ahead = price_of_load(books, frame, kind, cost), foresight(books, frame, kind)
    best, least = np.int64(-1), np.inf
    for j in range(size.shape[0]):
        if size[j] == 0.0 or load[j] + cost > limit * size[j] or traffic[j] > heaviest:
            continue
        value = -gain[j]
        if frame.rule == LEAST_QT:
            value += kinds[j]
        elif frame.rule == LEAST_SOURCE:
            value += traffic[j]
        elif frame.rule == RARE_FIRST:
            value += price * fill[j] - ahead * books.reach[j]
        if best < 0 or value < least or (value == least and fill[j] < fill[best]):
            best, least = np.int64(j), value
    if frame.rule == LEAST_QT:
        for at in range(hosted.start[kind], hosted.start[kind] + hosted.size[kind]):
            gain[hosted.server[at]] = 0.0
    else:
        forget(books, kind)
    return best


@bare
def drawn(books, cost, limit, chance):
    """Return a candidate drawn uniformly by a number in [0, 1), or -1."""
    candidates = 0
    for j in range(books.size.shape[0]):
        if books.size[j] > 0.0 and books.load[j] + cost <= limit * books.size[j]:
            candidates += 1
    left = np.int64(chance * candidates)
    for j in range(books.size.shape[0]):
        if books.size[j] > 0.0 and books.load[j] + cost <= limit * books.size[j]:
            if left == 0:
                return j
            left -= 1
    return -1


@bare
def reserved(books, frame, kind, cost, limit, chance):
    """Return the server that the type's shares and a number in [0, 1) name, or -1 if there is none or it is full."""
    if kind + 1 >= frame.share_start.shape[0]:
        return -1
    for i in range(frame.share_start[kind], frame.share_start[kind + 1]):
        if chance < frame.share_upto[i]:
            j = frame.share_server[i]
            return j if books.size[j] > 0.0 and books.load[j] + cost <= limit * books.size[j] else -1
    return -1


@bare
def any_with_room(books, cost, limit):
    """Return the least filled server that stays within the limit with the cost, or -1."""
    best = least_filled(books)
    if books.load[best] + cost <= limit * books.size[best]:
        return np.int64(best)
    least = np.int64(-1)
    for j in range(books.size.shape[0]):
        fits = books.size[j] > 0.0 and books.load[j] + cost <= limit * books.size[j]
        if fits and (least < 0 or books.fill[j] < books.fill[least]):
            least = np.int64(j)
    return least


@inlined
def choose(books, frame, query, chance):
    """Return the server for a query, or -1 if none can hold it within the hard capacity."""
    kind, cost = books.type_of[query], books.cost[query]
    limit = per_size(books, frame, cost)
    j = -1
    if frame.rule == ON_RAND:
        j = drawn(books, cost, limit, chance)
    elif frame.rule == RESERVED:
        j = reserved(books, frame, kind, cost, limit, chance)
    sweeping = frame.rule in (LEAST_SOURCE, LEAST_QT, MIN_MAX) or foresight(books, frame, kind) > 0.0
    if j < 0 and sweeping:
        j = best_of_all(books, frame, kind, cost, limit)
    elif j < 0 and frame.rule != ON_RAND:
        j = best_touched(books, frame, kind, cost, limit)
    if j < 0:
        books.totals[FALLBACKS] += 1.0
        j = any_with_room(books, cost, frame.capacity)
    return j
