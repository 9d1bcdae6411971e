"""`solve` and `reserve`: every query is placed once within the limits, and what cannot fit raises."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.hosting.offline.workloads import CHANCE, blocks, workloads

from headgate.errors import ConfigError, NoRoom
from headgate.hosting import Balance, Host, Workload
from headgate.hosting.offline.algorithms import ALGORITHMS, offline_limits, reserve, solve
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.offline.bounds import capacity_bound
from headgate.hosting.offline.hypergraph import partition


@given(load=workloads(), k=st.integers(1, 5), name=st.sampled_from(sorted(ALGORITHMS)))
@settings(max_examples=150, deadline=None)
def test_every_algorithm_places_each_query_once_within_the_limit(load, k, name) -> None:
    if name == "single-source" and np.diff(load.start).max() > 1:
        with pytest.raises(ConfigError, match="one source each"):
            solve(load, k, name)
        return
    found = solve(load, k, name, chance=CHANCE)
    assert np.bincount(found.type, found.number, len(load.types)).tolist() == load.types.count.tolist()
    assert np.all(found.loads <= found.limits + 1e-9)
    assert np.bincount(found.server_of, minlength=k).tolist() == found.loads.tolist()
    streams = {
        (s, found.server_of[q])
        for q in range(load.queries)
        for s in load.source[load.start[q] : load.start[q + 1]]
    }
    assert found.traffic == pytest.approx(sum(load.rates[s] for s, _ in streams))
    assert found.traffic >= capacity_bound(load, found.limits) - 1e-9
    assert Assignment.from_servers(load, found.sizes, found.limits, found.server_of).traffic == found.traffic


def test_servers_of_unequal_size_and_queries_of_unequal_cost() -> None:
    rates = {f"s{i}": 1.0 + i % 3 for i in range(20)}
    queries = {f"q{i}": [f"s{i % 20}", f"s{(i * 7) % 20}"] for i in range(200)}
    costs = {q: 1.0 + (i % 4) / 2 for i, q in enumerate(queries)}
    load = Workload.from_names(rates, queries, costs)
    sizes = [1.0, 2.0, 3.0]
    for found in (*(solve(load, sizes, a, chance=CHANCE) for a in ("ic", "mms", "mqp", "off-rand")),
                  partition(load, np.array(sizes), offline_limits(load, np.array(sizes), Balance()))):  # fmt: skip
        assert found.loads.sum() == pytest.approx(load.total_cost)
        assert np.all(found.loads <= found.limits * (1 + 1e-9))
        assert found.limits == pytest.approx(
            np.array(sizes) / 6 * load.total_cost
            + np.maximum(0.05 * np.array(sizes) / 6 * load.total_cost, 2.5)
        )


def test_reserved_sends_types_where_the_offline_solution_put_them() -> None:
    load = blocks(4, 3, 25)
    found = solve(load, 4, "ic")
    numbers = iter(CHANCE.tolist() * 3)
    host = Host(
        {f"{b}.{s}": 1.0 for b in range(4) for s in range(3)},
        servers=4,
        rule=reserve(load, found),
        draw=lambda: next(numbers),
    )
    for q in range(25):
        for b in range(4):
            host.place(f"{b}/{q}", [f"{b}.{s}" for s in range(3)])
    assert host.status().traffic == load.sources
    assert host.place("other", ["0.0", "1.1"]).added_traffic <= 2


def test_what_cannot_fit_raises() -> None:
    load = blocks(2, 1, 10)
    with pytest.raises(ConfigError, match="servers hold 10"):
        solve(load, 2, balance=Balance(capacity=5))
    heavy = Workload.from_names(
        {"a": 1.0}, {"x": ["a"], "y": ["a"], "z": ["a"]}, {"x": 3.0, "y": 3.0, "z": 3.0}
    )
    with pytest.raises(NoRoom, match="without a place"):
        solve(heavy, 2, balance=Balance(capacity=5))
    with pytest.raises(ConfigError, match="did you mean 'mms'"):
        solve(load, 2, "mm")
    with pytest.raises(ConfigError, match="at least one"):
        solve(load, 0)
