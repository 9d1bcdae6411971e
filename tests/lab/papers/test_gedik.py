"""The reproduction: exact rows as unit tests, and a quick run whose table has every row of the digest."""

import json

import numpy as np
import pytest
from rich.console import Console

from headgate.routing.balance import migration
from headgate.routing.builders import Objective
from headgate.routing.key_hash import hash_ints
from headgate.routing.ring import HashRing
from headgate_lab.papers import claims as table
from headgate_lab.papers.claims import Claim, of_the_paper
from headgate_lab.papers.gedik import FIGURES, PAPER, reproduce
from headgate_lab.papers.gedik.rows_balance import crossing
from headgate_lab.papers.gedik.rows_cost import fit
from headgate_lab.papers.gedik.sweeps import Lab
from headgate_lab.papers.gedik.toy import toy_claims
from headgate_lab.papers.gedik.tree_ring import TreeRing
from headgate_lab.papers.gedik.trial import grow
from headgate_lab.papers.gedik.units import unit_claims
from headgate_lab.papers.gedik.world import World

ROWS = {f"PX-{n}" for n in (*range(1, 18), *range(20, 59))}
EXACT = {claim.id: claim for claim in (*unit_claims(), *toy_claims())}


def test_the_tree_ring_of_the_paper_answers_as_ours_does() -> None:
    ring = HashRing.uniform(4, replicas=50)
    tree = TreeRing(ring)
    hashes = hash_ints(np.arange(2000))
    assert tree.lookup(hashes.view(np.uint64).tolist()) == ring.lookup_hashes(hashes).tolist()
    assert 0 < tree.comparisons < 200 * 8
    assert len(tree.buckets) == 100


@pytest.mark.parametrize("number", [n for n in range(1, 18) if n != 10])
def test_exact_row(number: int) -> None:
    claim = EXACT[f"PX-{number}"]
    assert claim.ok, claim


def test_readj_falls_at_every_pass_of_every_build() -> None:
    assert EXACT["PX-10"].note.startswith("rho falls in all passes of")


@pytest.mark.full
def test_quick_lab_gives_every_row_of_the_digest_and_its_pictures(monkeypatch, tmp_path) -> None:
    """Smaller than --quick, to be a test: fewer keys, shorter axes, and yet every row is there."""
    make = Lab.world
    monkeypatch.setattr(
        Lab, "world", lambda self, domain=10**6, skew=1.0: make(self, min(domain, 20_000), skew)
    )
    draw_rows = World.sample
    monkeypatch.setattr(
        World, "sample", lambda self, rows, seed: draw_rows(self, min(rows, 50_000), seed=seed)
    )
    monkeypatch.setattr(Lab, "runs", property(lambda self: 1))
    monkeypatch.setattr(Lab, "skews", property(lambda self: (0.1, 0.5, 0.7, 0.8, 1.0)))
    monkeypatch.setattr(Lab, "quadratic_skews", property(lambda self: (0.25, 0.5)))
    monkeypatch.setattr(Lab, "sigmas", property(lambda self: (0.05, 0.1, 0.25, 0.5, 1.0)))
    monkeypatch.setattr(Lab, "channels", property(lambda self: (2, 8, 20, 26, 32)))
    monkeypatch.setattr(Lab, "domains", property(lambda self: (10**4, 10**5)))
    told: list[tuple[str, float]] = []
    rows = reproduce(quick=True, out=tmp_path, progress=lambda what, part: told.append((what, part)))
    assert {row.id for row in rows if of_the_paper(row)} == ROWS
    assert len({row.id for row in rows}) == len(rows)
    parts = [part for _, part in told]
    assert parts == sorted(parts)
    assert (told[0], told[-1]) == (("units", 0.0), ("done", 1.0))
    pictures = {path.name for path in tmp_path.iterdir()}
    assert pictures == {f"gedik-fig{n}.png" for n in range(3, 15)}
    data = json.loads(json.dumps(table.as_json(PAPER, rows)))
    assert data["paper"] == "gedik"
    assert set(data["claims"][0]) == {"id", "setup", "paper", "measured", "tolerance", "ok", "note"}
    assert all(row.ok is not None for row in rows if of_the_paper(row))


def test_one_figure_alone_and_a_wrong_name() -> None:
    assert [c.id for c in reproduce("fig1")] == [f"PX-{n}" for n in range(11, 18)]
    with pytest.raises(ValueError, match="figure is one of"):
        reproduce("fig2")
    assert "fig14" in FIGURES


def test_table_renders_every_kind_of_value() -> None:
    rows = [
        Claim("A", "s", 1.0, {"x": 2.0, "y": 3.0}, "±1", ok=True),
        Claim("B", "s", "text", 1234567.0, "", ok=False, note="why"),
        Claim("C", "s", "", "", "", ok=None),
    ]
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(table.as_table("paper", rows))
        text = console.export_text()
    assert "x 2, y 3" in text
    assert [row.verdict for row in rows] == ["yes", "no", "-"]


def test_metrics_of_a_trial_equal_those_of_all_keys_looked_up_one_by_one() -> None:
    """The census trick against the definition, on a small domain."""
    world, goal = World(3000, 1.0), Objective(resources="LQL")
    for algorithm in ("consistent", "uniform", "random"):
        step = grow(world, algorithm, goal, 4, seed=1)[0]
        kind = {"consistent": "ring", "uniform": "modulo", "random": "random"}[algorithm]
        keys = np.arange(3000)
        before = world.channels_of(kind, 1, 3, keys)
        after = world.channels_of(kind, 1, 4, keys)
        f = world.frequency(keys)
        loads = np.stack([np.bincount(after, weights=w, minlength=4) for w in (f, f * f, f)])
        ratio = loads.max(axis=1) / loads.min(axis=1) / 1.2
        assert step.b_each == pytest.approx(ratio)
        assert step.m == pytest.approx(migration(f, before, after) * 4)


@pytest.mark.parametrize("frequencies", ["exact", "returned", "counted"])
@pytest.mark.parametrize("algorithm", ["scan", "redist", "readj", "readj-clean"])
def test_builders_beat_the_ring_they_start_from(algorithm: str, frequencies) -> None:
    world, goal = World(10**5, 1.0), Objective(resources="LLL")
    ring = grow(world, "consistent", goal, 10, seed=0)[0]
    ours = grow(world, algorithm, goal, 10, seed=0, frequencies=frequencies)[0]
    assert ours.b < ring.b
    assert 0 < ours.m < 5


def test_sampled_streams_follow_the_distribution() -> None:
    for skew in (0.5, 1.0, 1.3):
        world = World(1000, skew)
        share = np.bincount(world.sample(200_000, seed=4), minlength=1000) / 200_000
        assert share[:5] == pytest.approx(world.frequency(np.arange(5)), rel=0.1)
        assert share.sum() == pytest.approx(1.0)


def test_world_knows_its_totals_and_thresholds() -> None:
    world = World(1000, 1.0)
    f = world.frequency(np.arange(1000))
    assert world.totals == pytest.approx([1000, 1.0, float((f * f).sum())])
    assert world.above(float(f[9])).tolist() == list(range(10))
    with pytest.raises(ValueError, match="kind"):
        world.census("other", 0, 2)


def test_small_helpers() -> None:
    assert crossing([0, 1, 2], [0.5, 0.5, 1.5]) == 1.5
    assert crossing([0, 1], [2, 3]) == 0.0
    assert crossing([0, 1], [0.1, 0.2]) == float("inf")
    assert fit([1, 2, 3], [2, 4, 6]) == pytest.approx(1.0)
