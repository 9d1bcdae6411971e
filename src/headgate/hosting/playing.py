# mypy: allow-untyped-defs, allow-untyped-calls
"""Events in order: queries come and go, and after each a bounded repair. Compiled.

Repair is ours; the paper moves nothing but the queries of a lost server. It goes round the hosted queries, looks at a few
after each event, and moves one where another server saves traffic: what a move buys is what it gives back here less
what it adds there. Law: each move lowers the traffic and stays within the receiver's limit.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled
from headgate.hosting.books import CAME, CURSOR, MOVES, SAVED, WENT, enter, leave, wanted
from headgate.hosting.choose import choose, forget, per_size
from headgate.hosting.pairs import spare

PLACE, REMOVE = 1, 0
_LEAST_SAVING = 1e-9
_SKIP = 64


@compiled
def best_move(books, query, limit):
    """Return the server to which moving a query saves most traffic, and how much; -1 if none saves any."""
    home, kind, cost = books.server_of[query], books.type_of[query], books.cost[query]
    gain, server, count = books.gain, books.streams.server, books.streams.count
    begin, end = books.type_start[kind], books.type_start[kind + 1]
    given_back, weight = 0.0, 0.0
    for i in range(begin, end):
        s = books.type_source[i]
        rate = books.rate[s]
        weight += rate
        for at in range(books.streams.start[s], books.streams.start[s] + books.streams.size[s]):
            if server[at] != home:
                gain[server[at]] += rate
            elif count[at] == 1:
                given_back += rate
    best, most = -1, weight - given_back + _LEAST_SAVING * (1.0 + weight)
    for i in range(begin if given_back > 0.0 else end, end):
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
            best, most = j, gain[j]
    forget(books, kind)
    return best, given_back + most - weight


@compiled
def repair(books, frame, look, log_query, log_origin, log_server, log_saved):
    """Look at so many hosted queries and move those that save traffic, as many as the log holds; return how many."""
    moved = 0
    slots = books.server_of.shape[0]
    limit = per_size(books, frame, 0.0)
    skips = _SKIP * look
    while look > 0 and skips > 0 and moved < log_query.shape[0]:
        q = np.int64(books.totals[CURSOR])
        q = q if q < slots else np.int64(0)
        books.totals[CURSOR] = q + 1.0
        skips -= 1
        home = books.server_of[q]
        if home < 0:
            continue
        look -= 1
        j, saved = best_move(books, q, limit)
        if j >= 0:
            leave(books, q)
            enter(books, q, j)
            log_query[moved], log_origin[moved], log_server[moved], log_saved[moved] = q, home, j, saved
            moved += 1
            books.totals[MOVES] += 1.0
            books.totals[SAVED] += saved
    return moved


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
