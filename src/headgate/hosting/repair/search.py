# mypy: allow-untyped-defs, allow-untyped-calls
"""The search for moves: after an event, a bounded number of queries change their server. Compiled.

Repair is ours; the paper moves no queries but those of a lost server. The search goes round the hosted
queries and examines a few. For each it weighs moving the query alone, and moving it together with all
queries on its server that read one of its rare sources: alone it would leave that stream behind and open
another. The move that saves the most smoothed traffic per query moved is made.

Law: each move lowers the smoothed traffic (so repair ends), none raises the real traffic, and the receiver
stays within its limit. ``s`` stands for a source and ``j`` for a server.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headgate.compiled import bare, compiled, inlined
from headgate.hosting.placement.reference_counts import find
from headgate.hosting.placement.state import (
    MOVED_QUERIES,
    RARE,
    REPAIR_CURSOR,
    SAVED_TRAFFIC,
    add_query,
    remove_query,
)
from headgate.hosting.repair.rare_readers import readers_on_server, remember_reader
from headgate.hosting.repair.smoothed_traffic import stream_weight
from headgate.hosting.settings import limit_per_size

_LEAST_GAIN = 1e-9
_EMPTY_SLOTS_PER_EXAMINED = 64


class MoveLog(NamedTuple):
    """The queries that moved, a line each: its origin and its new server.

    ``first`` is the line at which the query's move begins; that line has what the whole move saved.
    """

    query: Any
    origin: Any
    server: Any
    first: Any
    saved: Any


@inlined
def new_move_log(moves):
    """Return a log with room for so many queries."""
    return MoveLog(
        np.empty(moves, np.int64),
        np.empty(moves, np.int64),
        np.empty(moves, np.int64),
        np.empty(moves, np.int64),
        np.zeros(moves),
    )


@bare
def count_group_reads(state, group, number, sources):
    """Count in `group_reads` how many queries of a group read each source; list these sources and return their number."""
    width = 0
    for member in range(number):
        query_type = state.type_of[group[member]]
        for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
            s = state.type_source[i]
            if state.group_reads[s] == 0:
                sources[width] = s
                width += 1
            state.group_reads[s] += 1
    return width


@bare
def traffic_saved(state, sources, width, home, other):
    """Return the traffic that moving a counted group saves: streams that end at home less those that begin elsewhere."""
    saved = 0.0
    for i in range(width):
        s = sources[i]
        if state.streams.count[find(state.streams, s, home)] == state.group_reads[s]:
            saved += state.rate[s]
        if find(state.streams, s, other) < 0:
            saved -= state.rate[s]
    return saved


@bare
def best_move(state, group, number, sources, limit):
    """Return the server to which moving a group lowers the smoothed traffic most, and by how much; -1 if none does."""
    home, gain = state.server_of[group[0]], state.gain
    server, count = state.streams.server, state.streams.count
    cost = 0.0
    for member in range(number):
        cost += state.cost[group[member]]
    width = count_group_reads(state, group, number, sources)
    at_home, weight = 0.0, 0.0
    for i in range(width):
        s = sources[i]
        rate, reads = state.rate[s], state.group_reads[s]
        new_stream = stream_weight(reads)
        weight += rate * new_stream
        for at in range(state.streams.start[s], state.streams.start[s] + state.streams.size[s]):
            c = count[at]
            if server[at] == home:
                at_home += rate * (stream_weight(c) - stream_weight(c - reads))
            else:
                gain[server[at]] += rate * (new_stream - stream_weight(c + reads) + stream_weight(c))
    best, stay = -1, weight - at_home
    most = stay + _LEAST_GAIN * (1.0 + weight)
    for i in range(width):
        s = sources[i]
        for at in range(state.streams.start[s], state.streams.start[s] + state.streams.size[s]):
            j = server[at]
            if j == home or gain[j] < most or state.load[j] + cost > limit * state.size[j]:
                continue
            if (
                best >= 0
                and gain[j] == most
                and (state.fill[j] > state.fill[best] or (state.fill[j] == state.fill[best] and j >= best))
            ):
                continue
            if traffic_saved(state, sources, width, home, j) >= -_LEAST_GAIN * weight:
                best, most = j, gain[j]
    for i in range(width):
        s = sources[i]
        state.group_reads[s] = 0
        for at in range(state.streams.start[s], state.streams.start[s] + state.streams.size[s]):
            gain[server[at]] = 0.0
    return best, most - stay


@compiled
def repair_placement(state, settings, examine, log):
    """Move at most as many queries as the log holds and return how many moved.

    Before each move it examines ``examine`` hosted queries; it stops when none of them has a move that helps.
    """
    slots, budget = state.server_of.shape[0], log.query.shape[0]
    limit = limit_per_size(state, settings, 0.0)
    largest_group = min(budget, RARE)
    sources = np.empty(settings.max_sources * largest_group, np.int64)
    group, best_group = np.empty(largest_group, np.int64), np.empty(largest_group, np.int64)
    moved = 0
    while moved < budget:
        to_examine, slots_left = examine, _EMPTY_SLOTS_PER_EXAMINED * examine
        best_size, best_server, best_gain = 0, -1, 0.0
        while to_examine > 0 and slots_left > 0:
            q = np.int64(state.totals[REPAIR_CURSOR])
            q = q if q < slots else np.int64(0)
            state.totals[REPAIR_CURSOR] = q + 1.0
            slots_left -= 1
            if state.server_of[q] < 0:
                continue
            to_examine -= 1
            remember_reader(state, q)
            query_type = state.type_of[q]
            # First the query alone, then its group for each of its sources.
            for i in range(state.type_start[query_type] - 1, state.type_start[query_type + 1]):
                if i < state.type_start[query_type]:
                    group[0], number = q, 1
                else:
                    number = readers_on_server(
                        state,
                        state.type_source[i],
                        state.server_of[q],
                        min(largest_group, budget - moved),
                        group,
                    )
                    if number < 2:
                        continue
                j, gained = best_move(state, group, number, sources, limit)
                if j >= 0 and gained > best_gain * number:
                    best_size, best_server, best_gain = number, j, gained / number
                    best_group[:number] = group[:number]
        if best_size == 0:
            return moved
        saved = 0.0
        for member in range(best_size):
            query, line = best_group[member], moved + member
            log.query[line], log.origin[line], log.server[line] = query, state.server_of[query], best_server
            log.first[line] = moved
            saved += remove_query(state, query) - add_query(state, query, best_server)
        log.saved[moved] = saved
        moved += best_size
        state.totals[MOVED_QUERIES] += best_size
        state.totals[SAVED_TRAFFIC] += saved
    return moved
