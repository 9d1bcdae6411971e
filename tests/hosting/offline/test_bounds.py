"""The expected traffic of random placement, and how far below it the rules are on disjoint blocks."""

import numpy as np
import pytest
from tests.hosting.offline.workloads import blocks

from headgate.hosting import Host
from headgate.hosting.offline.algorithms import solve
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.offline.bounds import expected_random_traffic


def test_mx_20_blocks_are_found_and_chance_misses_them() -> None:
    k, load = 10, blocks(10, 5, 30)
    m = load.sources
    assert expected_random_traffic(load, k) == pytest.approx(k * m * (1 - (1 - 1 / k) ** 30))
    rng = np.random.default_rng(5)
    traffic = [
        Assignment.from_servers(load, np.ones(k), np.ones(k), rng.integers(0, k, load.queries)).traffic
        for _ in range(20)
    ]
    assert np.mean(traffic) == pytest.approx(expected_random_traffic(load, k), rel=0.05)
    assert solve(load, k, "ic").traffic == m
    host = Host({f"{b}.{s}": 1.0 for b in range(k) for s in range(5)}, servers=k, rule="least-cost")
    for q in range(30):
        for b in range(k):
            host.place(f"{b}/{q}", [f"{b}.{s}" for s in range(5)])
    assert host.status().traffic <= 2 * m
