"""Pins first, the ring otherwise (PX-8), for keys of every type."""

from collections.abc import Hashable

import numpy as np
import pytest

from headgate.routing.key_hash import hash_ints, hash_key
from headgate.routing.partitioning import PartitioningFunction, uniform_lookup
from headgate.routing.ring import HashRing

RING = HashRing.uniform(5)


def test_pin_wins_and_all_others_follow_the_ring() -> None:
    keys = np.arange(1000)
    pins: dict[Hashable, int] = {int(k): int((RING.lookup_ints([k])[0] + 1) % 5) for k in range(0, 1000, 10)}
    p = PartitioningFunction.pinning(RING, pins)
    got = p.lookup_ints(keys)
    for key in keys.tolist():
        wanted = pins.get(key, RING.lookup(key))
        assert got[key] == wanted == p.lookup(key)
    assert np.array_equal(got, p.lookup_hashes(hash_ints(keys)))


@pytest.mark.parametrize(
    "key", [3, -3, "text", b"bytes", 2.5, None, True, ("a", 1, None), 2**90, frozenset()]
)
def test_keys_of_every_type_can_be_pinned(key) -> None:
    free = PartitioningFunction(RING)
    target = (free.lookup(key) + 1) % 5
    pinned = PartitioningFunction.pinning(RING, {key: target})
    assert pinned.lookup(key) == target
    assert pinned.lookup_hashes([hash_key(key)]).tolist() == [target]
    assert free.lookup(key) == RING.lookup(key)


def test_many_pins_that_share_slots_are_all_found() -> None:
    hashes = (np.arange(500, dtype=np.int64) << 40) | 5
    p = PartitioningFunction(RING, {int(h): i % 5 for i, h in enumerate(hashes)})
    assert p.lookup_hashes(hashes).tolist() == [i % 5 for i in range(500)]


def test_a_pin_to_a_dead_channel_is_refused() -> None:
    with pytest.raises(ValueError, match=r"channels \[7\]"):
        PartitioningFunction.pinning(RING, {"x": 7})


def test_a_function_does_not_change_with_the_mapping_it_was_made_from() -> None:
    pins = {hash_key("x"): 0}
    p = PartitioningFunction(RING, pins)
    pins[hash_key("y")] = 1
    assert list(p.pins) == [hash_key("x")]


def test_uniform_is_modulo_and_wants_a_channel() -> None:
    assert uniform_lookup(np.arange(5), 2).tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(ValueError, match="at least 1"):
        uniform_lookup([1], 0)
