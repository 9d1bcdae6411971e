"""Laws of partitioning functions and builders, under Hypothesis."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.routing.balance import migration
from headgate.routing.builders import ALGORITHMS, Bins, Hot, Objective, Problem, place, readj, rebuild
from headgate.routing.heavy_keys import HeavyKeys
from headgate.routing.key_hash import hash_ints
from headgate.routing.partitioning import PartitioningFunction
from headgate.routing.ring import HashRing

FEWER = settings(max_examples=60)

channel_sets = st.sets(st.integers(0, 40), min_size=1, max_size=8).map(lambda s: tuple(sorted(s)))
frequencies = st.lists(st.floats(1e-6, 1.0), min_size=0, max_size=25).map(np.array)
resources = st.sampled_from(["LCL", "LLL", "LQL", "CCL", "CQL"])
utilities = st.sampled_from(["A", "APM", "APLM", "ATM", "ATLM"])


@st.composite
def problems(draw) -> Problem:
    f = draw(frequencies)
    channels = draw(st.integers(1, 6))
    old = np.array(
        draw(st.lists(st.integers(-1, channels - 1), min_size=len(f), max_size=len(f))), dtype=np.int64
    )
    return Problem(
        np.asarray(f, dtype=np.float64),
        old,
        channels,
        Objective(resources=draw(resources), utility=draw(utilities), alpha=draw(st.floats(1.01, 4))),
        speeds=np.array(draw(st.lists(st.floats(0.25, 4), min_size=channels, max_size=channels))),
    )


@FEWER
@given(steps=st.lists(st.tuples(channel_sets, st.sampled_from(sorted(ALGORITHMS)), frequencies), max_size=4))
def test_every_key_has_one_live_channel_through_any_sequence_of_rebuilds(steps) -> None:
    keys = np.arange(300)
    current = PartitioningFunction(HashRing.uniform(2, replicas=20))
    for channels, algorithm, f in steps:
        hot = hash_ints(np.arange(len(f)))
        done = rebuild(current, hot, np.asarray(f, float), channels=channels, algorithm=algorithm)
        after = done.function
        routed = after.lookup_ints(keys)
        assert set(routed.tolist()) <= set(channels)
        assert routed.tolist() == [after.lookup(int(k)) for k in keys]
        # Migration counted equals migration done, over tracked keys and those let go.
        gone = np.array([h for h in current.pins if h not in set(hot.tolist())], dtype=np.int64)
        floor = float(np.min(f)) if len(f) else 0.0
        watched, state = np.concatenate([hot, gone]), np.concatenate([f, np.full(len(gone), floor)])
        done_moves = migration(
            state.astype(float), current.lookup_hashes(watched), after.lookup_hashes(watched)
        )
        assert done.assignment.moved_state == pytest.approx(done_moves, abs=1e-9)
        current = after


@FEWER
@given(problem=problems(), algorithm=st.sampled_from(sorted(ALGORITHMS)))
def test_counted_penalties_equal_recomputed_ones(problem: Problem, algorithm: str) -> None:
    got = ALGORITHMS[algorithm](problem)
    assert got.channel.shape == problem.volume.shape
    assert ((got.channel >= 0) & (got.channel < problem.channels)).all()
    assert got.moved_state == pytest.approx(problem.moved(got.channel), abs=1e-9)
    assert got.gamma == pytest.approx(problem.gamma(got.channel), rel=1e-9, abs=1e-9)


@FEWER
@given(problem=problems(), variant=st.sampled_from(["clean", "literal"]))
def test_readj_strictly_lowers_rho_and_ends_where_nothing_more_helps(
    problem: Problem, variant: Literal["clean", "literal"]
) -> None:
    got = readj(problem, variant=variant)
    assert all(later < earlier for earlier, later in zip(got.rho_trace, got.rho_trace[1:], strict=False))
    if problem.channels == 1:
        return
    again = Problem(
        problem.volume,
        problem.old,
        problem.channels,
        problem.objective,
        start=got.channel,
        speeds=problem.speeds,
    )
    # Sums are added up afresh here, so a last readjustment of a few ulps may appear; nothing more.
    assert readj(again, variant=variant).rho >= got.rho - 1e-9 * max(1.0, got.rho)


@FEWER
@given(problem=problems())
def test_readj_ends_in_a_local_optimum_of_moves(problem: Problem) -> None:
    got = readj(problem)
    for item in range(problem.volume.shape[0]):
        for channel in range(problem.channels):
            other = got.channel.copy()
            other[item] = channel
            assert problem.rho(other) >= got.rho - 1e-9 * max(1.0, got.rho)


@FEWER
@given(
    rows=st.lists(st.floats(0, 1e6), min_size=1, max_size=40),
    hot=st.lists(st.floats(0, 1e6), max_size=10),
    before=st.integers(1, 6),
    after=st.integers(1, 6),
    tail=st.sampled_from(["ignore", "see", "move"]),
    seed=st.integers(0, 1000),
)
def test_placement_gives_every_bin_and_pin_one_channel_and_loses_no_row(
    rows, hot, before, after, tail, seed
) -> None:
    rng = np.random.default_rng(seed)
    home = rng.integers(0, len(rows), len(hot))
    pinned = rng.integers(-1, before, len(hot))
    weight = np.array(hot, dtype=float)
    bin_rows = np.array(rows)
    np.add.at(bin_rows, home[pinned < 0], weight[pinned < 0])
    plan = place(
        Hot(np.arange(len(hot)), weight, home, pinned),
        Bins(bin_rows, rng.integers(0, before, len(rows))),
        after,
        tail=tail,
    )
    assert plan.bin_channel.shape == (len(rows),)
    assert ((plan.bin_channel >= 0) & (plan.bin_channel < after)).all()
    assert all(0 <= channel < after for channel in plan.pins.values())
    assert set(plan.pins).isdisjoint(plan.unpinned)
    total = bin_rows.sum() + weight[pinned >= 0].sum()
    assert plan.channel_rows.sum() == pytest.approx(total, rel=1e-9, abs=1e-6)
    assert plan.busiest_after >= plan.busiest_bound - 1e-9 or not plan.pins


@FEWER
@given(
    batches=st.lists(st.dictionaries(st.integers(0, 60), st.integers(1, 5000), max_size=40), max_size=6),
    capacity=st.integers(1, 20),
    cut=st.integers(0, 6),
)
def test_tracker_bounds_hold_whether_batches_are_added_or_summaries_merged(batches, capacity, cut) -> None:
    truth = dict.fromkeys(range(61), 0)
    halves = (HeavyKeys(capacity=capacity), HeavyKeys(capacity=capacity))
    for number, batch in enumerate(batches):
        halves[number < cut].add(hash_ints(list(batch)), list(batch.values()))
        for key, count in batch.items():
            truth[key] += count
    halves[0].merge(halves[1])
    state = halves[0].state()
    held = {int(h): (lo, up) for h, lo, up in zip(state.keys, state.lower, state.upper, strict=True)}
    for key, h in zip(range(61), hash_ints(np.arange(61)).tolist(), strict=True):
        low, high = held.get(h, (0.0, state.floor))
        assert low <= truth[key] <= high + 1e-9
    assert state.floor <= sum(truth.values()) / (capacity + 1) + 1e-9
