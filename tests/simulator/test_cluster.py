"""Clusters that cannot be."""

import pytest
from tests.simulator.small import SMALL

from headgate.errors import ConfigError
from headgate.simulator.cluster import Cluster


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nodes": 0}, "nodes=0 must be above 0"),
        ({"memory_mb": 0.01}, "does not hold one bin"),
        ({"transport": "pigeon"}, "not flux, exchange or river"),
        ({"loaded_speed": 0.0}, "outside"),
        ({"buffer_tuples": -1}, "0 or more"),
    ],
    ids=str,
)
def test_a_cluster_that_cannot_be(change, says) -> None:
    with pytest.raises(ConfigError, match=says):
        Cluster(**{**SMALL.__dict__, **change})
