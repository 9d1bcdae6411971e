"""The command line: what it lists, what it refuses, and that stdout holds only JSON when asked for it."""

import json

import pytest
from typer.testing import CliRunner

import headgate
from headgate.cli import app
from headgate.control import journal
from headgate.control.loop import Loop
from headgate.policies import FluxLoad, Guard
from headgate.reports.batch_report import BatchReport, BinReport, ChannelReport

COMMANDS = ("demo", "bench", "reproduce", "place", "journal", "version")


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


def test_help_names_every_command(call):
    told = call("--help")
    assert told.exit_code == 0
    assert all(name in told.stdout for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_takes_json(call, command):
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
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_one_message_and_code_1(call, words, hint):
    told = call(*words)
    assert told.exit_code == 1
    assert hint in told.stderr
    assert "Traceback" not in told.output
    assert told.stdout == ""


def test_an_unknown_command_is_a_usage_error(call):
    assert call("demonstrate").exit_code == 2


def test_version_as_json(call):
    told = call("version", "--json")
    assert json.loads(told.stdout)["headgate"] == headgate.__version__


def test_bench_without_a_name_lists_the_benches(call):
    assert "history" in json.loads(call("bench", "--json").stdout)["benches"]
    assert "aggregate" in call("bench").stdout


def test_journal_as_a_table(call, checkpoint):
    told = call("journal", str(checkpoint))
    assert told.exit_code == 0
    assert "channel 0 has" in told.stdout
    assert "yes" in told.stdout


def test_journal_as_lines_of_json(call, checkpoint):
    rows = [json.loads(line) for line in call("journal", str(checkpoint), "--json").stdout.splitlines()]
    assert [row["batch"] for row in rows] == [0, 1, 2, 3]
    assert [row["carried_out"] for row in rows] == [True, False, False, False]
    assert rows[0]["moves"] > 0
    assert rows[0]["bytes_moved"] == 1000 * rows[0]["moves"]


def test_the_last_batches_of_a_journal(call, checkpoint):
    told = call("journal", str(checkpoint), "--json", "--last", "2")
    assert [json.loads(line)["batch"] for line in told.stdout.splitlines()] == [2, 3]


def test_a_torn_last_line_is_left_out_and_told(call, checkpoint):
    with (checkpoint / "journal" / "000000.jsonl").open("a") as file:
        file.write('{"format":1,"rep')
    told = call("journal", str(checkpoint), "--json")
    assert told.exit_code == 0
    assert len(told.stdout.splitlines()) == 4
    assert "torn" in told.stderr


def test_a_damaged_line_is_named(call, checkpoint):
    path = checkpoint / "journal" / "000000.jsonl"
    path.write_text("rubbish\n" + path.read_text())
    told = call("journal", str(checkpoint))
    assert told.exit_code == 1
    assert "journal line 1" in told.stderr


def test_a_folder_without_a_journal(call, tmp_path):
    told = call("journal", str(tmp_path))
    assert told.exit_code == 1
    assert "holds no journal" in told.stderr


def test_a_folder_with_other_things_is_left_alone_by_the_demo(call, tmp_path):
    (tmp_path / "letters.txt").write_text("dear all")
    told = call("demo", "--out", str(tmp_path))
    assert told.exit_code == 1
    assert "holds other things" in told.stderr
    assert (tmp_path / "letters.txt").exists()
