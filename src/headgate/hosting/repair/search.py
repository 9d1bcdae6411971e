# mypy: allow-untyped-defs, allow-untyped-calls
"""The search for moves: after an event, a bounded number of queries change their server. Compiled.

Repair is ours; the paper moves no queries but those of a lost server. The search goes round the hosted
queries and examines a few. For each it weighs moving the query alone, and moving it together with all
queries on its server that read one of its rare sources: alone it would leave that stream behind and open
another. The move that saves the most smoothed traffic per query moved is made. If none helps, because the
servers where it would are full, a query is exchanged with one of such a server.

Law: each move or exchange lowers the smoothed traffic (so repair ends), none raises the real traffic, and
the receivers stay within their limits. ``s`` stands for a source and ``j`` for a server.
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
from headgate.hosting.repair.smoothed_traffic import reader_weight, stream_weight
from headgate.hosting.settings import limit_per_size

_LEAST_GAIN = 1e-9
_EMPTY_SLOTS_PER_EXAMINED = 64
_MOST_GROUPS = 16
"""For so many of a query's sources the group of their readers is weighed."""
_MOST_READS = 512
"""A group whose queries read more sources than this together does not move as one."""
_PARTNERS = 8
"""With so many queries of a full server an exchange is tried."""
_SCANNED = 512
"""Among so many queries these are looked for."""


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
def reads_of(state, group, number):
    """Return how many sources the queries of a group read, each source once for each query."""
    reads = 0
    for member in range(number):
        query_type = state.type_of[group[member]]
        reads += state.type_start[query_type + 1] - state.type_start[query_type]
    return reads


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
    """Return the server to which moving a group lowers the smoothed traffic most, and by how much; -1 if none does.

    Return beside it the best of the servers that have no room, and what that one would save.
    """
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
    best, full, stay = -1, -1, weight - at_home
    most = stay + _LEAST_GAIN * (1.0 + weight)
    most_full = most
    for i in range(width):
        s = sources[i]
        for at in range(state.streams.start[s], state.streams.start[s] + state.streams.size[s]):
            j = server[at]
            if j == home or gain[j] < min(most, most_full):
                continue
            if state.load[j] + cost > limit * state.size[j]:
                if gain[j] > most_full or (gain[j] == most_full and j < full):
                    full, most_full = j, gain[j]
                continue
            if gain[j] < most:
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
    return best, most - stay, full, most_full - stay


@bare
def smoothed_gain(state, query, other):
    """Return by how much moving one query to a server lowers the smoothed traffic."""
    home, query_type, gained = state.server_of[query], state.type_of[query], 0.0
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        s = state.type_source[i]
        at = find(state.streams, s, other)
        there = state.streams.count[at] if at >= 0 else 0
        here = state.streams.count[find(state.streams, s, home)]
        gained += state.rate[s] * (reader_weight(here) - reader_weight(there + 1))
    return gained


@bare
def real_gain(state, query, other):
    """Return the traffic that moving one query to a server saves."""
    home, query_type, saved = state.server_of[query], state.type_of[query], 0.0
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        s = state.type_source[i]
        if state.streams.count[find(state.streams, s, home)] == 1:
            saved += state.rate[s]
        if find(state.streams, s, other) < 0:
            saved -= state.rate[s]
    return saved


@bare
def exchange(state, query, server, gained, limit, cursor):
    """Move a query to a full server, and the best of a few queries there back; return that query and what both save.

    If no exchange lowers the smoothed traffic without raising the real one, nothing changes, and the query is -1.
    """
    home, slots = state.server_of[query], state.server_of.shape[0]
    saved = remove_query(state, query) - add_query(state, query, server)
    best, best_gain, best_saved, tries = np.int64(-1), -gained, 0.0, _PARTNERS
    for step in range(min(_SCANNED, slots)):
        other = cursor + step
        other = other if other < slots else other - slots
        if state.server_of[other] != server or other == query:
            continue
        swapped = state.cost[other]
        if (
            state.load[server] - swapped > limit * state.size[server]
            or state.load[home] + swapped > limit * state.size[home]
        ):
            continue
        found = smoothed_gain(state, other, home)
        if found > best_gain + _LEAST_GAIN:
            real = real_gain(state, other, home)
            if saved + real >= -_LEAST_GAIN:
                best, best_gain, best_saved = np.int64(other), found, real
        tries -= 1
        if tries == 0:
            break
    if best < 0:
        remove_query(state, query)
        add_query(state, query, home)
        return best, 0.0
    remove_query(state, best)
    add_query(state, best, home)
    return best, saved + best_saved


@compiled
def repair_placement(state, settings, examine, log):
    """Move at most as many queries as the log holds and return how many moved.

    Before each move it examines ``examine`` hosted queries; it stops when none of them has a move that helps.
    """
    slots, budget = state.server_of.shape[0], log.query.shape[0]
    if slots == 0:
        return 0
    limit = limit_per_size(state, settings, 0.0)
    largest_group = min(budget, RARE)
    sources = np.empty(settings.max_sources * largest_group, np.int64)
    group, best_group = np.empty(largest_group, np.int64), np.empty(largest_group, np.int64)
    moved = 0
    while moved < budget:
        to_examine, slots_left = examine, _EMPTY_SLOTS_PER_EXAMINED * examine
        best_size, best_server, best_gain = 0, -1, 0.0
        blocked, blocked_server, blocked_gain = np.int64(-1), -1, 0.0
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
            last = min(state.type_start[query_type + 1], state.type_start[query_type] + _MOST_GROUPS)
            for i in range(state.type_start[query_type] - 1, last):
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
                    if reads_of(state, group, number) > _MOST_READS:
                        continue
                j, gained, full, gained_there = best_move(state, group, number, sources, limit)
                if number == 1 and full >= 0 and gained_there > blocked_gain:
                    blocked, blocked_server, blocked_gain = q, full, gained_there
                if j >= 0 and gained > best_gain * number:
                    best_size, best_server, best_gain = number, j, gained / number
                    best_group[:number] = group[:number]
        if best_size == 0:
            if blocked < 0 or budget - moved < 2:
                return moved
            home, cursor = state.server_of[blocked], np.int64(state.totals[REPAIR_CURSOR])
            back, saved = exchange(state, blocked, blocked_server, blocked_gain, limit, cursor % slots)
            if back >= 0:
                log.query[moved], log.origin[moved], log.server[moved] = blocked, home, blocked_server
                log.query[moved + 1], log.origin[moved + 1], log.server[moved + 1] = (
                    back,
                    blocked_server,
                    home,
                )
                log.first[moved], log.first[moved + 1] = moved, moved
                log.saved[moved] = saved
                moved += 2
                state.totals[MOVED_QUERIES] += 2
                state.totals[SAVED_TRAFFIC] += saved
                continue
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
