"""The ring against a slow one, and what moves when channels come and go (PX-7)."""

import bisect

import numpy as np
import pytest

from headgate.routing.key_hash import hash_ints
from headgate.routing.ring import HashRing

KEYS = np.arange(200_000)


def slow_lookup(ring: HashRing, hashes: np.ndarray) -> list[int]:
    points = ring.points.tolist()
    return [
        int(ring.owners[bisect.bisect_left(points, h) % len(points)]) for h in hashes.view(np.uint64).tolist()
    ]


@pytest.mark.parametrize("channels", [1, 2, 10, 33])
@pytest.mark.parametrize("replicas", [1, 7, 1000])
def test_lookup_equals_a_binary_search_over_all_points(channels: int, replicas: int) -> None:
    ring = HashRing.uniform(channels, replicas=replicas, seed=5)
    hashes = hash_ints(KEYS[:3000])
    assert ring.lookup_hashes(hashes).tolist() == slow_lookup(ring, hashes)


def test_hash_at_both_ends_of_the_ring_wraps() -> None:
    ring = HashRing.uniform(3, replicas=2)
    ends = np.array([0, 2**64 - 1], dtype=np.uint64)
    first = int(ring.owners[0])
    assert ring.lookup_hashes(ends).tolist() == [first, first]
    on_a_point = ring.points[2:3]
    assert ring.lookup_hashes(on_a_point).tolist() == [int(ring.owners[2])]


def test_adding_a_channel_moves_a_tenth_and_only_to_it() -> None:
    before, after = HashRing.uniform(9).lookup_ints(KEYS), HashRing.uniform(10).lookup_ints(KEYS)
    moved = before != after
    assert set(after[moved].tolist()) == {9}
    assert 0.08 <= moved.mean() <= 0.12


def test_removing_a_channel_moves_only_its_keys() -> None:
    before = HashRing.uniform(5).lookup_ints(KEYS)
    after = HashRing.uniform(5).with_channels((0, 1, 3, 4)).lookup_ints(KEYS)
    assert set(before[before != after].tolist()) == {2}


def test_counts_balance_with_a_thousand_replicas() -> None:
    counts = np.bincount(HashRing.uniform(10).lookup_ints(np.arange(1_000_000)))
    assert counts.max() / counts.min() < 1.2


def test_weights_shift_keys_towards_the_heavier_channel() -> None:
    ring = HashRing((0, 1), weights=(3.0, 1.0))
    assert np.bincount(ring.lookup_ints(KEYS))[0] / KEYS.shape[0] == pytest.approx(0.75, abs=0.03)


def test_same_seed_same_ring_other_seed_other_ring() -> None:
    assert np.array_equal(HashRing.uniform(4, seed=1).points, HashRing.uniform(4, seed=1).points)
    assert not np.array_equal(HashRing.uniform(4, seed=1).points, HashRing.uniform(4, seed=2).points)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: HashRing(()), "at least one channel"),
        (lambda: HashRing((1, 1)), "must differ"),
        (lambda: HashRing((0, 2**15)), "channel ids"),
        (lambda: HashRing((0,), replicas=0), "replicas"),
        (lambda: HashRing((0, 1), weights=(1.0,)), "weights"),
        (lambda: HashRing((0,), weights=(0.0,)), "positive"),
        (lambda: HashRing((0,), weights=(1e9,)), "more than"),
        (lambda: HashRing.uniform(2).lookup_ints([1.5]), "integer keys"),
        (lambda: HashRing.uniform(2).lookup_ints([[1]]), "one-dimensional"),
    ],
)
def test_bad_input_is_named(make, words) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_no_keys_no_channels_looked_up() -> None:
    assert HashRing.uniform(2).lookup_ints([]).shape == (0,)
    assert HashRing.uniform(1).lookup("anything") == 0
