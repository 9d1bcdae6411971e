"""The production tracker: bounds always hold, merging equals adding, a shifted hot set is followed."""

import numpy as np
import pytest

from headgate.routing.heavy_keys import HeavyKeys
from headgate.routing.key_hash import hash_ints


def batch(rng: np.random.Generator, rows: int, domain: int = 5000, skew: float = 1.2):
    keys, counts = np.unique(rng.zipf(skew, rows) % domain, return_counts=True)
    return keys, counts


def check_bounds(heavy: HeavyKeys, truth: np.ndarray) -> None:
    state = heavy.state()
    by_hash = {int(h): i for i, h in enumerate(hash_ints(np.arange(truth.shape[0])))}
    held = [by_hash[int(k)] for k in state.keys]
    assert (state.lower <= truth[held] * (1 + 1e-12) + 1e-9).all()
    assert (truth[held] <= state.upper * (1 + 1e-12) + 1e-9).all()
    rest = np.delete(truth, held)
    assert rest.max(initial=0) <= state.floor * (1 + 1e-12) + 1e-9
    assert state.floor <= state.rows / (heavy.capacity + 1) * (1 + 1e-9)
    assert len(heavy) <= heavy.capacity
    assert state.rows == pytest.approx(truth.sum())


@pytest.mark.parametrize("capacity", [1, 3, 64, 1024])
@pytest.mark.parametrize("decay", [1.0, 0.7])
def test_bounds_hold_after_every_batch(capacity: int, decay: float) -> None:
    rng = np.random.default_rng(capacity)
    heavy, truth = HeavyKeys(capacity=capacity, decay=decay), np.zeros(5000)
    for _ in range(8):
        keys, counts = batch(rng, 20_000)
        heavy.add(hash_ints(keys), counts)
        truth *= decay
        truth[keys] += counts
        check_bounds(heavy, truth)


@pytest.mark.parametrize("capacity", [2, 50])
def test_merged_summaries_keep_the_bounds(capacity: int) -> None:
    rng = np.random.default_rng(1)
    parts, truth = [], np.zeros(5000)
    for _ in range(4):
        heavy = HeavyKeys(capacity=capacity)
        for _ in range(3):
            keys, counts = batch(rng, 5000)
            heavy.add(hash_ints(keys), counts)
            truth[keys] += counts
        parts.append(heavy)
    first, *others = parts
    for other in others:
        first.merge(other)
    check_bounds(first, truth)


def test_huge_counts_beyond_the_histogram_are_cut_exactly() -> None:
    heavy = HeavyKeys(capacity=2)
    heavy.add(hash_ints(np.arange(5)), np.array([9000, 8000, 7000, 6000, 5000]))
    assert heavy.floor == 7000
    assert heavy.shares()[1].tolist() == [9000 / 35000, 8000 / 35000]


def test_exact_from_the_batch_in_which_a_key_enters() -> None:
    heavy = HeavyKeys(capacity=10)
    for _ in range(5):
        heavy.add(hash_ints(np.arange(1000)), np.where(np.arange(1000) < 3, 500, 1))
    keys, shares = heavy.shares(at_least=0.1)
    assert set(keys.tolist()) == set(hash_ints([0, 1, 2]).tolist())
    assert shares == pytest.approx([2500 / heavy.rows] * 3)


def test_a_hot_set_that_shifts_is_followed_within_three_batches() -> None:
    heavy = HeavyKeys(capacity=100, decay=0.5)
    hot, cold = hash_ints([1]), hash_ints([2])
    for _ in range(20):
        heavy.add(np.concatenate([hot, cold]), [900, 100])
    for _ in range(3):
        heavy.add(np.concatenate([hot, cold]), [100, 900])
    keys, shares = heavy.shares()
    assert keys[0] == cold[0]
    assert shares[0] > 0.7


def test_state_round_trip_and_empty_batches() -> None:
    heavy = HeavyKeys(capacity=4, decay=0.5)
    heavy.add([], [])
    assert heavy.shares()[0].size == 0
    heavy.add(hash_ints(np.arange(9)), np.arange(9) + 1)
    again = HeavyKeys.restore(heavy.state())
    for tracker in (heavy, again):
        tracker.add([], [])
        tracker.add(hash_ints([3, 8]), [5, 5])
    assert heavy.state().keys.tolist() == again.state().keys.tolist()
    assert heavy.state().lower.tolist() == again.state().lower.tolist()


@pytest.mark.parametrize(
    "act, words",
    [
        (lambda: HeavyKeys(capacity=0), "capacity"),
        (lambda: HeavyKeys(decay=0), "decay"),
        (lambda: HeavyKeys().add([1], [1, 2]), "2 counts"),
        (lambda: HeavyKeys().add([1], [-1]), "negative"),
    ],
)
def test_bad_input_is_named(act, words) -> None:
    with pytest.raises(ValueError, match=words):
        act()
