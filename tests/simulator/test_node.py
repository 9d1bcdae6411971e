"""Memory and disk of a node: spilling, rotating, and what is refused."""

import pytest
from tests.simulator.small import LEAN, SMALL

from headgate.errors import ConfigError, StorageFull
from headgate.policies import Static
from headgate.simulator.cluster import Cluster
from headgate.simulator.run import Event, Simulation
from headgate.simulator.workload import uniform


def test_memory_that_was_taken_away_goes_to_disk_comes_back_and_rotates_meanwhile() -> None:
    cluster = Cluster(**{**SMALL.__dict__, **LEAN})
    events = [Event(0.1, (0,), memory_mb=0.08), Event(1.2, (0,), memory_mb=0.16)]
    result = Simulation(cluster, Static(), uniform(cluster.bins), seconds=2, seed=1, events=events).run()
    assert result.on_disk[0].tolist() == [2, 0, 0]
    assert result.on_disk[1].sum() == 0
    assert len(result.activated_s[0]) > 10
    assert result.accounted


def test_a_longer_gap_trades_latency_for_throughput() -> None:
    cluster = Cluster(**{**SMALL.__dict__, **LEAN})

    def made(gap):
        events = [Event(0.0, (0,), memory_mb=0.08)]
        return Simulation(
            cluster, Static(), uniform(cluster.bins), seconds=3, seed=1, events=events, gap_s=gap
        ).run()

    short, long = made(0.01), made(0.2)
    assert long.mean(1) > short.mean(1)
    assert long.mean_latency(1) > short.mean_latency(1)


def test_less_memory_than_one_bin_is_refused_by_name() -> None:
    cluster = Cluster(**{**SMALL.__dict__, **LEAN})
    events = [Event(0.0, (2,), memory_mb=0.01)]
    with pytest.raises(ConfigError, match="node 2: 10000 bytes of memory do not hold one bin"):
        Simulation(cluster, Static(), uniform(cluster.bins), seconds=1, seed=1, events=events).run()


def test_a_full_disk_is_named_with_what_to_do() -> None:
    cluster = Cluster(**{**SMALL.__dict__, **LEAN, "disk_mb": 0.05})
    events = [Event(0.0, (2,), memory_mb=0.04)]
    with pytest.raises(StorageFull, match=r"node 2: its disk of 0\.05 MB is full with 1 bins"):
        Simulation(cluster, Static(), uniform(cluster.bins), seconds=1, seed=1, events=events).run()
