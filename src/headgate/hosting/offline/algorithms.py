# mypy: allow-untyped-calls
"""All queries known beforehand: the paper's IC, MMS, MQP, single-source and OffRand, behind one door.

    solve(load, servers=100, algorithm="mms").replication

Every algorithm works on query types and gives an `Assignment`: so many queries of type t to server j.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from headgate.errors import ConfigError, NoRoom
from headgate.hosting.balance import Balance
from headgate.hosting.host import sizes_of
from headgate.hosting.offline.greedy import assign
from headgate.hosting.offline.packing import pack, scatter, single_source
from headgate.hosting.online.rules import Reserved
from headgate.hosting.workload import Floats, Ints, Workload

Steps = tuple[Ints, Ints, Ints, Ints]


@dataclass(frozen=True, eq=False)
class Assignment:
    """``number[i]`` queries of type ``type[i]`` are on server ``server[i]``."""

    load: Workload
    sizes: Floats
    rooms: Floats
    type: Ints
    server: Ints
    number: Ints

    @staticmethod
    def of_servers(load: Workload, sizes: Floats, rooms: Floats, server_of: Ints) -> Assignment:
        """Make one from the server of each query."""
        pairs = load.types.of_query * sizes.shape[0] + server_of
        pair, number = np.unique(pairs, return_counts=True)
        return Assignment(
            load, sizes, rooms, pair // sizes.shape[0], pair % sizes.shape[0], number.astype(np.int64)
        )

    @cached_property
    def server_of(self) -> Ints:
        """The server of each query: those of a type are handed out in their order."""
        order = np.argsort(self.type, kind="stable")
        by_type = np.repeat(self.server[order], self.number[order])
        placed = np.empty(self.load.queries, np.int64)
        placed[np.argsort(self.load.types.of_query, kind="stable")] = by_type
        return placed

    @cached_property
    def copies(self) -> Ints:
        """How many servers receive each source."""
        types, k = self.load.types, self.sizes.shape[0]
        lengths = np.diff(types.start)[self.type]
        begin = np.repeat(types.start[self.type], lengths)
        inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        pairs = np.unique(types.source[begin + inside] * k + np.repeat(self.server, lengths))
        return np.bincount(pairs // k, minlength=self.load.sources)

    @property
    def traffic(self) -> float:
        """Every source's rate, once for each server that receives it (MICE-2)."""
        return float((self.load.rates * self.copies).sum())

    @property
    def replication(self) -> float:
        """Traffic over the rate of all sources in use (MICE-31)."""
        return self.traffic / self.load.needed if self.load.needed else 1.0

    @cached_property
    def loads(self) -> Floats:
        """What each server holds."""
        held: Floats = np.bincount(
            self.server, self.number * self.load.types.cost[self.type], self.sizes.shape[0]
        ).astype(np.float64)
        return held

    @property
    def imbalance(self) -> float:
        """The largest load over the mean, sizes counted."""
        mean = self.loads.sum() / self.sizes.sum()
        return float((self.loads / self.sizes).max() / mean) if mean else 1.0


def _greedy(load: Workload, rooms: Floats, sizes: Floats, *, total: bool) -> Steps:
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
    found: Steps = assign(
        load.rates, types.start, types.source, types.count, types.cost, rooms, sizes,
        by_weight, weight, rank, owner[order], read_start, total,
    )  # fmt: skip
    return found


def ic(load: Workload, rooms: Floats, sizes: Floats, chance: Floats) -> Steps:
    """Least added traffic first (MICE-14)."""
    return _single(load, rooms) or _greedy(load, rooms, sizes, total=False)


def mms(load: Workload, rooms: Floats, sizes: Floats, chance: Floats) -> Steps:
    """Least traffic of the server first (MICE-15)."""
    return _single(load, rooms) or _greedy(load, rooms, sizes, total=True)


def mqp(load: Workload, rooms: Floats, sizes: Floats, chance: Floats) -> Steps:
    """Minimum query packing (MICE-13)."""
    types = load.types
    order = np.lexsort((np.arange(len(types)), -types.count))
    steps: Steps = _single(load, rooms) or pack(order, types.count, types.cost, rooms)
    return steps


def off_rand(load: Workload, rooms: Floats, sizes: Floats, chance: Floats) -> Steps:
    """Random types to random servers (MICE-17)."""
    steps: Steps = scatter(load.types.count, load.types.cost, rooms, chance)
    return steps


def one_source(load: Workload, rooms: Floats, sizes: Floats, chance: Floats) -> Steps:
    """The single-source algorithm (MICE-16)."""
    steps = _single(load, rooms)
    if steps is None:
        raise ConfigError(
            "the single-source algorithm takes queries of one source each: use ic or mms for these"
        )
    return steps


def _single(load: Workload, rooms: Floats) -> Steps | None:
    """Return the single-source algorithm's answer where every query has one source: IC, MMS and MQP use it there."""
    types = load.types
    if len(types) == 0 or np.diff(types.start).max() > 1:
        return None
    order = np.lexsort((np.arange(len(types)), -types.count, -types.weight(load.rates)))
    steps: Steps = single_source(order, types.count, types.cost, rooms)
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
    """Place all queries of a workload at once. ``chance``: numbers in [0, 1) for `off-rand`.

    >>> load = Workload.of({"a": 1.0, "b": 1.0}, {"1": ["a"], "2": ["b"], "3": ["a"], "4": ["b"]})
    >>> solve(load, 2).replication
    1.0
    """
    if algorithm not in ALGORITHMS:
        close = get_close_matches(algorithm, ALGORITHMS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown algorithm {algorithm!r}: there is {', '.join(ALGORITHMS)}{hint}")
    if algorithm == "off-rand" and chance is None:
        raise ConfigError("off-rand needs chance=: an array of random numbers in [0, 1)")
    sizes = sizes_of(servers)
    rooms = rooms_of(load, sizes, balance or Balance())
    numbers = np.zeros(1) if chance is None else chance
    kind, server, number, left = ALGORITHMS[algorithm](load, rooms, sizes, numbers)
    if left.any():
        cost = float((left * load.types.cost).sum())
        raise NoRoom(
            f"{algorithm} left queries of cost {cost:g} without a place: raise the capacity or add servers"
        )
    return Assignment(load, sizes, rooms, kind, server, number)


def rooms_of(load: Workload, sizes: Floats, balance: Balance) -> Floats:
    """Return what each server may hold of a workload that is known whole."""
    return balance.rooms(load.total_cost, float(load.cost.max(initial=0.0)), sizes)


def reserve(load: Workload, assignment: Assignment) -> Reserved:
    """Return the rule that sends arriving queries where an offline solution put those of their type (MICE-23, MICE-E15).

    The workload stands for the known popularities: its n_t are the lambda_t.
    """
    if load.source_names is None:
        raise ConfigError("reserve needs a workload with names: make it with Workload.of")
    shares: dict[frozenset[str], dict[int, float]] = {}
    for kind, server, number in zip(assignment.type, assignment.server, assignment.number, strict=True):
        members = load.types.source[load.types.start[kind] : load.types.start[kind + 1]]
        by_server = shares.setdefault(frozenset(load.source_names[s] for s in members), {})
        by_server[int(server)] = by_server.get(int(server), 0.0) + float(number)
    return Reserved(shares)
