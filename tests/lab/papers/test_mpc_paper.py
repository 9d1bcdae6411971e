"""The reproduction of model predictive control: exact rows, the modelled query, and a small lab with every row of the digest."""

import json

import numpy as np
import pytest

from headgate.errors import ConfigError
from headgate_lab.papers import claims as table
from headgate_lab.papers.mpc import FIGURES, PAPER, reproduce
from headgate_lab.papers.mpc.controllers import LqrOfValues, MpcAsPrinted, MpcInSeconds
from headgate_lab.papers.mpc.lab import Lab
from headgate_lab.papers.mpc.load import jobs
from headgate_lab.papers.mpc.query import Query, run
from headgate_lab.papers.mpc.units import controller

ROWS = {f"CX-{n}" for n in range(1, 16)}


def test_the_rows_about_the_controller_are_exact() -> None:
    rows = controller(None)
    assert [row.id for row in rows] == [f"CX-{n}" for n in range(9, 16)]
    assert all(row.ok for row in rows)


def test_a_small_lab_gives_every_row_of_the_digest_and_its_pictures(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(Lab, "seeds", property(lambda self: 1))
    monkeypatch.setattr(Lab, "rates", property(lambda self: (1, 6)))
    monkeypatch.setattr(Lab, "perturbed", property(lambda self: (1, 6)))
    monkeypatch.setattr(
        "headgate_lab.papers.mpc.lab.run", lambda query, load, one: run(Query(tuples=8e5), load, one)
    )
    told = []
    rows = reproduce(quick=True, out=tmp_path, progress=lambda what, part: told.append(part))
    assert {row.id for row in rows if " " not in row.id} == ROWS
    assert len({row.id for row in rows}) == len(rows)
    assert {"CX-3 best of ten", "CX-4 weight 100", "CX-8 raw gate", "CX-6 in seconds"} <= {
        row.id for row in rows
    }
    assert told == sorted(told)
    assert {path.name for path in tmp_path.iterdir()} == {"mpc-fig1.png", "mpc-fig2.png"}
    data = json.loads(json.dumps(table.as_json(PAPER, rows), allow_nan=False))
    assert data["paper"] == "mpc"
    assert "MPC-E14" in next(row.note for row in rows if row.id == "CX-3")


def test_one_figure_alone_and_a_wrong_name() -> None:
    assert next(claim.id for claim in reproduce("units")) == "CX-9"
    with pytest.raises(ValueError, match="figure is one of"):
        reproduce("fig3")
    assert FIGURES == ("units", "fig1", "fig2", "settings")


def test_an_undisturbed_query_takes_as_long_as_its_tuples() -> None:
    query = Query()
    done = run(query, np.zeros((10, 3)), None)
    assert done.seconds == pytest.approx(query.tuples / (3 * query.tuples_per_s), abs=0.1)


def test_the_slowest_machine_holds_equal_shares_and_right_ones_use_all_of_them() -> None:
    query, load = Query(), np.tile([3.0, 0.0, 0.0], (10, 1))
    static = run(query, load, None)
    assert static.seconds == pytest.approx(query.tuples / 3 * 4 / query.tuples_per_s, rel=0.02)
    for one in (
        MpcAsPrinted(3),
        MpcInSeconds(3, part=0.005, move_s=query.move_s),
        LqrOfValues(3, weight=1.0),
    ):
        done = run(query, load, one)
        best = query.tuples / (2.25 * query.tuples_per_s)
        assert best <= done.seconds < 1.15 * best
        assert done.shares[-1] == pytest.approx([1 / 9, 4 / 9, 4 / 9], abs=0.02)
        assert done.moved_share >= 2 / 9 - 0.02


def test_moving_takes_time() -> None:
    load = np.tile([3.0, 0.0, 0.0], (10, 1))
    cheap, dear = (run(Query(bytes_per_s=speed), load, MpcAsPrinted(3)) for speed in (1e9, 1e7))
    assert dear.seconds > cheap.seconds + 1.0


def test_the_load_has_the_mean_that_it_should() -> None:
    rng = np.random.default_rng(3)
    for kind, mean in (("poisson", 3.0), ("cyclic", 1.5), ("step", 2.0), ("drift", 3.0)):
        got = jobs(kind, 3.0, machines=4, perturbed=3, steps=3000, rng=rng)
        assert got[:, 3].max() == 0
        assert got[:, :3].mean() == pytest.approx(mean, rel=0.05)
    with pytest.raises(ConfigError, match="none of poisson"):
        jobs("sine", 1.0, machines=1, perturbed=1, steps=10, rng=rng)
