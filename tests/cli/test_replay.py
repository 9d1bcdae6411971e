"""`headgate replay`: a recorded run beside another policy."""

import json

import pytest


def test_replay_sets_the_recorded_run_beside_another_policy(call, checkpoint) -> None:
    told = call("replay", str(checkpoint), "--policy", "static")
    assert told.exit_code == 0
    assert "recorded with flux-load, replayed with static" in told.stdout
    assert "predicted" in told.stdout
    data = json.loads(call("replay", str(checkpoint), "--policy", "static", "--json").stdout)
    first, later = data["batches"][0], data["batches"][-1]
    assert first["recorded"]["imbalance"] == pytest.approx(first["replayed"]["imbalance"])
    assert later["recorded"]["imbalance"] < later["replayed"]["imbalance"]
    assert data["summary"]["replayed"]["moves"] == 0


def test_replay_with_the_recorded_policy_predicts_what_was_measured(call, checkpoint) -> None:
    data = json.loads(call("replay", str(checkpoint), "--policy", "flux-load", "--json").stdout)
    for batch in data["batches"]:
        assert batch["replayed"] == pytest.approx(batch["recorded"])


def test_replay_reads_a_journal_of_the_simulator(call, tmp_path) -> None:
    path = tmp_path / "run.jsonl"
    told = call(
        "simulate", "slow", "--nodes", "3", "--seconds", "3", "--policy", "flux-load", "--journal", str(path)
    )
    assert told.exit_code == 0, told.output
    data = json.loads(call("replay", str(path), "--policy", "rebuild", "--json").stdout)
    assert len(data["batches"]) == len(path.read_text().splitlines())


def test_replay_of_a_bad_file_and_an_unknown_policy(call, checkpoint, tmp_path) -> None:
    (tmp_path / "letters.txt").write_text("dear all\n")
    told = call("replay", str(tmp_path / "letters.txt"), "--policy", "static")
    assert (told.exit_code, "line 1: not a journal line" in told.stderr) == (1, True)
    (tmp_path / "empty").write_text("")
    assert "is empty" in call("replay", str(tmp_path / "empty"), "--policy", "static").stderr
    assert "did you mean 'static'" in call("replay", str(checkpoint), "--policy", "statik").stderr
