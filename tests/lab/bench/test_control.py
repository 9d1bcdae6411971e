"""The modelled stage: its arithmetic, its oracle, and the bench's table, goals and picture on small settings."""

import json

import numpy as np
import pytest
from rich.console import Console

from headgate.control import Move, Plan
from headgate.policies import FluxLoad, Lqr, Mpc, Policy, Static
from headgate_lab import bench
from headgate_lab.bench import control
from headgate_lab.bench.control_known import foreseeing, knowing
from headgate_lab.bench.control_loads import KINDS, SIZES, drawn
from headgate_lab.bench.control_stage import BYTES_PER_MS, CHANNEL_BYTES, Setting, drive, oracle

SMALL = Setting("poisson", 3, 2, 3.0, 40, 16)


class OneMove(Policy):
    """Moves one bin of channel 0 to channel 1, once."""

    name = "one-move"

    def propose(self, view, table):
        if table.version:
            return None
        return Plan(policy=self.name, from_version=0, moves=(Move(0, 0, 1),), gain=1.0)


def test_a_batch_takes_as_long_as_its_slowest_channel_with_what_it_moves() -> None:
    setting = Setting("step", 2, 1, 1.0, 3, 10)
    assert setting.slow(0).tolist() == [[1, 1], [2, 1], [2, 1]]
    still = drive(setting, Static(), 0)
    assert still.seconds == pytest.approx(0.1 + 0.2 + 0.2)
    moved = drive(setting, OneMove(), 0)
    bin_s = CHANNEL_BYTES / 10 / BYTES_PER_MS / 1e3
    assert moved.seconds == pytest.approx(0.1 + max(0.18, 0.11) + bin_s + 0.18)
    assert (moved.moved_mb, moved.adaptations) == (CHANNEL_BYTES / 10 / 1e6, 1)


@pytest.mark.parametrize("policy", [Static(), FluxLoad(), Lqr(), Mpc(), Mpc(forecast=False)])
@pytest.mark.parametrize("kind", ["poisson", "step"])
def test_nobody_beats_the_oracle(policy, kind) -> None:
    setting = Setting(kind, 3, 2, 3.0, 40, 16)
    assert drive(setting, policy, 0).seconds >= oracle(setting, 0).seconds * 0.999


def test_the_oracle_moves_before_the_load_comes_only_as_far_as_it_pays() -> None:
    setting = Setting("step", 3, 1, 3.0, 60, 16)
    known = oracle(setting, 0)
    best = (20 * 0.3 + 40 * 0.3 / 0.75) / 3  # equal shares, then those that the speeds call for
    assert best <= known.seconds < 1.03 * best


def test_the_same_seed_gives_the_same_run() -> None:
    first, again = (drive(SMALL, Mpc(), 1) for _ in range(2))
    assert (first.seconds, first.moved_mb) == (again.seconds, again.moved_mb)


@pytest.fixture
def small(monkeypatch) -> None:
    few = [
        (Setting(kind, n, 1, 3.0, 25, 8), 1)
        for kind in ("poisson", "cyclic", "step", "drift")
        for n in (3, 6)
    ]
    monkeypatch.setattr(control, "settings", lambda *, quick: few)
    monkeypatch.setattr(control, "DRAWN_QUICK", 1)


def test_the_report_has_every_policy_every_goal_and_a_picture(small, tmp_path) -> None:
    told = []
    report = bench.run("control", quick=True, progress=lambda what, part: told.append(part))
    assert told == sorted(told)
    data = json.loads(json.dumps(report.as_json(), allow_nan=False))
    names = {one["name"] for one in data["results"]}
    assert "cyclic 3/s, 1 of 3: mpc forecast, moved" in names
    assert len(data["results"]) == 9 * (1 + 5 * 4 + 3 + 1) + 4  # four random loads have a row more
    asked = [">= 0.1", "<= 1.02x", "<= 1.15x"]
    assert [goal["goal"] for goal in data["goals"]] == [*asked, *asked, "<= 0", "<= 0", "<= 2 ms"]
    report.save_picture(tmp_path / "pictures")
    assert (tmp_path / "pictures" / "bench-control.png").stat().st_size > 10_000
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(report.as_table())
    console.file.close()
    assert "drift 3/s, 1 of 6" in console.export_text()


def test_the_forecast_alone(small) -> None:
    data = bench.run("control", quick=True, only=("forecast",)).as_json()
    assert {one["rival"] for one in data["results"]} == {"oracle", None}
    assert [goal["goal"] for goal in data["goals"]] == ["<= 1.15x", "<= 0", "<= 2 ms"]
    assert sum(one["name"].endswith("mpc forecast, response") for one in data["results"]) == 8


def test_the_whole_table_has_all_sizes_loads_and_rates() -> None:
    wanted = control.settings(quick=False)
    assert {s.channels for s, _ in wanted} == {3, 6, 32, 128}
    assert {s.rate for s, _ in wanted if s.kind == "cyclic" and s.channels == 3} == {1, 2, 3, 4, 5, 6}
    assert len({s.name for s, _ in wanted}) == len(wanted) == 53
    assert all(np.isfinite(s.slow(0)).all() for s, _ in wanted)


def test_a_draw_is_the_same_each_time_and_another_one_is_not() -> None:
    loads = [drawn(number) for number in range(80)]
    assert {one.kind for one in loads} == {*KINDS, "mixed"}
    assert {one.channels for one in loads} == {channels for channels, _, _ in SIZES}
    for one in loads:
        slow = one.slow(0)
        assert slow.shape == (one.batches, one.channels)
        assert np.isfinite(slow).all()
        assert slow.min() >= 1
        assert (slow[:, one.perturbed :] == 1).all()
        assert (slow == drawn(one.draw).slow(0)).all()
    assert (drawn(6).slow(0) != drawn(6).slow(1)).any()


def test_knowing_the_rates_helps_and_is_not_knowing_the_future() -> None:
    setting = Setting("cyclic", 3, 2, 3.0, 60, 32)
    seconds = drive(setting, knowing(setting, 0), 0).seconds
    assert oracle(setting, 0).seconds < seconds < drive(setting, Mpc(forecast=False), 0).seconds


def test_knowing_the_next_batches_helps_more() -> None:
    setting = Setting("poisson", 3, 2, 3.0, 60, 32)
    seconds = drive(setting, foreseeing(setting, 0), 0).seconds
    assert oracle(setting, 0).seconds < seconds < drive(setting, knowing(setting, 0), 0).seconds
