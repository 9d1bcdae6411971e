"""Ideas that were tried: each runs beside the policy as it is, and the page has what the run wrote."""

import json

from headgate.policies import Mpc
from headgate_lab import bench
from headgate_lab.bench import control, control_page, control_tried
from headgate_lab.bench.control_loads import Drawn
from headgate_lab.bench.control_stage import Setting, drive


def test_every_idea_stands_beside_the_policy_as_it_is() -> None:
    report = bench.run("control", quick=True, only=("tried",))
    data = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert len(data["results"]) == len(control_tried.TRIED)
    assert {one["rival"] for one in data["results"]} == {control_tried.AS_IT_IS}
    page = control_page.tried(data)
    assert all(f"| {idea} |" in page for idea in control_tried.TRIED)
    assert "| as it is |" in page
    assert "1.000 | 1.000 | 1.000 | 0 of 2 |" in page


def test_the_variant_that_changes_nothing_is_the_policy() -> None:
    setting = Setting("poisson", 3, 2, 3.0, 40, 16)
    runs = [drive(setting, policy, 5) for policy in (Mpc(), control_tried.Other())]
    assert runs[0].seconds == runs[1].seconds


def test_ideas_are_tried_on_loads_that_are_not_judged() -> None:
    judged = {
        (setting.name, seed) for setting, seeds in control.settings(quick=False) for seed in range(seeds)
    }
    numbers = {
        setting.draw for setting, _ in control.draws(quick=False, repeat=1) if isinstance(setting, Drawn)
    }
    for setting, seed in control_tried.loads(quick=False):
        assert (setting.name, seed) not in judged
        assert not isinstance(setting, Drawn) or setting.draw not in numbers


def test_drawn_loads_begin_with_the_seed() -> None:
    wanted = control.draws(quick=True, repeat=1, first=500)
    assert [setting.draw for setting, _ in wanted if isinstance(setting, Drawn)] == [500, 501, 502, 503]
