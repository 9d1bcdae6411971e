"""How much a server may hold: a relative limit, an absolute one while there are few queries, and a hard capacity.

Each of k equal servers may hold ``d(n) = max(n/k + alpha, (1 + nu) n/k)`` of n queries (MICE-4, MICE-24).
With costs, n is the total cost and alpha counts queries of mean cost. With sizes, a server's share of n is
its share of all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headgate.errors import ConfigError
from headgate.hosting.workload import Floats

SLACK = 1e-9
"""Relative tolerance of limits: 1.05 * 200 must admit 210 queries in spite of rounding."""


@dataclass(frozen=True)
class Balance:
    """The limits of a placement.

    ``relative`` is the paper's nu and ``absolute`` its alpha. ``capacity`` is a hard limit on the cost that a
    server of size 1 can hold; the paper has none.

    >>> Balance().limit(1000, 10), Balance().crossover(100)
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
        """Return d(n), the limit of each of k equal servers for n queries, the new one included (Eq. 7)."""
        mean = queries / servers
        return min(max(mean + self.absolute, (1 + self.relative) * mean), self.capacity)

    def crossover(self, servers: int) -> float:
        """Return the number of queries above which the relative limit exceeds the absolute one: alpha k / nu."""
        return self.absolute * servers / self.relative if self.relative else math.inf

    def online_limits(self, total_cost: float, queries: int, sizes: Floats) -> Floats:
        """Return what each server may hold online, once so many queries of that total cost are hosted."""
        servers = sizes.shape[0]
        mean = total_cost / queries if queries else 1.0
        per_size = (
            Balance(self.relative, self.absolute * mean).limit(total_cost, servers) * servers / sizes.sum()
        )
        limits: Floats = min(per_size, self.capacity) * sizes
        return limits

    def offline_limits(self, total_cost: float, largest_cost: float, sizes: Floats) -> Floats:
        """Return what each server may hold when all queries are known: (1 + nu) of its share, without alpha.

        The limits are never too small for all queries to fit: at least ceil(n/k) if queries are equal
        (MICE-E6), and at least the share plus the largest cost if costs differ, so that the queries fit in
        whatever order the servers are filled.
        """
        share = sizes / sizes.sum() * total_cost
        if largest_cost == 1.0 and np.all(sizes == sizes[0]):
            enough = np.ceil(share)
            soft = np.maximum(np.floor((1 + self.relative) * share * (1 + SLACK)), enough)
        else:
            soft = np.maximum((1 + self.relative) * share, share + largest_cost)
        hard = np.full(sizes.shape[0], np.inf) if math.isinf(self.capacity) else self.capacity * sizes
        if hard.sum() < total_cost:
            raise ConfigError(
                f"the queries cost {total_cost:g} and the servers hold {hard.sum():g}: "
                "raise the capacity or add servers"
            )
        limits: Floats = np.minimum(soft, hard)
        return limits


def enough_queries(servers: int, relative: float, chance: float, *, union: bool = False) -> float:
    """Return how many randomly placed queries are within the relative limit with probability ``1 - chance`` (Eq. 10).

    As printed, the equation bounds one server; ``union=True`` bounds all k of them (MICE-E12).
    """
    return servers**2 / (2 * relative**2) * math.log((servers if union else 1) / chance)


def largest_absolute(servers: int, relative: float, chance: float, *, union: bool = False) -> float:
    """Return the largest alpha for which `Balance.crossover` is not above `enough_queries` (MICE-25)."""
    return enough_queries(servers, relative, chance, union=union) * relative / servers


def server_sizes(servers: int | Sequence[float]) -> Floats:
    """Return the sizes of the servers, given their number (then all have size 1) or their sizes."""
    sizes = np.ones(max(servers, 0)) if isinstance(servers, int) else np.array(servers, dtype=np.float64)
    if sizes.shape[0] == 0:
        raise ConfigError(f"servers={servers!r}: there must be at least one")
    if not np.all(np.isfinite(sizes)) or sizes.min() <= 0:
        raise ConfigError(f"servers={servers!r}: a size is a finite number above 0")
    return sizes
