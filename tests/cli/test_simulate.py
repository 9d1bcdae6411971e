"""`headgate simulate`: the list, a table, a picture and JSON; every scenario runs."""

import json

import pytest

from headgate.simulator.scenarios import SCENARIOS


def test_simulate_without_a_scenario_lists_them(call) -> None:
    assert "going-round" in json.loads(call("simulate", "--json").stdout)["scenarios"]
    assert "80/20 keys" in call("simulate").stdout


def test_simulate_as_a_table_a_picture_and_json(call, tmp_path) -> None:
    words = (
        "simulate",
        "slow",
        "--nodes",
        "3",
        "--seconds",
        "2",
        "--policy",
        "static",
        "--policy",
        "flux-load",
    )
    picture = tmp_path / "curves.png"
    told = call(*words, "--plot", str(picture))
    assert told.exit_code == 0, told.output
    assert "flux-load" in told.stdout
    assert picture.read_bytes()[:4] == b"\x89PNG"
    data = json.loads(call(*words, "--json").stdout)
    assert [one["policy"] for one in data["results"]] == ["static", "flux-load"]
    assert all(one["all_rows_accounted_for"] for one in data["results"])
    assert len(data["results"][0]["throughput"]) == 2
    assert call(*words, "--json").stdout == call(*words, "--json").stdout


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_runs_under_the_policy_of_the_paper(call, scenario) -> None:
    told = call(
        "simulate", scenario, "--nodes", "3", "--seconds", "2", "--policy", "flux-hybrid", "--paper", "--json"
    )
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["results"][0]["rows_per_s"] > 0
