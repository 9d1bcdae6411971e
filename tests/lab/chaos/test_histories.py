"""The simulator of faults: thousands of histories hold, each is fixed by its seed, and every fault strikes."""

import json
import sys
import time
from subprocess import DEVNULL, PIPE, Popen

import psutil
import pytest
from typer.testing import CliRunner

from headgate.cli.commands import app
from headgate_lab.chaos.command import told
from headgate_lab.chaos.faults import KINDS, Fault
from headgate_lab.chaos.history import History, Settings, Step, history
from headgate_lab.chaos.play import play
from headgate_lab.chaos.report import run, run_all
from headgate_lab.chaos.story import story
from headgate_lab.chaos.trace import page

HISTORIES = 1200


def test_every_history_holds_and_every_fault_strikes() -> None:
    report = run_all(HISTORIES, 0, 2, lambda report: None)
    assert report.failures == []
    assert (report.histories, report.failed) == (HISTORIES, 0)
    assert {kind: report.struck[kind] for kind in KINDS if not report.struck[kind]} == {}


@pytest.mark.parametrize("seed", [3, 400, 777, 1351, 1969])
def test_a_seed_fixes_everything_that_happens(seed) -> None:
    first, second = play(history(seed), tell=True), play(history(seed), tell=True)
    assert first.told == second.told != []
    assert first.problems == second.problems == []


def test_a_history_does_not_depend_on_those_before_it() -> None:
    alone = told(130)
    run(3, 127)
    assert told(130).told == alone.told


@pytest.mark.parametrize("way", ["stage", "direct"])
def test_a_driver_that_sweeps_may_wake_up_at_any_operation_of_its_successor(way) -> None:
    """A driver sleeps before it removes something, and the next one publishes the same batch again."""
    settings = Settings(profile="disk", way=way, bins=2, channels=1, executors=1, sink="parquet")
    for at in range(2, 5):
        for later in range(1, 60):
            sleep = Fault("sleep", at, place="remove", later=later)
            steps = (Step((1,), restart="new", faults=(sleep,)), Step(restart="new"))
            outcome = play(History(0, settings, (Step((1,)),), steps))
            assert outcome.problems == [], (at, later)


def test_a_story_is_told_and_drawn() -> None:
    kill = Fault("kill", at=3)
    outcome = play(
        History(45, Settings(), past=(Step((0, 1)),), steps=(Step((0, 2), faults=(kill,)),)), tell=True
    )
    assert outcome.problems == []
    text = "\n".join(story(outcome))
    assert text.startswith("History 45: sum over Spark's batches on an object store, ")
    assert "<== kill" in text
    assert "All laws held" in text
    drawn = page(outcome)
    assert drawn.startswith("<!doctype html>")
    for part in ("driver 2", "checkpoint/log"):
        assert part in drawn
    for part in ("<script", "http"):
        assert part not in drawn


def test_the_command_prints_what_it_found() -> None:
    result = CliRunner().invoke(app, ["chaos", "--histories", "3", "--first", "64", "--jobs", "1", "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert {name: found[name] for name in ("histories", "failed")} == {"histories": 3, "failed": 0}
    assert found["seconds"] > 0


def test_one_history_can_be_seen_as_a_page(tmp_path) -> None:
    file = tmp_path / "history.html"
    result = CliRunner().invoke(app, ["chaos", "--seed", "45", "--trace", "--to", str(file)])
    assert result.exit_code == 0
    assert "Again: headgate chaos --seed 45" in result.stdout
    assert "<svg" in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--histories", "0"], "--histories 0: at least 1 is possible"),
        (["--trace"], "--trace is for --seed"),
        (["--seed", "3", "--to", "x.html"], "--to is for --trace"),
        (["--seed", "3", "--histories", "5"], "--histories is for many histories"),
        (["--limit", "5"], "--limit is for --plant"),
        (["--plant", "--seed", "5"], "--seed is for histories of the product as it is"),
        (["--seed", "3", "--trace", "--to", "/no/such/folder/x.html"], "name another file with --to"),
    ],
)
def test_arguments_that_make_no_sense_are_named(arguments, message) -> None:
    result = CliRunner().invoke(app, ["chaos", *arguments])
    assert result.exit_code == 1
    assert message in result.stderr


@pytest.mark.full
def test_the_first_history_that_fails_is_told(monkeypatch) -> None:
    monkeypatch.setattr("headgate.storage.bin_cache.tag_of", lambda name: (0, 0))
    result = CliRunner().invoke(app, ["chaos", "--histories", "300", "--jobs", "1"])
    assert result.exit_code == 1
    assert "made as small as possible" in result.stdout
    assert "WRONG: " in result.stdout


@pytest.mark.full
@pytest.mark.parametrize("plant", [False, True])
def test_nothing_is_left_of_a_run_that_is_killed(plant) -> None:
    arguments = ["--plant"] if plant else ["--histories", "1000000"]
    run = Popen([sys.executable, "-m", "headgate", "chaos", *arguments], stderr=DEVNULL, stdout=DEVNULL)
    parent = psutil.Process(run.pid)
    wait_until(lambda: sum(child.cpu_times().user > 0.5 for child in parent.children(recursive=True)) >= 2)
    children = parent.children(recursive=True)
    run.kill()
    run.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive


@pytest.mark.full
def test_a_worker_that_dies_is_named() -> None:
    run = Popen(
        [sys.executable, "-m", "headgate", "chaos", "--histories", "1000000"],
        stderr=PIPE,
        stdout=DEVNULL,
        text=True,
    )
    parent = psutil.Process(run.pid)
    wait_until(lambda: any("spawn_main" in " ".join(child.cmdline()) for child in parent.children()))
    next(child for child in parent.children() if "spawn_main" in " ".join(child.cmdline())).kill()
    _, said = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "a process that played histories has died" in said
    assert "Traceback" not in said


def wait_until(holds) -> None:
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to that")
