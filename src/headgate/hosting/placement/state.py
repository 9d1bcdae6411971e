# mypy: allow-untyped-defs, allow-untyped-calls
"""Which query is on which server, kept as arrays that compiled code reads and writes.

Queries, query types, sources and servers are numbers here; ``s`` stands for a source and ``j`` for
a server. Only `add_query` and `remove_query` change what is hosted, so reference counts, loads and
traffic always agree with the hosted queries (law 9, SYS-9). A lost server has size 0, and its number
is not used again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headgate.compiled import bare, compiled, inlined
from headgate.hosting.placement import fill_tree
from headgate.hosting.placement.reference_counts import (
    ReferenceCounts,
    decrement,
    enlarged,
    increment,
    new_reference_counts,
    unused_pool,
)
from headgate.hosting.workload import Floats, Workload

TOTALS = 15
(
    QUERIES, COST, SERVERS, SIZE, TRAFFIC, RATE_IN_USE, FALLBACKS, MOVED_QUERIES, SAVED_TRAFFIC,
    REPAIR_CURSOR, ARRIVALS, DEPARTURES, READS, REFINEMENTS, MOVED_BEFORE,
) = range(TOTALS)  # fmt: skip
"""Positions in `totals`. FALLBACKS counts the queries for which no server was within its balance limit
(MICE-E1); MOVED_QUERIES and SAVED_TRAFFIC say what repair did, REPAIR_CURSOR is the query that it examines
next; READS counts the sources of all hosted queries, a source once for each query that reads it; REFINEMENTS
counts the steps of refinement, and MOVED_BEFORE is what MOVED_QUERIES was at the last of them."""

RARE = 16
"""A source that at most so many queries read is rare: its readers are listed, so that repair can move them together."""


class PlacementState(NamedTuple):
    """The arrays of a placement.

    By source: `rate`, and `readers`, the number of hosted queries that read it. By query type: its
    sources `type_source[type_start[t]:type_start[t + 1]]`. By query: `type_of`, `cost`, and `server_of`,
    which is -1 for a query that is not hosted. By server: `load`, `size`, `fill` (load over size, infinite
    for a lost server), `traffic`, `popularity` (the sum of rate x readers anywhere over the sources that
    the server receives; empty unless the rule needs it) and `distinct_types`. `fill_tree` finds the least
    filled server. `streams` counts the queries of each (source, server), `hosted_types` those of each
    (query type, server). `rare_readers` and `rare_known` belong to `repair.rare_readers`. `gain` (by
    server) and `group_reads` (by source) are scratch space, 0 between decisions.
    """

    rate: Any
    readers: Any
    type_start: Any
    type_source: Any
    type_of: Any
    cost: Any
    server_of: Any
    load: Any
    size: Any
    fill: Any
    traffic: Any
    popularity: Any
    distinct_types: Any
    fill_tree: Any
    streams: ReferenceCounts
    hosted_types: ReferenceCounts
    totals: Any
    gain: Any
    rare_readers: Any
    rare_known: Any
    group_reads: Any


def new_state(
    load: Workload, sizes: Floats, *, count_types: bool, list_readers: bool, track_popularity: bool
) -> PlacementState:
    """Return the state of a workload none of whose queries is hosted yet."""
    types = load.types
    by_server = _server_arrays(np.zeros(0), sizes)
    if not track_popularity:
        by_server["popularity"] = np.zeros(0)
    return PlacementState(
        rate=load.rates.copy(),
        readers=np.zeros(load.sources, np.int64),
        type_start=types.start.copy(),
        type_source=types.source.copy(),
        type_of=types.of_query.copy(),
        cost=load.cost.copy(),
        server_of=np.full(load.queries, -1, np.int32),
        **by_server,
        streams=new_reference_counts(load.sources),
        hosted_types=new_reference_counts(len(types) if count_types else 0),
        totals=np.array([0, 0, sizes.shape[0], sizes.sum(), *[0] * (TOTALS - 4)], np.float64),
        rare_readers=np.zeros((load.sources if list_readers else 0, RARE), np.int64),
        rare_known=np.zeros(load.sources, np.int32),
        group_reads=np.zeros(load.sources, np.int32),
    )


def _server_arrays(load: Floats, sizes: Floats) -> dict[str, Any]:
    """Return the arrays by server; servers beyond those of ``load`` are new and empty."""
    k = sizes.shape[0]
    loads = np.append(load, np.zeros(k - load.shape[0]))
    leaves = 1
    while leaves < k:
        leaves *= 2
    fill = np.full(leaves, np.inf)
    fill[:k] = np.where(sizes > 0, loads / np.where(sizes > 0, sizes, 1.0), np.inf)
    tree = np.zeros(2 * leaves, np.int32)
    fill_tree.build(tree, fill)
    return {
        "load": loads,
        "size": sizes.astype(np.float64),
        "fill": fill,
        "traffic": np.zeros(k),
        "popularity": np.zeros(k),
        "distinct_types": np.zeros(k, np.int64),
        "fill_tree": tree,
        "gain": np.zeros(k),
    }


def with_server(state: PlacementState, size: float) -> PlacementState:
    """Return the state with one more server, empty."""
    by_server = _server_arrays(state.load, np.append(state.size, size))
    k = state.size.shape[0]
    for name in ("traffic", "distinct_types"):
        by_server[name][:k] = getattr(state, name)
    by_server["popularity"] = (
        np.append(state.popularity, 0.0) if state.popularity.shape[0] else state.popularity
    )
    state.totals[SERVERS] += 1
    state.totals[SIZE] += size
    return state._replace(**by_server)


def copied(state: PlacementState) -> PlacementState:
    """Return a copy that shares no array with the original."""
    copy = {
        name: value.copy()
        for name, value in state._asdict().items()
        if not isinstance(value, ReferenceCounts)
    }
    for name in ("streams", "hosted_types"):
        copy[name] = ReferenceCounts(*(value.copy() for value in getattr(state, name)))
    return PlacementState(**copy)


def without_server(state: PlacementState, server: int) -> None:
    """Take a server away. Its queries must have been removed before."""
    state.totals[SERVERS] -= 1
    state.totals[SIZE] -= state.size[server]
    state.size[server] = 0.0
    state.fill[server] = np.inf
    state.traffic[server] = 0.0
    state.popularity[server : server + 1] = 0.0
    fill_tree.update(state.fill_tree, state.fill, server)


def with_spare_pool(state: PlacementState, sources: int) -> PlacementState:
    """Return the state with pools that so many new (row, server) pairs cannot exhaust."""
    demand = pool_demand(state, sources)
    if unused_pool(state.streams) < demand:
        pool = 2 * state.streams.server.shape[0] + demand
        state = state._replace(streams=enlarged(state.streams, pool=pool))
    if state.hosted_types.start.shape[0] and unused_pool(state.hosted_types) < demand:
        pool = 2 * state.hosted_types.server.shape[0] + demand
        state = state._replace(hosted_types=enlarged(state.hosted_types, pool=pool))
    return state


@inlined
def pool_demand(state, sources):
    """Return how much of a pool so many new pairs can take, if each row moves to a block of twice the size."""
    return 2 * state.fill.shape[0] * sources


@inlined
def change_popularity(state, s, by):
    """Change the popularity of every server that receives a source."""
    if state.popularity.shape[0] > 0:
        for at in range(state.streams.start[s], state.streams.start[s] + state.streams.size[s]):
            state.popularity[state.streams.server[at]] += by


@bare
def add_query(state, query, server):
    """Host a query on a server; return the traffic that this adds."""
    query_type = state.type_of[query]
    added = 0.0
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        s = state.type_source[i]
        if increment(state.streams, s, server) == 1:
            added += state.rate[s]
            if state.popularity.shape[0] > 0:
                state.popularity[server] += state.rate[s] * state.readers[s]
        if state.readers[s] == 0:
            state.totals[RATE_IN_USE] += state.rate[s]
        state.readers[s] += 1
        change_popularity(state, s, state.rate[s])
    if state.hosted_types.start.shape[0] > 0 and increment(state.hosted_types, query_type, server) == 1:
        state.distinct_types[server] += 1
    state.server_of[query] = server
    state.traffic[server] += added
    state.totals[TRAFFIC] += added
    state.totals[QUERIES] += 1
    state.totals[READS] += state.type_start[query_type + 1] - state.type_start[query_type]
    state.totals[COST] += state.cost[query]
    state.load[server] += state.cost[query]
    state.fill[server] = state.load[server] / state.size[server]
    fill_tree.update(state.fill_tree, state.fill, server)
    return added


@compiled
def add_queries(state, query, server, sources, begin):
    """Host queries on servers, from ``begin`` on. Return the index at which it stopped, because a pool may run
    out there (call `with_spare_pool`, then this again). No query has more than ``sources`` sources.
    """
    for i in range(begin, query.shape[0]):
        demand = pool_demand(state, sources)
        if unused_pool(state.streams) < demand or (
            state.hosted_types.start.shape[0] > 0 and unused_pool(state.hosted_types) < demand
        ):
            return i
        add_query(state, query[i], server[i])
    return query.shape[0]


@bare
def remove_query(state, query):
    """Take a query off its server; return the traffic that this saves."""
    query_type, server = state.type_of[query], state.server_of[query]
    saved = 0.0
    for i in range(state.type_start[query_type], state.type_start[query_type + 1]):
        s = state.type_source[i]
        change_popularity(state, s, -state.rate[s])
        state.readers[s] -= 1
        if decrement(state.streams, s, server) == 0:
            saved += state.rate[s]
            if state.popularity.shape[0] > 0:
                state.popularity[server] -= state.rate[s] * state.readers[s]
        if state.readers[s] == 0:
            state.totals[RATE_IN_USE] -= state.rate[s]
    if state.hosted_types.start.shape[0] > 0 and decrement(state.hosted_types, query_type, server) == 0:
        state.distinct_types[server] -= 1
    state.server_of[query] = -1
    state.traffic[server] -= saved
    state.totals[TRAFFIC] -= saved
    state.totals[QUERIES] -= 1
    state.totals[READS] -= state.type_start[query_type + 1] - state.type_start[query_type]
    state.totals[COST] -= state.cost[query]
    state.load[server] -= state.cost[query]
    if state.totals[QUERIES] == 0:  # sums of fractions leave rounding errors behind
        state.totals[COST], state.totals[TRAFFIC], state.totals[RATE_IN_USE] = 0.0, 0.0, 0.0
        state.popularity[:] = 0.0
    state.fill[server] = state.load[server] / state.size[server]
    fill_tree.update(state.fill_tree, state.fill, server)
    return saved
