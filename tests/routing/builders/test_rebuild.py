"""A new partitioning function from the old one: which pins it drops."""

import numpy as np
import pytest

from headgate.routing.builders import (
    rebuild,
)
from headgate.routing.key_hash import hash_ints
from headgate.routing.partitioning import PartitioningFunction
from headgate.routing.ring import HashRing


def test_rebuild_lets_go_of_keys_no_longer_tracked() -> None:
    now = PartitioningFunction.pinning(HashRing.uniform(2), {1: 0, 2: 1})
    done = rebuild(now, hash_ints([2]), np.array([0.2]), channels=range(3), last_frequency={})
    assert list(done.function.pins) == hash_ints([2]).tolist()
    assert done.function.lookup(1) == done.function.ring.lookup(1)
    with pytest.raises(ValueError, match="twice"):
        rebuild(now, hash_ints([2, 2]), np.array([0.2, 0.2]), channels=range(3))
