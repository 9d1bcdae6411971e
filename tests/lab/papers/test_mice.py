"""The reproduction: a run far smaller than --quick whose table has every row of the digest, and its parts."""

import json

import numpy as np
import pytest

from headgate.hosting.online.rules import DEFAULT_RULE, LeastCost
from headgate_lab.papers import claims as table
from headgate_lab.papers.claims import of_the_paper
from headgate_lab.papers.mice import FIGURES, PAPER, reproduce
from headgate_lab.papers.mice.rows import beaten, slope
from headgate_lab.papers.mice.sweeps import Lab
from headgate_lab.papers.mice.trial import live, part
from headgate_lab.papers.mice.world import churn, degrees, graph, with_rates, zipf

PAPER_ROWS = {f"MX-{n}" for n in range(1, 27)}
OURS = {f"HG-{n}" for n in range(1, 11)}
EXACT = {f"MX-{n}" for n in range(19, 26)}
"""What small instances settle, whatever the size of the lab."""


def constant(value):
    return property(lambda self: value)


def test_a_tiny_lab_gives_every_row_and_every_picture(monkeypatch, tmp_path) -> None:
    small = {
        "queries": 600, "runs": 1, "servers": 6, "steps": 600, "betas": (1.5, 2.0), "ds": (1, 2, 3), "ks": (3, 6), "ns": (300, 600),
        "lives": (6, 60), "gammas": (60,), "churn_betas": (1.5, 2.0), "churn_ds": (1, 2), "churn_ks": (3, 6), "exponents": (2.0,),
    }  # fmt: skip
    for name, value in small.items():
        monkeypatch.setattr(Lab, name, constant(value))
    monkeypatch.setattr("headgate_lab.papers.mice.rows.CUTOFFS", (20, None))
    make = Lab.graph
    monkeypatch.setattr(Lab, "graph", lambda self, n, beta, d, seed: make(self, min(n, 600), beta, d, seed))
    told: list[tuple[str, float]] = []
    rows = reproduce(quick=True, out=tmp_path, progress=lambda what, done: told.append((what, done)))
    assert {row.id for row in rows if of_the_paper(row)} == PAPER_ROWS
    ids = [row.id for row in rows]
    assert len(set(ids)) == len(ids)
    assert {"MX-3 cutoff n", "MX-18 swapped", "MX-18 word by word", "MX-11v", "MICE-E3"} | OURS <= set(ids)
    assert not [row for row in rows if row.id in EXACT and not row.ok]
    parts = [done for _, done in told]
    assert parts == sorted(parts)
    assert (told[0], told[-1]) == (("units", 0.0), ("done", 1.0))
    assert {path.name for path in tmp_path.iterdir()} == {f"mice-fig{n}.png" for n in range(3, 8)}
    assert json.loads(json.dumps(table.as_json(PAPER, rows)))["paper"] == "mice"


def test_one_figure_alone_and_a_wrong_name() -> None:
    with pytest.raises(ValueError, match="figure is one of"):
        reproduce("fig2")
    assert FIGURES == ("units", "fig3", "fig4", "fig5", "fig6", "fig7", "ours")


def test_the_graph_has_the_degrees_that_were_drawn() -> None:
    load = graph(3000, beta=2.0, d=3, seed=1)
    wanted = degrees(np.random.default_rng(1), 9000, 2.0, 3000)
    assert wanted.sum() == 9000
    assert load.sources == wanted.shape[0]
    assert np.all(load.reader_cost <= wanted)
    assert load.reader_cost.sum() >= 0.95 * 9000, "only repeated sources of a query are lost"


def test_zipf_follows_its_law() -> None:
    found = np.bincount(zipf(np.random.default_rng(2), 2.0, 50, 100_000), minlength=51)[1:] / 100_000
    law = np.arange(1, 51) ** -2.0
    assert found[:4] == pytest.approx(law[:4] / law.sum(), rel=0.05)


def test_rates_follow_popularity_or_go_against_it() -> None:
    load = graph(2000, seed=3)
    along, against = (with_rates(load, 2.0, how, seed=0) for how in ("positive", "negative"))
    order = np.argsort(load.reader_cost, kind="stable")
    assert np.all(np.diff(along.rates[order]) >= 0)
    assert np.all(np.diff(against.rates[order]) <= 0)
    assert sorted(along.rates) == sorted(against.rates)


@pytest.mark.parametrize("lifetimes", ["exponential", "pareto"])
def test_a_life_is_in_order_and_of_the_size_that_little_says(lifetimes) -> None:
    life = churn(20_000, 500, queries=2000, lifetimes=lifetimes, seed=1)
    assert np.all(np.diff(life.step) >= 0)
    there = np.cumsum(np.where(life.act == 1, 1, -1))
    assert there.min() >= 0
    assert there[there.shape[0] // 2 :].mean() == pytest.approx(500, rel=0.15)
    first: dict[int, int] = {}
    for act, query in zip(life.act.tolist(), life.query.tolist(), strict=True):
        assert act == 1 or query in first, "nobody leaves before coming"
        first.setdefault(query, act)


def test_servers_come_and_go_and_the_books_survive() -> None:
    life = churn(3000, 300, queries=500, gamma=20, seed=2)
    out = live(life, 10, DEFAULT_RULE)
    assert out.live is not None
    assert out.servers != 10
    assert out.final >= 1
    assert out.fallbacks == 0
    again = live(life, 10, DEFAULT_RULE)
    assert (again.replication, again.final) == (out.replication, out.final)
    least = live(life, 10, LeastCost()).live
    assert least is not None
    assert least.queries == out.live.queries


def test_part_of_a_workload() -> None:
    load = graph(100, seed=1)
    some = part(load, np.array([3, 50]))
    assert some.queries == 2
    assert some.source.tolist() == [
        *load.source[load.start[3] : load.start[4]],
        *load.source[load.start[50] : load.start[51]],
    ]


def test_small_helpers() -> None:
    assert slope([1, 10, 100], [2, 20, 200]) == pytest.approx(1.0)
    assert beaten({"a": {"x": 2.0, "y": 1.0}, "b": {"x": 1.0, "y": 1.0}}, "x") == ["a: y 1 < 2"]
