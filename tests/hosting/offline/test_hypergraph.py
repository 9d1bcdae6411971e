"""The hypergraph partitioner as a reference."""

import numpy as np
from tests.hosting.offline.workloads import blocks

from headgate.hosting import Balance
from headgate.hosting.offline.algorithms import offline_limits
from headgate.hosting.offline.hypergraph import partition


def test_the_partitioner_keeps_the_limits_and_finds_the_blocks() -> None:
    load = blocks(8, 4, 40)
    found = partition(load, np.ones(8), offline_limits(load, np.ones(8), Balance()))
    assert np.all(found.loads <= found.limits)
    assert found.traffic == load.sources
    assert np.bincount(found.type, found.number, len(load.types)).tolist() == load.types.count.tolist()
