"""The simulator against an exact model, and the laws: nothing lost, doubled or out of order, whatever moves."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.simulator.exact_model import ExactPlane

from headgate.control import Move, Plan, journal
from headgate.control.view import LoadView
from headgate.errors import ConfigError, StorageFull
from headgate.policies import FluxHybrid, FluxLoad, FluxMemory, Rebuild, Static
from headgate.routing.table import Table
from headgate.simulator import run as runs
from headgate.simulator.cluster import Cluster
from headgate.simulator.plane import Plane
from headgate.simulator.run import Event, Simulation
from headgate.simulator.workload import alias_table, eighty_twenty, favouring, uniform

SMALL = Cluster(
    nodes=3,
    bins_per_node=4,
    bin_tuples=500,
    buffer_tuples=60,
    connection_tuples=6,
    disk_mb_per_s=4,
    seek_ms=1,
)
LEAN = {"memory_mb": 0.16, "drain_at_once": True}  # four bins of 40 KB each


@dataclass(frozen=True)
class Restless:
    """Moves some bin somewhere in every round, by a seed: nothing that a policy does is worse."""

    seed: int
    name: str = field(default="restless", init=False)

    def initial(self, bins, channels):
        return Table.uniform(bins, channels)

    def propose(self, view, table):
        rng = np.random.default_rng([self.seed, view.reports])
        bins = rng.choice(len(table.bins), size=int(rng.integers(0, 4)), replace=False)
        drawn = [Move(int(b), table.channel_of[int(b)], int(rng.integers(table.channels))) for b in bins]
        moves = tuple(move for move in drawn if move.source != move.target)
        return Plan(policy=self.name, from_version=table.version, moves=moves, gain=1.0) if moves else None


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


@settings(max_examples=25)
@given(st.data())
def test_fx_34_and_fx_35_hold_in_any_run(data) -> None:
    """Whatever moves, spills, bursts and rescales: all tuples accounted for, bins with one owner, damped."""
    policy = data.draw(
        st.sampled_from([Restless(data.draw(st.integers(0, 99))), FluxHybrid(), FluxLoad.paper(), Rebuild()])
    )
    lean = data.draw(st.booleans())
    nodes = data.draw(st.integers(2, 4))
    cluster = Cluster(**{**SMALL.__dict__, "nodes": nodes, **(LEAN if lean else {})})
    times = st.floats(0.0, 0.9)
    some_node = st.integers(0, nodes - 1).map(lambda n: (n,))
    kinds = [
        st.builds(Event, times, some_node, speed=st.floats(0.2, 1.0)),
        st.builds(Event, times, channels=st.integers(1, nodes)),
        st.builds(Event, times, shares=st.integers(0, 9).map(lambda s: eighty_twenty(cluster.bins, np.random.default_rng(s), groups=64))),
    ]  # fmt: skip
    if lean:
        kinds.append(st.builds(Event, times, some_node, memory_mb=st.sampled_from([0.04, 0.1, 0.2])))
    events = data.draw(st.lists(st.one_of(kinds), max_size=4))
    seed = data.draw(st.integers(0, 99))
    simulation = Simulation(
        cluster, policy, uniform(cluster.bins), seconds=1, seed=seed, events=events, delta_min_s=0.005
    )
    result = simulation.run()
    assert result.accounted
    owned = sorted(bin for node in simulation.nodes for bin in (*node.active, *node.inactive))
    moving = sorted(move.bin for move in simulation.movement.under_way)
    assert len(set(owned)) == len(owned)
    assert set(owned) | set(moving) == set(range(cluster.bins))
    for node in simulation.nodes:
        writing = not simulation.plane.is_free(node.number) or bool(node.leaving)
        assert node.limit is None or node.resident_bytes <= node.limit or writing
    rounds = result.rounds
    assert sum(r.move_s for r in rounds[:-1]) <= sum(r.collect_s for r in rounds) + 1e-9
    for before, after in pairwise(rounds):
        assert before.move_s <= after.collect_s + 1e-9


def test_bins_that_stay_are_processed_while_another_moves() -> None:
    """FLUX-21: a bin on its way holds nobody up."""
    cluster = Cluster(**{**SMALL.__dict__, "move_pair_mbps": 1.0, "buffer_tuples": 4000})

    @dataclass(frozen=True)
    class Once:
        name: str = field(default="once", init=False)

        def initial(self, bins, channels):
            return Table.uniform(bins, channels)

        def propose(self, view, table):
            if table.version:
                return None
            return Plan(policy=self.name, from_version=0, moves=(Move(0, 0, 1),), gain=1.0)

    simulation = Simulation(cluster, Once(), uniform(cluster.bins), seconds=1, seed=1)
    while not simulation.plane.arrays.stalled[0]:
        simulation.step(simulation.plane.tick + 1)
    simulation.step(simulation.plane.tick + 60)  # what was in flight is gone by now
    before = simulation.plane.arrays.processed.copy()
    simulation.step(simulation.plane.tick + 60)
    done = simulation.plane.arrays.processed - before
    assert done[0] == 0
    assert done[1:].min() > 0


@pytest.mark.parametrize(
    "policy", [Static(), FluxLoad(), FluxMemory(), FluxHybrid(), Rebuild()], ids=lambda p: p.name
)
def test_the_same_seed_is_the_same_run_and_another_is_another(policy) -> None:
    def made(seed):
        shares = eighty_twenty(SMALL.bins, np.random.default_rng(1), groups=64)
        return Simulation(
            SMALL, policy, shares, seconds=1, seed=seed, events=[Event(0.3, (1,), speed=0.3)]
        ).run()

    first, again, other = made(1), made(1), made(2)
    assert first.throughput.tobytes() == again.throughput.tobytes()
    assert first.latency_s.tobytes() == again.latency_s.tobytes()
    assert first.rounds == again.rounds
    assert first.latency_s.tobytes() != other.latency_s.tobytes()


def test_a_journal_of_a_run_replays_to_the_same_decisions() -> None:
    lines = []
    simulation = Simulation(
        SMALL,
        FluxLoad(),
        uniform(SMALL.bins),
        seconds=1,
        seed=1,
        events=[Event(0.2, (1,), speed=0.3)],
        delta_min_s=0.05,
        record=lambda report, decision: lines.append(journal.encode(report, decision)),
    )
    result = simulation.run()
    assert result.moves > 0
    assert len(lines) == len(result.rounds) or len(lines) == len(result.rounds) + 1
    view = LoadView(alpha=1.0)
    decisions = journal.replay(lines, FluxLoad(), runs.EAGER, "act", view=view)
    assert [one.changed for one in decisions] == [journal.decode(line).decision.changed for line in lines]


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


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"seconds": 0}, "a second at least"),
        ({"delta_min_s": 0.0}, "above 0"),
        ({"gap_s": -1.0}, "0 or more"),
        ({"shares": uniform(3)}, "3 shares for 12 bins"),
        ({"policy": FluxLoad(), "cluster": Cluster(nodes=2, transport="exchange")}, "cannot move bins"),
    ],
    ids=str,
)
def test_a_run_that_cannot_be(settings, says) -> None:
    cluster = settings.pop("cluster", SMALL)
    arguments = {"policy": Static(), "shares": uniform(cluster.bins), "seconds": 1, "seed": 1, **settings}
    with pytest.raises(ConfigError, match=says):
        Simulation(cluster, **arguments)


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


def test_one_node_and_equally_loaded_nodes_are_left_alone() -> None:
    one = Cluster(**{**SMALL.__dict__, "nodes": 1})
    assert Simulation(one, FluxHybrid(), uniform(4), seconds=1, seed=1).run().moves == 0
    events = [Event(0.0, (0, 1, 2), speed=0.43)]
    assert Simulation(SMALL, FluxLoad.paper(), uniform(12), seconds=1, seed=1, events=events).run().moves == 0


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=30).filter(lambda xs: sum(xs) > 0))
def test_the_alias_table_has_the_shares_that_it_was_made_of(weights) -> None:
    shares = np.array(weights)
    keep, other = alias_table(shares)
    got = keep.copy()
    np.add.at(got, other, 1 - keep)
    assert got / len(weights) == pytest.approx(shares / shares.sum(), abs=1e-9)
