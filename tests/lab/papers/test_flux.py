"""The reproduction of Flux: exact rows, and a small lab whose table has every row of the digest."""

import json

import numpy as np
import pytest

from headgate.simulator.cluster import Cluster
from headgate_lab.papers import claims as table
from headgate_lab.papers.flux import FIGURES, PAPER, reproduce
from headgate_lab.papers.flux.lab import Lab
from headgate_lab.papers.flux.rows_load import crossing, given_away, settles_at
from headgate_lab.papers.flux.rows_memory import damping
from headgate_lab.papers.flux.units import figure_6

ROWS = {*(f"FX-{n}" for n in range(1, 37)), "FX-1d", "FLUX-F1", *(f"FX-{n} capped" for n in range(28, 33))}


def test_fx_36_is_exact() -> None:
    assert figure_6()[0].ok


def small(monkeypatch) -> None:
    """Four machines and short runs: every row is there, whatever it says."""
    make = Lab.run

    def run(self, name, cluster, policy, seconds, *, delta_min_s=0.01, **rest):
        most = 19 if "memory" in name or "pressed" in name else 8
        return make(
            self, name, cluster, policy, min(seconds, most), delta_min_s=max(delta_min_s, 0.05), **rest
        )

    def memory_cluster(self):
        return Cluster(nodes=4, bins_per_node=32, bin_tuples=75_000, memory_mb=256, drain_at_once=True)

    monkeypatch.setattr(Lab, "run", run)
    monkeypatch.setattr(Lab, "memory_cluster", memory_cluster)
    monkeypatch.setattr(Lab, "nodes", property(lambda self: 4))
    monkeypatch.setattr(Lab, "memory_nodes", property(lambda self: 4))
    monkeypatch.setattr(Lab, "perturbed", property(lambda self: (0, 1, 2, 4)))
    monkeypatch.setattr(Lab, "squeezed", property(lambda self: (0, 1, 2)))


@pytest.mark.full
def test_a_small_lab_gives_every_row_of_the_digest_and_its_pictures(monkeypatch, tmp_path) -> None:
    small(monkeypatch)
    told = []
    rows = reproduce(quick=True, out=tmp_path, progress=lambda what, part: told.append((what, part)))
    assert {row.id for row in rows} == ROWS
    assert len(rows) == len(ROWS)
    assert [part for _, part in told] == sorted(part for _, part in told)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"flux-fig{n}.png" for n in (3, 7, 8, 9, 11, 12, 13, 14, 15)
    }
    data = json.loads(json.dumps(table.as_json(PAPER, rows), allow_nan=False))
    assert data["paper"] == "flux"
    verdicts = {row.id: row.ok for row in rows}
    assert verdicts["FX-34"] is True
    assert verdicts["FX-35"] is True
    assert {name for name, ok in verdicts.items() if ok is None} == {"FX-1d", "FX-3", "FX-9"}


def test_one_figure_alone_and_a_wrong_name() -> None:
    assert [claim.id for claim in reproduce("fig6")] == ["FX-36"]
    with pytest.raises(ValueError, match="figure is one of"):
        reproduce("fig2")
    assert "fig15" in FIGURES


def test_one_loaded_machine_is_relieved_and_the_measures_see_it(monkeypatch) -> None:
    monkeypatch.setattr(Lab, "nodes", property(lambda self: 4))
    lab = Lab(quick=True)
    done = lab.loaded(1, "load", 12)
    node = lab.some(1, 4)[0]
    assert 20 <= given_away(done, node, done.seconds) <= 40
    assert 0 < settles_at(done) < 12
    assert damping(done) <= 1
    assert done.mean(8) > 1.7 * lab.loaded(1, "static", 12).mean(8)


def test_where_a_curve_stays_above_a_level() -> None:
    assert crossing([10, 20, 30], [1.0, 3.0, 4.0], 2.0) == 20
    assert crossing([10, 20, 30], [3.0, 1.0, 4.0], 2.0) == 30
    assert crossing([10, 20], [1.0, 1.0], 2.0) == np.inf
