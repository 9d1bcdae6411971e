"""Offline algorithms: against slow, obvious versions, the paper's bounds, and the exact optimum."""

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from headgate.errors import ConfigError, NoRoom
from headgate.hosting import Balance, Host, Workload
from headgate.hosting.offline.algorithms import ALGORITHMS, Assignment, reserve, rooms_of, solve
from headgate.hosting.offline.bounds import capacity_bound, expected_random, optimum
from headgate.hosting.offline.hypergraph import partition

CHANCE = np.array([(i * 0.6180339887) % 1 for i in range(997)])


@st.composite
def workloads(draw, *, max_sources=6, max_queries=14, max_degree=3, unit_rates=False) -> Workload:
    m = draw(st.integers(1, max_sources))
    rates = {f"s{i}": 1.0 if unit_rates else draw(st.sampled_from([1.0, 2.0, 4.0, 0.5])) for i in range(m)}
    reads = st.lists(st.sampled_from(sorted(rates)), min_size=1, max_size=max_degree)
    queries = draw(st.lists(reads, min_size=1, max_size=max_queries))
    return Workload.of(rates, {f"q{i}": names for i, names in enumerate(queries)})


def slow_greedy(load: Workload, rooms, *, total: bool):
    """IC and MMS from their definitions: all pairs, every round."""
    types, left, room = load.types, load.types.count.copy(), rooms.copy()
    members = [types.source[types.start[t] : types.start[t + 1]] for t in range(len(types))]
    has: list[set[int]] = [set() for _ in rooms]
    held = np.zeros(len(rooms))
    steps = []
    while left.any():
        pairs = [
            (
                sum(load.rates[s] for s in members[t] if s not in has[j])
                + (sum(load.rates[s] for s in has[j]) if total else 0.0),
                -types.count[t], t, held[j], j,
            )
            for t in range(len(types)) if left[t]
            for j in range(len(rooms)) if room[j] >= types.cost[t]
        ]  # fmt: skip
        _, _, t, _, j = min(pairs)
        number = min(left[t], int(room[j] / types.cost[t] + 1e-9))
        left[t] -= number
        room[j] -= number * types.cost[t]
        held[j] += number * types.cost[t]
        has[j] |= set(members[t].tolist())
        steps.append((t, j, number))
    return steps


@given(load=workloads(), k=st.integers(1, 5), total=st.booleans())
@settings(max_examples=150, deadline=None)
def test_ic_and_mms_equal_their_definitions(load, k, total) -> None:
    if np.diff(load.start).max() == 1:
        return  # the single-source algorithm answers
    found = solve(load, k, "mms" if total else "ic")
    assert list(zip(found.type, found.server, found.number, strict=True)) == slow_greedy(
        load, found.rooms, total=total
    )


@given(load=workloads(), k=st.integers(1, 5), name=st.sampled_from(sorted(ALGORITHMS)))
@settings(max_examples=150, deadline=None)
def test_every_algorithm_places_each_query_once_within_the_limit(load, k, name) -> None:
    if name == "single-source" and np.diff(load.start).max() > 1:
        with pytest.raises(ConfigError, match="one source each"):
            solve(load, k, name)
        return
    found = solve(load, k, name, chance=CHANCE)
    assert np.bincount(found.type, found.number, len(load.types)).tolist() == load.types.count.tolist()
    assert np.all(found.loads <= found.rooms + 1e-9)
    assert np.bincount(found.server_of, minlength=k).tolist() == found.loads.tolist()
    streams = {
        (s, found.server_of[q])
        for q in range(load.queries)
        for s in load.source[load.start[q] : load.start[q + 1]]
    }
    assert found.traffic == pytest.approx(sum(load.rates[s] for s, _ in streams))
    assert found.traffic >= capacity_bound(load, found.rooms) - 1e-9
    assert Assignment.of_servers(load, found.sizes, found.rooms, found.server_of).traffic == found.traffic


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
    rooms = rooms_of(load, np.ones(k), Balance())
    least = brute_force(load, k, rooms[0])
    exact, proved = optimum(load, np.ones(k), rooms)
    assert proved
    assert exact.traffic == pytest.approx(least)
    assert np.all(exact.loads <= rooms + 1e-9)
    assert capacity_bound(load, rooms) <= least + 1e-9
    widest = int(np.diff(load.start).max())
    assert solve(load, k, "mqp").traffic <= 2 * widest * (math.log(k) + 1) * least + 1e-9
    for name in ("ic", "mms", "mqp", "off-rand"):
        assert least - 1e-9 <= solve(load, k, name, chance=CHANCE).traffic <= k * least + 1e-9


