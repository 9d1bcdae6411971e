"""The compiled data path: tuple by tuple the exact model's, whatever moves."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.simulator.exact_model import ExactPlane
from tests.simulator.small import LEAN, SMALL, Restless

from headgate.policies import Static
from headgate.simulator import run as runs
from headgate.simulator.cluster import Cluster
from headgate.simulator.plane import Plane
from headgate.simulator.run import Event, Simulation
from headgate.simulator.workload import favouring, uniform


def both(monkeypatch, cluster, policy, **settings):
    """The same run on the compiled plane and on the exact one."""
    settings = {"seconds": 1, "seed": 5, "shares": uniform(cluster.bins), "delta_min_s": 0.005, **settings}
    shares = settings.pop("shares")
    fast = Simulation(cluster, policy, shares, trace=200_000, **settings)
    with monkeypatch.context() as patched:
        patched.setattr(runs, "Plane", ExactPlane)
        slow = Simulation(cluster, policy, shares, **settings)
    return (fast, fast.run()), (slow, slow.run())


def assert_alike(fast, slow) -> None:
    """Tuple by tuple, round by round, and to the last bit of the clocks' sums."""
    (quick, done), (exact, right) = fast, slow
    seen = quick.plane.arrays.trace[: int(quick.plane.arrays.traced[0])]
    assert [tuple(row) for row in seen.tolist()] == exact.plane.trace
    assert done.accounted
    assert right.accounted
    assert done.rounds == right.rounds
    assert done.table == right.table
    assert np.array_equal(done.throughput, right.throughput)
    assert np.array_equal(done.on_disk, right.on_disk)
    assert done.activated_s == right.activated_s
    # Of a run from disk the compiled plane knows the mean arrival: exact, unless a second's end cuts the run.
    assert np.allclose(done.latency_s, right.latency_s, rtol=0.02)
    assert np.array_equal(quick.plane.arrays.idle, exact.plane.arrays.idle)


def test_static_equals_the_exact_model(monkeypatch) -> None:
    assert_alike(*both(monkeypatch, SMALL, Static(), events=[Event(0.2, (1,), speed=0.4)]))


@settings(max_examples=6)
@given(st.integers(0, 2**20), st.booleans(), st.sampled_from([0.2, 0.5]))
@example(3, True, 0.2)
def test_moves_spills_bursts_and_rescales_equal_the_exact_model(seed, lean, at) -> None:
    """FX-34: with moves at random moments nothing is lost, doubled or out of order."""
    cluster = Cluster(**{**SMALL.__dict__, **LEAN}) if lean else SMALL
    events = [
        Event(at, (0,), speed=0.5, memory_mb=0.08 if lean else None),
        Event(at + 0.1, shares=favouring(uniform(cluster.bins), np.array([1, 4]), 8.0)),
        Event(at + 0.15, channels=2),
        Event(at + 0.3, (0, 1), speed=1.0, memory_mb=0.12 if lean else None, channels=3),
    ]
    with pytest.MonkeyPatch.context() as monkeypatch:
        fast, slow = both(monkeypatch, cluster, Restless(seed), events=events, seed=seed)
    assert_alike(fast, slow)
    assert fast[1].moves > 5
    assert not lean or any(fast[1].activated_s)


def test_exchange_is_held_up_by_its_slowest_node_and_river_is_not() -> None:
    def part(transport, buffer):
        cluster = Cluster(nodes=4, bins_per_node=4, transport=transport, buffer_tuples=buffer)
        slow = Simulation(
            cluster, Static(), uniform(16), seconds=3, seed=1, events=[Event(0.0, (0,), speed=0.43)]
        )
        return slow.run().mean(1) / cluster.ideal_rate

    assert part("exchange", 0) == pytest.approx(0.43, abs=0.02)
    assert part("river", 0) == pytest.approx((3 + 0.43) / 4, abs=0.02)


def test_a_full_buffer_holds_the_producers_back() -> None:
    plane = Plane(SMALL, uniform(SMALL.bins), seconds=1, seed=1)
    plane.arrays.speed[:] = 0.01
    plane.advance(50)
    assert plane.arrays.buffer_total.tolist() == [60, 60, 60]
    assert plane.arrays.ring_data.max() == 6
    assert plane.accounted()


def test_the_check_of_order_itself_finds_a_fault() -> None:
    plane = Plane(SMALL, uniform(SMALL.bins), seconds=1, seed=1)
    plane.advance(10)
    plane.arrays.sent[0, 0] += 1
    plane.advance(100)
    assert not plane.accounted()
