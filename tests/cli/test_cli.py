"""The command line: what it lists, what it refuses, and that stdout holds only JSON when asked for it."""

import json
import pkgutil

import pytest

import headgate.cli

COMMANDS = ("demo", "bench", "reproduce", "simulate", "replay", "place", "journal", "explain", "version")


def test_help_names_every_command(call) -> None:
    told = call("--help")
    assert told.exit_code == 0
    assert all(name in told.stdout for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_takes_json(call, command) -> None:
    told = call(command, "--help")
    assert told.exit_code == 0
    assert "--json" in told.stdout


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("bench", "histroy"), "did you mean 'history'"),
        (("reproduce", "gedick"), "did you mean 'gedik'"),
        (("demo", "--policy", "flux"), "flux-load"),
        (("demo", "--batches", "0"), "needs a batch"),
        (("simulate", "slwo"), "did you mean 'slow'"),
        (("simulate", "slow", "--policy", "flux_laod"), "did you mean 'flux-load'"),
        (("simulate", "slow", "--nodes", "0"), "nodes=0 is outside"),
        (("simulate", "slow", "--nodes", "2", "--machines", "3"), "machines=3 is outside 0..nodes=2"),
        (("simulate", "slow", "--plot", "curve.txt"), "name a file that ends in .png"),
        (
            ("simulate", "slow", "--delta-ms", "-1", "--policy", "flux-load"),
            "delta_min_s=-0.001 must be above 0",
        ),
        (("simulate", "slow", "--policy", "static", "--journal", "j.jsonl"), "static has no rounds"),
        (("replay", "no-such-file.jsonl", "--policy", "static"), "holds no journal"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_one_message_and_code_1(call, words, hint) -> None:
    told = call(*words)
    assert told.exit_code == 1
    assert hint in told.stderr
    assert "Traceback" not in told.output
    assert told.stdout == ""


def test_no_command_hides_the_module_of_its_name() -> None:
    """Otherwise `from headgate.cli import simulate` gives the command, not the module."""
    for module in pkgutil.iter_modules(headgate.cli.__path__):
        assert not callable(getattr(headgate.cli, module.name, None)), module.name


def test_an_unknown_command_is_a_usage_error(call) -> None:
    assert call("demonstrate").exit_code == 2


def test_bench_without_a_name_lists_the_benches(call) -> None:
    assert "history" in json.loads(call("bench", "--json").stdout)["benches"]
    assert "aggregate" in call("bench").stdout


def test_a_folder_with_other_things_is_left_alone_by_the_demo(call, tmp_path) -> None:
    (tmp_path / "letters.txt").write_text("dear all")
    told = call("demo", "--out", str(tmp_path))
    assert told.exit_code == 1
    assert "holds other things" in told.stderr
    assert (tmp_path / "letters.txt").exists()
