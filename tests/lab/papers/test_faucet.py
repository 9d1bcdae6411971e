"""The reproduction of Faucet: the model against a slow answer, its laws, and a small lab with every row of the digest."""

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.flow import Gate
from headgate_lab.graphs import Edges, clean, count_cliques, orient, rmat
from headgate_lab.papers import claims as table
from headgate_lab.papers.faucet import FIGURES, PAPER, reproduce
from headgate_lab.papers.faucet.join import Join, Proposals
from headgate_lab.papers.faucet.lab import Lab
from headgate_lab.papers.faucet.model import Machines, Model
from headgate_lab.papers.faucet.rows import slope, threshold
from headgate_lab.papers.faucet.units import Loop, invariants

ROWS = {f"FC-{n}" for n in range(1, 15)} | {"FC-2 no pauses"}


@pytest.fixture(scope="module")
def graph():
    return orient(clean(rmat(7, 900, np.random.default_rng(2).random)).edges)


def test_the_invariants_are_exact() -> None:
    rows = invariants()
    assert [row.id for row in rows] == [f"FC-{n}" for n in range(10, 15)]
    assert all(row.ok for row in rows)


def constant(value):
    return property(lambda self: value)


def test_a_small_lab_gives_every_row_of_the_digest_and_its_pictures(monkeypatch, tmp_path) -> None:
    for name, value in {
        "scale": 8,
        "clique_scale": 7,
        "workers": (2,),
        "shares": (50, 1000),
        "few_shares": (50,),
        "widths": (1, 2, 4),
        "parts": (0.5, 1.0),
    }.items():
        monkeypatch.setattr(Lab, name, constant(value))
    told = []
    rows = reproduce(quick=True, out=tmp_path, progress=lambda what, part: told.append(part))
    assert {row.id for row in rows} == ROWS
    assert len(rows) == len(ROWS)
    assert told == sorted(told)
    assert {path.name for path in tmp_path.iterdir()} == {"faucet-fig4.png", "faucet-fig5.png"}
    assert json.loads(json.dumps(table.as_json(PAPER, rows), allow_nan=False))["paper"] == "faucet"
    assert all("in the model" in row.note for row in rows if int(row.id.split()[0][3:]) < 10)


def test_one_figure_alone_and_a_wrong_name() -> None:
    assert next(claim.id for claim in reproduce("invariants")) == "FC-10"
    with pytest.raises(ValueError, match="figure is one of"):
        reproduce("fig3")
    assert FIGURES == ("invariants", "fig4", "fig5")


@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("gate", [None, Gate(1, 1), Gate(1, 64), Gate(3, 20)], ids=str)
def test_every_gate_gives_the_cliques_that_an_independent_count_gives(graph, gate, size) -> None:
    small = (
        graph
        if gate != Gate(1, 1)
        else orient(Edges(np.array([0, 0, 0, 1, 1, 2]), np.array([1, 2, 3, 2, 3, 3]), 4))
    )
    got = Model(Join(small, size), Machines(workers=3), gate).run()
    assert got.cliques == count_cliques(small, size) > 0
    if gate is not None:
        assert got.most_batches <= gate.in_flight
        assert got.most_rows <= gate.rows


def test_a_limited_input_finds_the_cliques_that_begin_there(graph) -> None:
    first = np.array([3, 40, 77])
    successors = {
        v: set(graph.targets[graph.offsets[v] : graph.offsets[v + 1]].tolist()) for v in range(graph.vertices)
    }
    slow = sum(c in successors[b] for a in first.tolist() for b, c in combinations(sorted(successors[a]), 2))
    assert Model(Join(graph, 3, first), Machines(workers=2), Gate(2, 16)).run().cliques == slow


def test_the_same_run_twice_is_the_same_and_work_takes_its_time(graph) -> None:
    one, same = (Model(Join(graph, 3), Machines(workers=2), Gate(2, 100), seed=5).run() for _ in range(2))
    assert one == same
    alone = Machines(workers=1, message_us=0, network_us=0, progress_us=0, pause_every_us=0)
    edges, proposals = len(graph.targets), one.tuples - len(graph.targets)
    work_us = alone.propose_us * one.tuples + alone.count_us * edges + alone.intersect_us * proposals
    for gate in (None, Gate(1, 50)):
        got = Model(Join(graph, 3), alone, gate).run()
        assert got.seconds * 1e6 == pytest.approx(work_us)
        assert got.busy == pytest.approx(1.0)


def test_more_in_flight_is_faster_and_needs_more_memory(graph) -> None:
    runs = [Model(Join(graph, 3), Machines(workers=4), Gate(n, 200)).run() for n in (1, 2, 8)]
    free = Model(Join(graph, 3), Machines(workers=4), None).run()
    assert runs[0].seconds > runs[1].seconds > runs[2].seconds
    assert runs[0].peak_tuples < runs[1].peak_tuples < runs[2].peak_tuples <= free.peak_tuples


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 9), min_size=1, max_size=6)), max_size=6),
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
)
@settings(max_examples=50)
def test_proposals_are_each_drawn_once_and_never_more_than_asked(arrivals, rooms) -> None:
    source, waiting = Proposals(3), dict[int, int]()
    got: list[tuple[int, int, int]] = []
    expected: list[tuple[int, int, int]] = []
    ids = iter(range(1000))

    def take(room) -> None:
        drawn, rows = source.take(room)
        assert rows == sum(len(one.nth) for one in drawn) <= room
        assert source.idle == (rows == 0)
        for one in drawn:
            for (name,), nth in zip(one.prefixes.tolist(), one.nth.tolist(), strict=True):
                got.append((one.worker, name, nth))
                waiting[name] -= 1
        assert source.waiting == sum(left > 0 for left in waiting.values())

    for number, (worker, counts) in enumerate(arrivals):
        names = [next(ids) for _ in counts]
        source.add(worker, np.array(names)[:, None], np.zeros(len(names), np.int64), np.array(counts))
        waiting |= dict(zip(names, counts, strict=True))
        expected += [
            (worker, name, nth) for name, count in zip(names, counts, strict=True) for nth in range(count)
        ]
        take(rooms[number % len(rooms)])
    while not source.idle:
        take(7)
    assert sorted(got) == sorted(expected)


def test_a_leak_in_the_gate_would_be_seen() -> None:
    """The loop measures for itself: given wider gates than it is told of, it finds more inside."""
    wide = Loop(Gate(5, 40)).run()
    assert wide.most_batches == 5
    assert wide.most_rows > Gate(2, 40).rows


def test_where_the_plateau_begins() -> None:
    assert threshold([10, 100, 1000], [1.0, 1.05, 1.0]) == 10
    assert threshold([10, 100, 1000], [9.0, 3.0, 1.0]) > 500
    assert threshold([10, 100, 1000], [1.0, 1.0, 2.0]) == 1000
    assert slope([1, 2, 4], [3, 6, 12]) == pytest.approx(1)
