# mypy: allow-untyped-calls
"""Sources with rates, queries with the sources they read, and the types that queries fall into (MICE-1).

A query's type is its set of sources (and its cost, where costs differ). Queries of one type are
interchangeable, so all algorithms work on types. Sources and queries are numbers here; their names are
kept for messages and results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.errors import ConfigError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class QueryTypes:
    """Type t has the sources ``source[start[t]:start[t + 1]]``, sorted, and ``count[t]`` queries."""

    start: Ints
    source: Ints
    count: Ints
    cost: Floats
    of_query: Ints

    def __len__(self) -> int:
        return int(self.count.shape[0])

    def weight(self, rates: Floats) -> Floats:
        """Return w(S_t) of every type: the traffic of a server that hosts one query of the type and nothing else."""
        return np.add.reduceat(rates[self.source], self.start[:-1]) if len(self) else np.zeros(0)


@dataclass(frozen=True, eq=False)
class Workload:
    """The queries to be hosted: query q reads the sources ``source[start[q]:start[q + 1]]`` and costs ``cost[q]``.

    ``rates`` are by source. Law: each query has at least one source and none twice; rates are finite and not
    negative, costs are positive.

    >>> load = Workload.from_names({"road": 2.0, "rain": 1.0}, {"a": ["road"], "b": ["rain", "road"]})
    >>> load.queries, load.sources, load.source.tolist(), load.start.tolist()
    (2, 2, [0, 0, 1], [0, 1, 3])
    """

    rates: Floats
    start: Ints
    source: Ints
    cost: Floats
    source_names: Sequence[str] | None = None
    query_names: Sequence[str] | None = None

    @staticmethod
    def from_names(
        sources: Mapping[str, float],
        queries: Mapping[str, Iterable[str]],
        costs: Mapping[str, float] | None = None,
    ) -> Workload:
        """Build a workload from rates by source name, source names by query name, and costs by query name."""
        rates = np.array([checked_rate(name, rate) for name, rate in sources.items()], dtype=np.float64)
        number = {name: i for i, name in enumerate(sources)}
        sources_of = [source_numbers(name, names, number) for name, names in queries.items()]
        for name in costs or {}:
            if name not in queries:
                raise ConfigError(f"a cost is given for query {name!r}, which is not among the queries")
        cost = [checked_cost(name, (costs or {}).get(name, 1.0)) for name in queries]
        start = np.zeros(len(sources_of) + 1, dtype=np.int64)
        start[1:] = np.cumsum([len(numbers) for numbers in sources_of], dtype=np.int64)
        flat = np.array([s for numbers in sources_of for s in numbers], dtype=np.int64)
        return Workload(rates, start, flat, np.array(cost, dtype=np.float64), tuple(sources), tuple(queries))

    @property
    def queries(self) -> int:
        """The number of queries."""
        return int(self.start.shape[0] - 1)

    @property
    def sources(self) -> int:
        """The number of sources."""
        return int(self.rates.shape[0])

    @cached_property
    def types(self) -> QueryTypes:
        """The queries grouped by source set and cost, types numbered by first appearance."""
        of_query, first = group_queries(self.start, self.source, self.cost)
        lengths = np.diff(self.start)[first]
        start = np.zeros(first.shape[0] + 1, dtype=np.int64)
        np.cumsum(lengths, out=start[1:])
        at = np.repeat(self.start[first] - start[:-1], lengths) + np.arange(start[-1])
        count = np.bincount(of_query, minlength=first.shape[0])
        return QueryTypes(start, self.source[at], count.astype(np.int64), self.cost[first], of_query)

    @cached_property
    def reader_cost(self) -> Floats:
        """The total cost of the queries that read each source: their number N(s) if every query costs 1."""
        per_read = np.repeat(self.cost, np.diff(self.start))
        cost: Floats = np.bincount(self.source, per_read, self.sources).astype(np.float64)
        return cost

    @cached_property
    def rate_in_use(self) -> float:
        """The rate of all sources that some query reads: no placement has less traffic (MICE-31, MICE-E16)."""
        return float(self.rates[self.reader_cost > 0].sum())

    @property
    def total_cost(self) -> float:
        """The sum of the costs of all queries."""
        return float(self.cost.sum())

    @property
    def unit(self) -> bool:
        """Whether every query costs 1, as in the paper."""
        return bool((self.cost == 1.0).all())


def checked_rate(name: str, rate: float) -> float:
    """Return a source's rate as a float, or raise `ConfigError`."""
    return _checked(f"rate of source {name!r}", rate, least=0.0)


def checked_cost(name: str, cost: float) -> float:
    """Return a query's cost as a float, or raise `ConfigError`."""
    value = _checked(f"cost of query {name!r}", cost, least=0.0)
    if value == 0.0:
        raise ConfigError(f"cost of query {name!r} is 0: a query costs something; give 1 if you do not know")
    return value


def _checked(what: str, value: float, *, least: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{what} is {value!r}: give a finite number")
    if number < least:
        raise ConfigError(f"{what} is {value!r}: it cannot be negative")
    return number


def source_numbers(query: str, names: Iterable[str], number: Mapping[str, int]) -> list[int]:
    """Return a query's sources as sorted numbers, each once (MICE-E4). Raise for an unknown source and for none at all."""
    if isinstance(names, str):
        raise ConfigError(f"the sources of query {query!r} are one string {names!r}: give a list of names")
    try:
        numbers = {number[name] for name in names}
    except KeyError as error:
        raise ConfigError(
            f"query {query!r} reads source {error.args[0]!r}, which is not known: add the source first"
        ) from None
    if not numbers:
        raise ConfigError(f"query {query!r} has no source: a query reads at least one")
    return sorted(numbers)


@compiled
def group_queries(start, source, cost):  # type: ignore[no-untyped-def]
    """Group equal queries with a hash table; return the type of each query and the first query of each type."""
    n = start.shape[0] - 1
    slots = 16
    while slots < 2 * n:
        slots *= 2
    table = np.full(slots, -1, np.int64)
    of_query = np.empty(n, np.int64)
    first = np.empty(n, np.int64)
    types = 0
    for q in range(n):
        h = np.uint64(start[q + 1] - start[q])
        for i in range(start[q], start[q + 1]):
            h = (h ^ np.uint64(source[i])) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(29)
        slot = np.int64(h & np.uint64(slots - 1))
        while table[slot] >= 0:
            other = first[table[slot]]
            same = start[q + 1] - start[q] == start[other + 1] - start[other] and cost[q] == cost[other]
            i = 0
            while same and i < start[q + 1] - start[q]:
                same = source[start[q] + i] == source[start[other] + i]
                i += 1
            if same:
                break
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot] = types
            first[types] = q
            types += 1
        of_query[q] = table[slot]
    return of_query, first[:types].copy()
