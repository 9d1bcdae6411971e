"""The command line: what it lists, what it refuses, and that stdout holds only JSON when asked for it."""

import json
from importlib.metadata import PackageNotFoundError

import pytest
from rich.table import Table as Grid
from typer.testing import CliRunner

import headgate
from headgate.cli.app import app
from headgate.cli.console import Talk
from headgate.control import journal
from headgate.control.loop import Loop
from headgate.control.report import BatchReport, BinReport, ChannelReport
from headgate.policies import FluxLoad, Guard
from headgate.simulator.scenarios import SCENARIOS

COMMANDS = ("demo", "bench", "reproduce", "simulate", "replay", "place", "journal", "explain", "version")


@pytest.fixture
def call(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    runner = CliRunner()
    return lambda *words: runner.invoke(app, list(words))


@pytest.fixture
def checkpoint(tmp_path):
    """A stage's folder with a journal of four batches, of which the first led to a move."""
    loop = Loop(FluxLoad(), Guard(), "act", FluxLoad().initial(8, 2))
    folder = tmp_path / "stage"
    (folder / "journal").mkdir(parents=True)
    lines = []
    for batch in range(4):
        table = loop.table
        rows = [60 if b % 2 == 0 else 1 for b in range(8)]
        per_channel = [sum(rows[b] for b in table.bins_of(c)) for c in range(2)]
        report = BatchReport(
            batch=batch,
            table_version=table.version,
            rows=sum(rows),
            wall_ms=100.0,
            channels=tuple(ChannelReport(c, n, busy_ms=float(n)) for c, n in enumerate(per_channel)),
            bins=tuple(BinReport(b, n, float(n), 1000) for b, n in enumerate(rows)),
        )
        lines.append(journal.encode(report, loop.step(report)))
    (folder / "journal" / "000000.jsonl").write_text("\n".join(lines) + "\n")
    return folder


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


def test_an_unknown_command_is_a_usage_error(call) -> None:
    assert call("demonstrate").exit_code == 2


def test_version_as_json(call) -> None:
    told = call("version", "--json")
    assert json.loads(told.stdout)["headgate"] == headgate.__version__


def test_version_says_what_to_install_brackets_included(call, monkeypatch) -> None:
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("headgate.cli.versions.metadata.version", missing)
    told = call("version").stdout
    assert "spark missing (pip install 'headgate[spark]')" in told
    assert "headgate-lab missing (pip install headgate-lab)" in told


def test_the_version_as_an_option(call) -> None:
    told = call("--version")
    assert (told.exit_code, told.stdout) == (0, f"headgate {headgate.__version__}\n")


def test_brackets_in_tables_titles_and_progress_are_shown_as_they_are(capsys) -> None:
    grid = Grid("sql", title="state in [bold]/tmp[/]")
    grid.add_row("SELECT tags[red] FROM events[0]")
    talk = Talk(as_json=False)
    with talk.progress("place [dim]queries[/dim].csv") as tick:
        tick("reading [blue]a[/blue]", 0.5)
    talk.result(grid, {})
    told = capsys.readouterr().out
    for text in ("tags[red]", "[bold]/tmp[/]", "[dim]queries[/dim].csv", "[blue]a[/blue]"):
        assert text in told


def test_bench_without_a_name_lists_the_benches(call) -> None:
    assert "history" in json.loads(call("bench", "--json").stdout)["benches"]
    assert "aggregate" in call("bench").stdout


def test_journal_as_a_table(call, checkpoint) -> None:
    told = call("journal", str(checkpoint))
    assert told.exit_code == 0
    assert "channel 0 has" in told.stdout
    assert "yes" in told.stdout


def test_journal_as_lines_of_json(call, checkpoint) -> None:
    rows = [json.loads(line) for line in call("journal", str(checkpoint), "--json").stdout.splitlines()]
    assert [row["batch"] for row in rows] == [0, 1, 2, 3]
    assert [row["carried_out"] for row in rows] == [True, False, False, False]
    assert rows[0]["moves"] > 0
    assert rows[0]["bytes_moved"] == 1000 * rows[0]["moves"]


def test_the_last_batches_of_a_journal(call, checkpoint) -> None:
    told = call("journal", str(checkpoint), "--json", "--last", "2")
    assert [json.loads(line)["batch"] for line in told.stdout.splitlines()] == [2, 3]


def test_a_torn_last_line_is_left_out_and_told(call, checkpoint) -> None:
    with (checkpoint / "journal" / "000000.jsonl").open("a") as file:
        file.write('{"format":1,"rep')
    told = call("journal", str(checkpoint), "--json")
    assert told.exit_code == 0
    assert len(told.stdout.splitlines()) == 4
    assert "torn" in told.stderr


def test_a_damaged_line_is_named(call, checkpoint) -> None:
    path = checkpoint / "journal" / "000000.jsonl"
    path.write_text("rubbish\n" + path.read_text())
    told = call("journal", str(checkpoint))
    assert told.exit_code == 1
    assert "journal line 1" in told.stderr


def test_explain_says_why(call, checkpoint) -> None:
    told = call("explain", str(checkpoint))
    assert told.exit_code == 0
    assert told.stdout.startswith("batch ")
    first = json.loads(call("explain", str(checkpoint), "--batch", "0", "--json").stdout)
    assert first["batch"] == 0
    assert first["explanation"][0].startswith("batch 0: ")
    missing = call("explain", str(checkpoint), "--batch", "999")
    assert missing.exit_code != 0
    assert "batch 999 is not in the journal" in missing.stderr


def test_a_folder_without_a_journal(call, tmp_path) -> None:
    told = call("journal", str(tmp_path))
    assert told.exit_code == 1
    assert "holds no journal" in told.stderr


def test_a_folder_with_other_things_is_left_alone_by_the_demo(call, tmp_path) -> None:
    (tmp_path / "letters.txt").write_text("dear all")
    told = call("demo", "--out", str(tmp_path))
    assert told.exit_code == 1
    assert "holds other things" in told.stderr
    assert (tmp_path / "letters.txt").exists()


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
