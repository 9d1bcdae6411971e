"""Whole runs: nothing lost, doubled or out of order, whatever moves; seeds, journals, and runs that cannot be."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulator.small import LEAN, SMALL, Restless

from headgate.control import journal
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.policies import FluxHybrid, FluxLoad, FluxMemory, Rebuild, Static
from headgate.simulator import run as runs
from headgate.simulator.cluster import Cluster
from headgate.simulator.run import Event, Simulation
from headgate.simulator.workload import eighty_twenty, uniform


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


def test_one_node_and_equally_loaded_nodes_are_left_alone() -> None:
    one = Cluster(**{**SMALL.__dict__, "nodes": 1})
    assert Simulation(one, FluxHybrid(), uniform(4), seconds=1, seed=1).run().moves == 0
    events = [Event(0.0, (0, 1, 2), speed=0.43)]
    assert Simulation(SMALL, FluxLoad.paper(), uniform(12), seconds=1, seed=1, events=events).run().moves == 0
