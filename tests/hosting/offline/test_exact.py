"""The exact optimum and the bounds against brute force."""

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.hosting.offline.workloads import CHANCE, workloads

from headgate.hosting import Balance, Workload
from headgate.hosting.offline.algorithms import offline_limits, solve
from headgate.hosting.offline.bounds import capacity_bound
from headgate.hosting.offline.exact import optimum


def brute_force(load: Workload, k: int, room: float) -> float:
    """The least traffic over all assignments of queries."""
    best = math.inf
    reads = [load.source[load.start[q] : load.start[q + 1]].tolist() for q in range(load.queries)]
    for where in itertools.product(range(k), repeat=load.queries):
        if max(where.count(j) for j in range(k)) <= room:
            pairs = {(s, j) for q, j in enumerate(where) for s in reads[q]}
            best = min(best, sum(load.rates[s] for s, _ in pairs))
    return best


@given(load=workloads(max_queries=6, max_sources=4, unit_rates=True), k=st.integers(2, 3))
@settings(max_examples=25, deadline=None)
def test_mx_25_bounds_against_brute_force_and_the_solver(load, k) -> None:
    limits = offline_limits(load, np.ones(k), Balance())
    least = brute_force(load, k, limits[0])
    exact, proved = optimum(load, np.ones(k), limits)
    assert proved
    assert exact.traffic == pytest.approx(least)
    assert np.all(exact.loads <= limits + 1e-9)
    assert capacity_bound(load, limits) <= least + 1e-9
    widest = int(np.diff(load.start).max())
    assert solve(load, k, "mqp").traffic <= 2 * widest * (math.log(k) + 1) * least + 1e-9
    for name in ("ic", "mms", "mqp", "off-rand"):
        assert least - 1e-9 <= solve(load, k, name, chance=CHANCE).traffic <= k * least + 1e-9
