# mypy: allow-untyped-defs, allow-untyped-calls
"""Repair: after an event, a bounded number of queries move. Compiled.

Ours; the paper moves nothing but the queries of a lost server. It goes round the hosted queries and looks at a few. For
each it weighs moving the query alone, and moving it with all on its server that read one of its rare sources: alone it
would leave that stream behind and open another. The best, by smoothed traffic saved per query moved, is made.
Law: each move lowers the smoothed traffic (so repair ends), none raises the real one, and the receiver stays within its limit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headgate.compiled import bare, compiled, inlined
from headgate.hosting.online.select_server import per_size
from headgate.hosting.placement.reference_counts import find
from headgate.hosting.placement.state import CURSOR, MOVES, SAVED, enter, leave
from headgate.hosting.repair.rare_readers import FEW, met, together
from headgate.hosting.repair.smoothed_traffic import smoothed

_LEAST_GAIN = 1e-9
_SKIP = 64


class Log(NamedTuple):
    """What was moved, a line a query: from where, to where; ``first`` is the line at which its move begins, which has what it saved."""

    query: Any
    origin: Any
    server: Any
    first: Any
    saved: Any


@inlined
def new_log(moves):
    """Return a log with room for so many queries."""
    return Log(
        np.empty(moves, np.int64),
        np.empty(moves, np.int64),
        np.empty(moves, np.int64),
        np.empty(moves, np.int64),
        np.zeros(moves),
    )


@bare
def tally(books, group, number, sources):
    """Count in `times` how many of a group read each source; list these sources; return how many they are."""
    width = 0
    for x in range(number):
        kind = books.type_of[group[x]]
        for i in range(books.type_start[kind], books.type_start[kind + 1]):
            s = books.type_source[i]
            if books.times[s] == 0:
                sources[width] = s
                width += 1
            books.times[s] += 1
    return width


@bare
def saving(books, sources, width, home, other):
    """Return the traffic that moving a tallied group saves: streams that end at home less those that begin there."""
    saved = 0.0
    for i in range(width):
        s = sources[i]
        if books.streams.count[find(books.streams, s, home)] == books.times[s]:
            saved += books.rate[s]
        if find(books.streams, s, other) < 0:
            saved -= books.rate[s]
    return saved


@bare
def best_move(books, group, number, sources, limit):
    """Return the server to which moving a group lowers the smoothed traffic most, and by how much; -1 if none does."""
    home, gain, server, count = (
        books.server_of[group[0]],
        books.gain,
        books.streams.server,
        books.streams.count,
    )
    cost = 0.0
    for x in range(number):
        cost += books.cost[group[x]]
    width = tally(books, group, number, sources)
    here, weight = 0.0, 0.0
    for i in range(width):
        s = sources[i]
        rate, times = books.rate[s], books.times[s]
        fresh = smoothed(times)
        weight += rate * fresh
        for at in range(books.streams.start[s], books.streams.start[s] + books.streams.size[s]):
            c = count[at]
            if server[at] == home:
                here += rate * (smoothed(c) - smoothed(c - times))
            else:
                gain[server[at]] += rate * (fresh - smoothed(c + times) + smoothed(c))
    best, stay = -1, weight - here
    most = stay + _LEAST_GAIN * (1.0 + weight)
    for i in range(width):
        s = sources[i]
        for at in range(books.streams.start[s], books.streams.start[s] + books.streams.size[s]):
            j = server[at]
            if j == home or gain[j] < most or books.load[j] + cost > limit * books.size[j]:
                continue
            if (
                best >= 0
                and gain[j] == most
                and (books.fill[j] > books.fill[best] or (books.fill[j] == books.fill[best] and j >= best))
            ):
                continue
            if saving(books, sources, width, home, j) >= -_LEAST_GAIN * weight:
                best, most = j, gain[j]
    for i in range(width):
        s = sources[i]
        books.times[s] = 0
        for at in range(books.streams.start[s], books.streams.start[s] + books.streams.size[s]):
            gain[server[at]] = 0.0
    return best, most - stay


@compiled
def repair(books, frame, look, log):
    """Move as many queries as the log holds, each time the best for so many looked at; return how many moved.

    It stops at a round that finds nothing.
    """
    slots, room = books.server_of.shape[0], log.query.shape[0]
    limit = per_size(books, frame, 0.0)
    few = min(room, FEW)
    sources = np.empty(frame.widest * few, np.int64)
    group, best = np.empty(few, np.int64), np.empty(few, np.int64)
    moved = 0
    while moved < room:
        left, skips = look, _SKIP * look
        size, to, most = 0, -1, 0.0
        while left > 0 and skips > 0:
            q = np.int64(books.totals[CURSOR])
            q = q if q < slots else np.int64(0)
            books.totals[CURSOR] = q + 1.0
            skips -= 1
            if books.server_of[q] < 0:
                continue
            left -= 1
            met(books, q)
            kind = books.type_of[q]
            for i in range(books.type_start[kind] - 1, books.type_start[kind + 1]):
                if i < books.type_start[kind]:
                    group[0], number = q, 1
                else:
                    number = together(
                        books, books.type_source[i], books.server_of[q], min(few, room - moved), group
                    )
                    if number < 2:
                        continue
                j, gained = best_move(books, group, number, sources, limit)
                if j >= 0 and gained > most * number:
                    size, to, most = number, j, gained / number
                    best[:number] = group[:number]
        if size == 0:
            return moved
        saved = 0.0
        for x in range(size):
            query = best[x]
            log.query[moved + x], log.origin[moved + x], log.server[moved + x] = (
                query,
                books.server_of[query],
                to,
            )
            log.first[moved + x] = moved
            saved += leave(books, query) - enter(books, query, to)
        log.saved[moved] = saved
        moved += size
        books.totals[MOVES] += size
        books.totals[SAVED] += saved
    return moved
