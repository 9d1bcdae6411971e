# mypy: allow-untyped-defs, allow-untyped-calls
"""Events in order: queries come and go, and after each a bounded repair. Compiled."""

from __future__ import annotations

from headgate.compiled import compiled
from headgate.hosting.online.select_server import choose
from headgate.hosting.placement.reference_counts import spare
from headgate.hosting.placement.state import CAME, WENT, enter, leave, wanted
from headgate.hosting.repair.rare_readers import gone, met
from headgate.hosting.repair.search import new_log, repair

PLACE, REMOVE = 1, 0


@compiled
def play(books, frame, act, query, chance, server, begin):
    """Carry out events in order from ``begin``: PLACE or REMOVE a query. Return where it stopped.

    It stops early where a pool of pairs may run out (`books.with_room`, and call again), or at a query that no server can
    hold (``server`` is -1 there). ``server`` gets the choice of each placement.
    """
    log = new_log(frame.moves)
    for i in range(begin, act.shape[0]):
        q = query[i]
        need = wanted(books, frame.widest * (1 + frame.moves))
        if spare(books.streams) < need or (books.hosted.start.shape[0] > 0 and spare(books.hosted) < need):
            return i
        if act[i] == REMOVE:
            server[i] = books.server_of[q]
            gone(books, q)
            leave(books, q)
            books.totals[WENT] += 1.0
        else:
            server[i] = choose(books, frame, q, chance[i])
            if server[i] < 0:
                return i
            enter(books, q, server[i])
            books.totals[CAME] += 1.0
            if books.readers.shape[0] > 0:
                met(books, q)
        if frame.moves > 0:
            repair(books, frame, frame.look, log)
    return act.shape[0]