@given(
    counts=st.lists(st.integers(1, 9), min_size=2, max_size=30),
    rates=st.lists(st.sampled_from([1.0, 2.0, 5.0, 0.25]), min_size=30, max_size=30),
    k=st.integers(1, 8),
    unit=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_mx_24_single_source_bounds(counts, rates, k, unit) -> None:
    names = {f"s{i}": 1.0 if unit else rates[i] for i in range(len(counts))}
    load = Workload.of(names, {f"{s}/{i}": [s] for s, c in zip(names, counts, strict=True) for i in range(c)})
    found = solve(load, k, "single-source")
    assert found.type.shape[0] <= len(counts) + k
    assert found.traffic == solve(load, k, "mms").traffic == solve(load, k, "ic").traffic
    if k < len(counts) and max(counts) < found.rooms[0]:
        assert found.traffic <= (len(counts) + k if unit else 2 * load.needed)


def blocks(k: int, sources: int, queries: int) -> Workload:
    """Disjoint complete bipartite blocks (MICE-10)."""
    rates = {f"{b}.{s}": 1.0 for b in range(k) for s in range(sources)}
    return Workload.of(
        rates, {f"{b}/{q}": [f"{b}.{s}" for s in range(sources)] for q in range(queries) for b in range(k)}
    )


def test_mx_20_blocks_are_found_and_chance_misses_them() -> None:
    k, load = 10, blocks(10, 5, 30)
    m = load.sources
    assert expected_random(load, k) == pytest.approx(k * m * (1 - (1 - 1 / k) ** 30))
    rng = np.random.default_rng(5)
    traffic = [
        Assignment.of_servers(load, np.ones(k), np.ones(k), rng.integers(0, k, load.queries)).traffic
        for _ in range(20)
    ]
    assert np.mean(traffic) == pytest.approx(expected_random(load, k), rel=0.05)
    assert solve(load, k, "ic").traffic == m
    host = Host({f"{b}.{s}": 1.0 for b in range(k) for s in range(5)}, servers=k, rule="least-cost")
    for q in range(30):
        for b in range(k):
            host.place(f"{b}/{q}", [f"{b}.{s}" for s in range(5)])
    assert host.standing().traffic <= 2 * m


def test_the_partitioner_keeps_the_rooms_and_beats_the_greedy_ones_on_blocks_with_noise() -> None:
    load = blocks(8, 4, 40)
    found = partition(load, np.ones(8), rooms_of(load, np.ones(8), Balance()))
    assert np.all(found.loads <= found.rooms)
    assert found.traffic == load.sources
    assert np.bincount(found.type, found.number, len(load.types)).tolist() == load.types.count.tolist()


def test_servers_of_unequal_size_and_queries_of_unequal_cost() -> None:
    rates = {f"s{i}": 1.0 + i % 3 for i in range(20)}
    queries = {f"q{i}": [f"s{i % 20}", f"s{(i * 7) % 20}"] for i in range(200)}
    costs = {q: 1.0 + (i % 4) / 2 for i, q in enumerate(queries)}
    load = Workload.of(rates, queries, costs)
    sizes = [1.0, 2.0, 3.0]
    for found in (*(solve(load, sizes, a, chance=CHANCE) for a in ("ic", "mms", "mqp", "off-rand")),
                  partition(load, np.array(sizes), rooms_of(load, np.array(sizes), Balance()))):  # fmt: skip
        assert found.loads.sum() == pytest.approx(load.total_cost)
        assert np.all(found.loads <= found.rooms * (1 + 1e-9))
        assert found.rooms == pytest.approx(
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
    assert host.standing().traffic == load.sources
    assert host.place("other", ["0.0", "1.1"]).added_traffic <= 2


def test_what_cannot_fit_is_refused() -> None:
    load = blocks(2, 1, 10)
    with pytest.raises(ConfigError, match="servers hold 10"):
        solve(load, 2, balance=Balance(capacity=5))
    heavy = Workload.of({"a": 1.0}, {"x": ["a"], "y": ["a"], "z": ["a"]}, {"x": 3.0, "y": 3.0, "z": 3.0})
    with pytest.raises(NoRoom, match="without a place"):
        solve(heavy, 2, balance=Balance(capacity=5))
    with pytest.raises(ConfigError, match="did you mean 'mms'"):
        solve(load, 2, "mm")
    with pytest.raises(ConfigError, match="at least one"):
        solve(load, 0)
