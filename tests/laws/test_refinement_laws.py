"""Refinement: it keeps limits and budget, never raises traffic, falls silent, and follows from its seed alone."""

import itertools
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from headgate.errors import ConfigError
from headgate.hosting import NO_REPAIR, Balance, Host, Repair

RATES = [1.0, 2.0, 0.5, 0.0, 3.0, 1.0]
Reads = list[list[int]]


@st.composite
def hosts(draw, most=40):
    """A host whose queries are on any servers, and what they read."""
    reads = draw(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=1, max_size=most))
    servers = draw(st.integers(1, 4))
    where = draw(st.lists(st.integers(0, servers - 1), min_size=len(reads), max_size=len(reads)))
    balance = Balance(0.05, draw(st.sampled_from([0.0, 1.0, 10.0])))
    costs = draw(st.lists(st.sampled_from([1.0, 1.0, 2.5]), min_size=len(reads), max_size=len(reads)))

    def made() -> Host:
        host = Host(
            {f"s{i}": rate for i, rate in enumerate(RATES)},
            servers=servers,
            balance=balance,
            repair=NO_REPAIR,
        )
        asked = [
            (str(q), [f"s{s}" for s in row], c) for q, (row, c) in enumerate(zip(reads, costs, strict=True))
        ]
        host.adopt_many(asked, where)
        return host

    return made, reads


def smoothed(reads: Reads, where: list[int]) -> float:
    """Traffic in which the c-th reader of a stream counts c^-3/2."""
    readers = Counter((s, j) for row, j in zip(reads, where, strict=True) for s in set(row))
    return sum(RATES[s] * i**-1.5 for (s, _), c in readers.items() for i in range(1, c + 1))


def places(host: Host) -> list[int]:
    return [host.server_of(str(q)) for q in range(len(host.queries))]


@given(hosts(), st.integers(0, 12), st.integers(1, 50), st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_a_step_keeps_limits_and_budget_and_never_raises_traffic(drawn, moves, sample, seed) -> None:
    made, reads = drawn
    host, same = made(), made()
    before, smooth = host.status(), smoothed(reads, places(host))
    was = places(host)
    steps = host.refine(moves, sample, seed=seed)
    after, now = host.status(), places(host)
    changed = {str(q) for q in range(len(reads)) if was[q] != now[q]}
    said = [query for move in steps for query, _ in move.servers()]
    assert sorted(said) == sorted(changed), "a query moves once, and every move is told"
    assert len(said) <= min(moves, sample)
    assert len({j for q in changed for j in (was[int(q)], now[int(q)])}) <= 2
    assert before.traffic - after.traffic == pytest.approx(
        sum(move.saved_traffic for move in steps), abs=1e-9
    )
    for server, load in after.loads.items():
        assert load <= max(host.limit_of(server), before.loads[server]) * (1 + 1e-6)
    if steps:
        assert (after.traffic, smoothed(reads, now)) < (before.traffic + 1e-9, smooth)
        assert after.traffic < before.traffic - 1e-12 or smoothed(reads, now) < smooth
    assert same.refine(moves, sample, seed=seed) == steps
    state = host._state
    assert not state.group_reads.any()
    assert not state.gain.any()


@given(hosts(most=25), st.integers(2, 20))
@settings(max_examples=30, deadline=None)
def test_it_falls_silent(drawn, moves) -> None:
    made, _ = drawn
    host, quiet = made(), 0
    for seed in range(2000):
        quiet = 0 if host.refine(moves, 30, seed=seed) else quiet + 1
        if quiet == 100:
            return
    raise AssertionError("after 2,000 steps it still moves queries")


@given(hosts(most=6), st.lists(st.integers(0, 1000), min_size=10, max_size=10))
@settings(max_examples=40, deadline=None)
def test_at_the_optimum_there_is_nothing_to_do(drawn, seeds) -> None:
    """The best of all placements within the limits, by traffic and then by smoothed traffic, from trying them all."""
    made, reads = drawn
    host = made()
    servers = host.servers
    limit = host.limit_of(0)
    cost = [float(host._state.cost[q]) for q in range(len(reads))]

    def judged(where: tuple[int, ...]) -> tuple[float, float]:
        held = Counter[int]()
        for c, j in zip(cost, where, strict=True):
            held[j] += c  # type: ignore[assignment]
        if max(held.values()) > limit * (1 + 1e-9):
            return (np.inf, np.inf)
        streams = {(s, j) for row, j in zip(reads, where, strict=True) for s in row}
        return (round(sum(RATES[s] for s, _ in streams), 9), round(smoothed(reads, list(where)), 9))

    best = min(itertools.product(servers, repeat=len(reads)), key=judged)
    if np.isinf(judged(best)[0]):
        return
    for query, server in enumerate(best):
        host.move(str(query), server)
    for seed in seeds:
        assert host.refine(20, 50, seed=seed) == []


def test_bad_budgets_raise() -> None:
    for wrong in ({"sample": -1}, {"every": 0}, {"seed": -1}, {"seed": 1 << 31}):
        with pytest.raises(ConfigError):
            Repair(**wrong)
