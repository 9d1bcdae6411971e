"""How much a server may hold: the relative limit, the absolute one for few queries, sizes, and a hard capacity.

``d(n) = max(n/k + alpha, (1 + nu) n/k)`` queries on each of k equal servers (MICE-4, MICE-24). With costs, n is
the total cost and alpha counts queries of mean cost; with sizes, a server's share of n is its share of all sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headgate.errors import ConfigError
from headgate.hosting.workload import Floats

SLACK = 1e-9
"""Relative: 1.05 * 200 must hold 210 queries, whatever the last bit says."""


@dataclass(frozen=True)
class Balance:
    """The limits of a placement.

    ``relative`` is the paper's nu, ``absolute`` its alpha, ``capacity`` a hard ceiling on the cost that a
    server of size 1 can hold (none in the paper).

    >>> Balance().limit(1000, 10), Balance().switch(100)
    (110.0, 20000.0)
    """

    relative: float = 0.05
    absolute: float = 10.0
    capacity: float = math.inf

    def __post_init__(self) -> None:
        for name in ("relative", "absolute", "capacity"):
            value = getattr(self, name)
            if math.isnan(value) or value < 0 or (name == "capacity" and value == 0):
                raise ConfigError(
                    f"{name}={value!r}: a balance limit is a number, not negative (capacity above 0)"
                )

    def limit(self, queries: float, servers: int) -> float:
        """Return d(n) for n queries, the new one included, on k equal servers (Eq. 7)."""
        mean = queries / servers
        return min(max(mean + self.absolute, (1 + self.relative) * mean), self.capacity)

    def switch(self, servers: int) -> float:
        """Return the number of queries from which the relative limit is the wider one: alpha k / nu."""
        return self.absolute * servers / self.relative if self.relative else math.inf

    def limits(self, total_cost: float, queries: int, sizes: Floats) -> Floats:
        """Return what each server may hold online, once that many queries of that cost are there."""
        servers = sizes.shape[0]
        mean = total_cost / queries if queries else 1.0
        fair = Balance(self.relative, self.absolute * mean).limit(total_cost, servers) * servers / sizes.sum()
        found: Floats = min(fair, self.capacity) * sizes
        return found

    def rooms(self, total_cost: float, largest_cost: float, sizes: Floats) -> Floats:
        """Return what each server may hold when all queries are known: (1 + nu) of its share, no alpha.

        Never too little for what must fit: ceil(n/k) for equal queries (MICE-E6), and the share plus the
        largest cost where costs differ, which any order of filling can meet.
        """
        share = sizes / sizes.sum() * total_cost
        if largest_cost == 1.0 and np.all(sizes == sizes[0]):
            enough = np.ceil(share)
            wide = np.maximum(np.floor((1 + self.relative) * share * (1 + SLACK)), enough)
        else:
            wide = np.maximum((1 + self.relative) * share, share + largest_cost)
        hard = np.full(sizes.shape[0], np.inf) if math.isinf(self.capacity) else self.capacity * sizes
        if hard.sum() < total_cost:
            raise ConfigError(
                f"the queries cost {total_cost:g} and the servers hold {hard.sum():g}: raise the capacity or add servers"
            )
        rooms: Floats = np.minimum(wide, hard)
        return rooms


def enough_queries(servers: int, relative: float, chance: float, *, union: bool = False) -> float:
    """Return how many randomly placed queries keep the relative limit with probability ``1 - chance`` (Eq. 10).

    As printed it is the bound of one server; ``union=True`` counts all k of them (MICE-E12).
    """
    return servers**2 / (2 * relative**2) * math.log((servers if union else 1) / chance)


def largest_absolute(servers: int, relative: float, chance: float, *, union: bool = False) -> float:
    """Return the bound on alpha that follows: the switch comes no later than `enough_queries` (MICE-25)."""
    return enough_queries(servers, relative, chance, union=union) * relative / servers
