# mypy: allow-untyped-defs, allow-untyped-calls
"""What is hosted where, kept as arrays that compiled code reads and writes.

A query, a type, a source and a server are numbers here. `enter` and `leave` are the only ways in and out, so
reference counts, loads and traffic always agree with the queries that are there (law 9, SYS-9). A lost server has
size 0; its number is not used again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headgate.compiled import bare, compiled, inlined
from headgate.hosting.placement import reference_counts as pair
from headgate.hosting.placement.reference_counts import Pairs, new_pairs, widened
from headgate.hosting.repair.rare_readers import FEW
from headgate.hosting.workload import Floats, Workload

QUERIES, COST, SERVERS, SIZE, TRAFFIC, NEEDED, FALLBACKS, MOVES, SAVED, CURSOR, CAME, WENT, READINGS = range(
    13
)
"""Places in `totals`. FALLBACKS counts queries that no server could take within the balance limit (MICE-E1); MOVES and SAVED
what repair did; CURSOR is the query that it looks at next; CAME and WENT
count arrivals and departures, READINGS the sources of all hosted queries."""


class Books(NamedTuple):
    """The state of a placement. `fill` is load over size, infinite for a lost server; `tree` finds its least.

    `reach` is the sum of rate x readers everywhere over the sources that a server receives, kept where the rule asks for it.
    `readers` and `known` are for `readers`; `gain` (by server) and `times` (by source) are scratch, 0 between decisions.
    """

    rate: Any
    use: Any
    type_start: Any
    type_source: Any
    type_of: Any
    cost: Any
    server_of: Any
    load: Any
    size: Any
    fill: Any
    traffic: Any
    reach: Any
    kinds: Any
    tree: Any
    streams: Pairs
    hosted: Pairs
    totals: Any
    gain: Any
    readers: Any
    known: Any
    times: Any


def open_books(load: Workload, sizes: Floats, *, count_types: bool, repairs: bool, reaches: bool) -> Books:
    """Return books of a workload whose queries are all still outside."""
    types = load.types
    return Books(
        rate=load.rates.copy(),
        use=np.zeros(load.sources, np.int64),
        type_start=types.start.copy(),
        type_source=types.source.copy(),
        type_of=types.of_query.copy(),
        cost=load.cost.copy(),
        server_of=np.full(load.queries, -1, np.int32),
        **_servers(np.zeros(0), sizes) | ({} if reaches else {"reach": np.zeros(0)}),
        streams=new_pairs(load.sources),
        hosted=new_pairs(len(types) if count_types else 0),
        totals=np.array([0, 0, sizes.shape[0], sizes.sum(), *[0] * 9], np.float64),
        readers=np.zeros((load.sources if repairs else 0, FEW), np.int64),
        known=np.zeros(load.sources, np.int32),
        times=np.zeros(load.sources, np.int32),
    )


def _servers(load: Floats, sizes: Floats) -> dict[str, Any]:
    """Return the arrays by server, loads of new ones 0."""
    k = sizes.shape[0]
    held = np.append(load, np.zeros(k - load.shape[0]))
    leaves = 1
    while leaves < k:
        leaves *= 2
    fill = np.full(leaves, np.inf)
    fill[:k] = np.where(sizes > 0, held / np.where(sizes > 0, sizes, 1.0), np.inf)
    tree = np.zeros(2 * leaves, np.int32)
    plant(tree, fill)
    return {
        "load": held,
        "size": sizes.astype(np.float64),
        "fill": fill,
        "traffic": np.zeros(k),
        "reach": np.zeros(k),
        "kinds": np.zeros(k, np.int64),
        "tree": tree,
        "gain": np.zeros(k),
    }


def with_server(books: Books, size: float) -> Books:
    """Return the books with one more server, empty."""
    fresh = _servers(books.load, np.append(books.size, size))
    k = books.size.shape[0]
    for name in ("traffic", "kinds"):
        fresh[name][:k] = getattr(books, name)
    fresh["reach"] = np.append(books.reach, 0.0) if books.reach.shape[0] else books.reach
    books.totals[SERVERS] += 1
    books.totals[SIZE] += size
    return books._replace(**fresh)


def copied(books: Books) -> Books:
    """Return books of their own, as these are now."""
    own = {name: value.copy() for name, value in books._asdict().items() if not isinstance(value, Pairs)}
    for name in ("streams", "hosted"):
        own[name] = Pairs(*(value.copy() for value in getattr(books, name)))
    return Books(**own)


def without_server(books: Books, server: int) -> None:
    """Take a server away, once its queries have left."""
    books.totals[SERVERS] -= 1
    books.totals[SIZE] -= books.size[server]
    books.size[server] = 0.0
    books.fill[server] = np.inf
    books.traffic[server] = 0.0
    books.reach[server : server + 1] = 0.0
    lift(books.tree, books.fill, server)


def with_room(books: Books, sources: int) -> Books:
    """Return the books with a pool that this many more pairs cannot exhaust."""
    need = wanted(books, sources)
    if pair.spare(books.streams) < need:
        pool = 2 * books.streams.server.shape[0] + need
        books = books._replace(streams=widened(books.streams, pool=pool))
    if books.hosted.start.shape[0] and pair.spare(books.hosted) < need:
        pool = 2 * books.hosted.server.shape[0] + need
        books = books._replace(hosted=widened(books.hosted, pool=pool))
    return books


@inlined
def wanted(books, sources):
    """Return how much of a pool so many new pairs may take: each row moves to a block of twice the size."""
    return 2 * books.fill.shape[0] * sources


@compiled
def plant(tree, fill):
    """Build the tree of winners: every node names the least filled server below it, the lower number if equal."""
    leaves = fill.shape[0]
    for i in range(leaves):
        tree[leaves + i] = i
    for node in range(leaves - 1, 0, -1):
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = right if fill[right] < fill[left] else left


@inlined
def lift(tree, fill, server):
    """Bring the tree up to date after the fill of one server changed."""
    node = (fill.shape[0] + server) >> 1
    while node > 0:
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = right if fill[right] < fill[left] else left
        node >>= 1


@inlined
def least_filled(books):
    """Return the server of least load over size, the lowest number among equals."""
    return books.tree[1]


@inlined
def stretch(books, s, by):
    """Change the reach of all servers that receive a source."""
    if books.reach.shape[0] > 0:
        for at in range(books.streams.start[s], books.streams.start[s] + books.streams.size[s]):
            books.reach[books.streams.server[at]] += by


@bare
def enter(books, query, server):
    """Host a query on a server; return the traffic that this adds."""
    kind = books.type_of[query]
    added = 0.0
    for i in range(books.type_start[kind], books.type_start[kind + 1]):
        s = books.type_source[i]
        if pair.add(books.streams, s, server) == 1:
            added += books.rate[s]
            if books.reach.shape[0] > 0:
                books.reach[server] += books.rate[s] * books.use[s]
        if books.use[s] == 0:
            books.totals[NEEDED] += books.rate[s]
        books.use[s] += 1
        stretch(books, s, books.rate[s])
    if books.hosted.start.shape[0] > 0 and pair.add(books.hosted, kind, server) == 1:
        books.kinds[server] += 1
    books.server_of[query] = server
    books.traffic[server] += added
    books.totals[TRAFFIC] += added
    books.totals[QUERIES] += 1
    books.totals[READINGS] += books.type_start[kind + 1] - books.type_start[kind]
    books.totals[COST] += books.cost[query]
    books.load[server] += books.cost[query]
    books.fill[server] = books.load[server] / books.size[server]
    lift(books.tree, books.fill, server)
    return added


@bare
def leave(books, query):
    """Take a query off its server; return the traffic that this saves."""
    kind, server = books.type_of[query], books.server_of[query]
    saved = 0.0
    for i in range(books.type_start[kind], books.type_start[kind + 1]):
        s = books.type_source[i]
        stretch(books, s, -books.rate[s])
        books.use[s] -= 1
        if pair.drop(books.streams, s, server) == 0:
            saved += books.rate[s]
            if books.reach.shape[0] > 0:
                books.reach[server] -= books.rate[s] * books.use[s]
        if books.use[s] == 0:
            books.totals[NEEDED] -= books.rate[s]
    if books.hosted.start.shape[0] > 0 and pair.drop(books.hosted, kind, server) == 0:
        books.kinds[server] -= 1
    books.server_of[query] = -1
    books.traffic[server] -= saved
    books.totals[TRAFFIC] -= saved
    books.totals[QUERIES] -= 1
    books.totals[READINGS] -= books.type_start[kind + 1] - books.type_start[kind]
    books.totals[COST] -= books.cost[query]
    books.load[server] -= books.cost[query]
    if books.totals[QUERIES] == 0:  # fractions of costs and rates leave dust behind
        books.totals[COST], books.totals[TRAFFIC], books.totals[NEEDED] = 0.0, 0.0, 0.0
        books.reach[:] = 0.0
    books.fill[server] = books.load[server] / books.size[server]
    lift(books.tree, books.fill, server)
    return saved
