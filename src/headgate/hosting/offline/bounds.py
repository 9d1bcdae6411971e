"""Traffic to compare a placement with: a lower bound from the limits, and the mean of random placement."""

from __future__ import annotations

import numpy as np

from headgate.hosting.balance import SLACK
from headgate.hosting.workload import Floats, Workload


def capacity_bound(load: Workload, limits: Floats) -> float:
    """Return a lower bound of the traffic: the sum over s of w(s) x the fewest servers that can hold the queries of s.

    With equal limits these are ceil(n_s / limit) servers; with unequal ones, as many of the largest as it takes.
    """
    capacity = np.cumsum(np.sort(limits)[::-1]) * (1 + SLACK)
    fewest = np.searchsorted(capacity, load.reader_cost) + 1
    return float((load.rates * np.where(load.reader_cost > 0, fewest, 0)).sum())


def expected_random_traffic(load: Workload, servers: int) -> float:
    """Return the mean traffic of placing every query uniformly at random (Eq. 1; with rates, MICE-E22)."""
    readers = np.bincount(load.source, minlength=load.sources)
    return float((load.rates * servers * (1 - (1 - 1 / servers) ** readers)).sum())
