# mypy: allow-untyped-calls
"""`solve` places a workload that is known whole, by the paper's IC, MMS, MQP, single-source or OffRand.

    solve(load, servers=100, algorithm="mms").replication

Every algorithm works on query types. It returns its steps (query type, server, number of queries) and how
many queries of each type are left over because no server had room for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

import numpy as np

from headgate.errors import ConfigError, NoRoom
from headgate.hosting.balance import Balance, server_sizes
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.offline.greedy import cheapest_pairs
from headgate.hosting.offline.packing import pack_types, scatter_types, single_source
from headgate.hosting.online.rules import Reserved
from headgate.hosting.workload import Floats, Ints, Workload

Steps = tuple[Ints, Ints, Ints, Ints]


def _greedy(load: Workload, limits: Floats, sizes: Floats, *, total: bool) -> Steps:
    """Return the steps of IC, or of MMS if ``total``."""
    types = load.types
    weight = types.weight(load.rates)
    number = np.arange(len(types))
    by_weight = np.lexsort((number, -types.count, weight))
    rank = np.empty(len(types), np.int64)
    rank[np.lexsort((number, -types.count))] = number
    position = np.empty(len(types), np.int64)
    position[by_weight] = number
    owner = np.repeat(number, np.diff(types.start))
    order = np.lexsort((position[owner], types.source))
    read_start = np.zeros(load.sources + 1, np.int64)
    np.cumsum(np.bincount(types.source, minlength=load.sources), out=read_start[1:])
    steps: Steps = cheapest_pairs(
        load.rates, types.start, types.source, types.count, types.cost, limits, sizes,
        by_weight, weight, rank, owner[order], read_start, total,
    )  # fmt: skip
    return steps


def ic(load: Workload, limits: Floats, sizes: Floats, chance: Floats) -> Steps:
    """IC: the (type, server) pair with the least added traffic first (MICE-14)."""
    return _single(load, limits) or _greedy(load, limits, sizes, total=False)


def mms(load: Workload, limits: Floats, sizes: Floats, chance: Floats) -> Steps:
    """MMS: the (type, server) pair with the least traffic of the server first (MICE-15)."""
    return _single(load, limits) or _greedy(load, limits, sizes, total=True)


def mqp(load: Workload, limits: Floats, sizes: Floats, chance: Floats) -> Steps:
    """MQP: minimum query packing (MICE-13)."""
    types = load.types
    order = np.lexsort((np.arange(len(types)), -types.count))
    steps: Steps = _single(load, limits) or pack_types(order, types.count, types.cost, limits)
    return steps


def off_rand(load: Workload, limits: Floats, sizes: Floats, chance: Floats) -> Steps:
    """OffRand: random types to random servers (MICE-17)."""
    steps: Steps = scatter_types(load.types.count, load.types.cost, limits, chance)
    return steps


def one_source(load: Workload, limits: Floats, sizes: Floats, chance: Floats) -> Steps:
    """The single-source algorithm (MICE-16); raise if a query has several sources."""
    steps = _single(load, limits)
    if steps is None:
        raise ConfigError(
            "the single-source algorithm takes queries of one source each: use ic or mms for this workload"
        )
    return steps


def _single(load: Workload, limits: Floats) -> Steps | None:
    """Return the steps of the single-source algorithm if every query has one source, else None.

    IC, MMS and MQP use it for such workloads.
    """
    types = load.types
    if len(types) == 0 or np.diff(types.start).max() > 1:
        return None
    order = np.lexsort((np.arange(len(types)), -types.count, -types.weight(load.rates)))
    steps: Steps = single_source(order, types.count, types.cost, limits)
    return steps


Algorithm = Callable[[Workload, Floats, Floats, Floats], Steps]
ALGORITHMS: Mapping[str, Algorithm] = {
    "ic": ic, "mms": mms, "mqp": mqp, "single-source": one_source, "off-rand": off_rand,
}  # fmt: skip


def solve(
    load: Workload,
    servers: int | Sequence[float],
    algorithm: str = "mms",
    *,
    balance: Balance | None = None,
    chance: Floats | None = None,
) -> Assignment:
    """Place all queries of a workload at once. ``chance`` holds numbers in [0, 1) for `off-rand`.

    >>> load = Workload.from_names({"a": 1.0, "b": 1.0}, {"1": ["a"], "2": ["b"], "3": ["a"], "4": ["b"]})
    >>> solve(load, 2).replication
    1.0
    """
    if algorithm not in ALGORITHMS:
        close = get_close_matches(algorithm, ALGORITHMS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(
            f"unknown algorithm {algorithm!r}: the algorithms are {', '.join(ALGORITHMS)}{hint}"
        )
    if algorithm == "off-rand" and chance is None:
        raise ConfigError("off-rand needs chance=: an array of random numbers in [0, 1)")
    sizes = server_sizes(servers)
    limits = offline_limits(load, sizes, balance or Balance())
    numbers = np.zeros(1) if chance is None else chance
    query_type, server, number, left_over = ALGORITHMS[algorithm](load, limits, sizes, numbers)
    if left_over.any():
        cost = float((left_over * load.types.cost).sum())
        raise NoRoom(
            f"{algorithm} left queries of cost {cost:g} without a place: raise the capacity or add servers"
        )
    return Assignment(load, sizes, limits, query_type, server, number)


def offline_limits(load: Workload, sizes: Floats, balance: Balance) -> Floats:
    """Return what each server may hold of a workload that is known whole."""
    return balance.offline_limits(load.total_cost, float(load.cost.max(initial=0.0)), sizes)


def reserve(load: Workload, assignment: Assignment) -> Reserved:
    """Return the rule that sends arriving queries where an assignment has the queries of their type (MICE-23, MICE-E15).

    The workload stands for the known popularities: its n_t are the paper's lambda_t.
    """
    if load.source_names is None:
        raise ConfigError("reserve needs a workload with names: make it with Workload.from_names")
    shares: dict[frozenset[str], dict[int, float]] = {}
    for query_type, server, number in zip(assignment.type, assignment.server, assignment.number, strict=True):
        sources = load.types.source[load.types.start[query_type] : load.types.start[query_type + 1]]
        by_server = shares.setdefault(frozenset(load.source_names[s] for s in sources), {})
        by_server[int(server)] = by_server.get(int(server), 0.0) + float(number)
    return Reserved(shares)
