# mypy: allow-untyped-defs, allow-untyped-calls
"""Events in order: queries arrive and leave, and after each event a bounded repair, and refinement when it is due. Compiled."""

from __future__ import annotations

from headgate.compiled import compiled
from headgate.hosting.online.select_server import select_server
from headgate.hosting.placement.reference_counts import unused_pool
from headgate.hosting.placement.state import ARRIVALS, DEPARTURES, add_query, pool_demand, remove_query
from headgate.hosting.refinement.two_way import REFINED, most_opened, refine_if_due
from headgate.hosting.repair.rare_readers import forget_reader, remember_reader
from headgate.hosting.repair.search import new_move_log, repair_placement

PLACE, REMOVE = 1, 0


@compiled
def apply_events(state, settings, event, query, chance, server, begin):
    """Carry out events in order from ``begin``: PLACE or REMOVE a query. Return the index at which it stopped.

    It stops early where a pool of reference counts may run out (call `with_spare_pool`, then this again), or
    at a query that no server can hold (``server`` is -1 there). ``server`` gets the server of each event.
    """
    log, refined = new_move_log(settings.moves), new_move_log(REFINED)
    for i in range(begin, event.shape[0]):
        q = query[i]
        demand = pool_demand(state, most_opened(settings))
        if unused_pool(state.streams) < demand or (
            state.hosted_types.start.shape[0] > 0 and unused_pool(state.hosted_types) < demand
        ):
            return i
        if event[i] == REMOVE:
            server[i] = state.server_of[q]
            forget_reader(state, q)
            remove_query(state, q)
            state.totals[DEPARTURES] += 1.0
        else:
            server[i] = select_server(state, settings, q, chance[i])
            if server[i] < 0:
                return i
            add_query(state, q, server[i])
            state.totals[ARRIVALS] += 1.0
            if state.rare_readers.shape[0] > 0:
                remember_reader(state, q)
        if settings.moves > 0:
            repair_placement(state, settings, settings.examine, log)
            if settings.sample > 0:
                refine_if_due(state, settings, refined)
    return event.shape[0]
