# mypy: allow-untyped-defs, allow-untyped-calls
"""Events in order: queries come and go, and after each a bounded repair. Compiled.

Repair is ours; the paper moves nothing but the queries of a lost server. It goes round the hosted queries; for each move
it looks at a few and makes the one that lowers the smoothed traffic most. Law: each move lowers the smoothed
traffic (so repair ends), none raises the real one, and the receiver stays within its limit.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled, inlined
from headgate.hosting.books import CAME, CURSOR, MOVES, SAVED, WENT, enter, leave, wanted
from headgate.hosting.choose import choose, forget, per_size
from headgate.hosting.pairs import find, spare
from headgate.hosting.smooth import reader

PLACE, REMOVE = 1, 0
_LEAST_GAIN = 1e-9
_SKIP = 64


@inlined
def saving(books, kind, home, other):
    """Return the traffic that moving a query of a type saves: streams that end at home less those that begin there."""
    saved = 0.0
    for i in range(books.type_start[kind], books.type_start[kind + 1]):
        s = books.type_source[i]
        if books.streams.count[find(books.streams, s, home)] == 1:
            saved += books.rate[s]
        if find(books.streams, s, other) < 0:
            saved -= books.rate[s]
    return saved


@compiled
def best_move(books, query, limit):
    """Return the server to which moving a query lowers the smoothed traffic most, and by how much; -1 if none does."""
    home, kind, cost = books.server_of[query], books.type_of[query], books.cost[query]
    gain, server, count = books.gain, books.streams.server, books.streams.count
    begin, end = books.type_start[kind], books.type_start[kind + 1]
    here, weight = 0.0, 0.0
    for i in range(begin, end):
        s = books.type_source[i]
        rate = books.rate[s]
        weight += rate
        for at in range(books.streams.start[s], books.streams.start[s] + books.streams.size[s]):
            if server[at] == home:
                here += rate * reader(count[at])
            else:
                gain[server[at]] += rate * (1.0 - reader(count[at] + 1))
    best, stay = -1, weight - here
    most = stay + _LEAST_GAIN * (1.0 + weight)
    for i in range(begin, end):
        s = books.type_source[i]
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
            if saving(books, kind, home, j) >= -_LEAST_GAIN * weight:
                best, most = j, gain[j]
    forget(books, kind)
    return best, most - stay


@compiled
def repair(books, frame, look, log_query, log_origin, log_server, log_saved):
    """Make as many moves as the log holds, each the best of so many hosted queries; return how many were made.

    It stops at a round without a move.
    """
    slots = books.server_of.shape[0]
    limit = per_size(books, frame, 0.0)
    for moved in range(log_query.shape[0]):
        left, skips = look, _SKIP * look
        query, to, most = np.int64(-1), -1, 0.0
        while left > 0 and skips > 0:
            q = np.int64(books.totals[CURSOR])
            q = q if q < slots else np.int64(0)
            books.totals[CURSOR] = q + 1.0
            skips -= 1
            if books.server_of[q] < 0:
                continue
            left -= 1
            j, gained = best_move(books, q, limit)
            if j >= 0 and gained > most:
                query, to, most = q, j, gained
        if query < 0:
            return moved
        log_query[moved], log_origin[moved], log_server[moved] = query, books.server_of[query], to
        log_saved[moved] = leave(books, query) - enter(books, query, to)
        books.totals[MOVES] += 1.0
        books.totals[SAVED] += log_saved[moved]
    return log_query.shape[0]


@compiled
def play(books, frame, act, query, chance, server, begin):
    """Carry out events in order from ``begin``: PLACE or REMOVE a query. Return where it stopped.

    It stops early where a pool of pairs may run out (`books.with_room`, and call again), or at a query that no server can
    hold (``server`` is -1 there). ``server`` gets the choice of each placement.
    """
    log_query, log_origin, log_server = (
        np.empty(frame.moves, np.int64), np.empty(frame.moves, np.int64), np.empty(frame.moves, np.int64),
    )  # fmt: skip
    log_saved = np.empty(frame.moves)
    for i in range(begin, act.shape[0]):
        q = query[i]
        need = wanted(books, frame.widest * (1 + frame.moves))
        if spare(books.streams) < need or (books.hosted.start.shape[0] > 0 and spare(books.hosted) < need):
            return i
        if act[i] == REMOVE:
            server[i] = books.server_of[q]
            leave(books, q)
            books.totals[WENT] += 1.0
        else:
            server[i] = choose(books, frame, q, chance[i])
            if server[i] < 0:
                return i
            enter(books, q, server[i])
            books.totals[CAME] += 1.0
        if frame.moves > 0:
            repair(books, frame, frame.look, log_query, log_origin, log_server, log_saved)
    return act.shape[0]
