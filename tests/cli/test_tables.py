"""The tables that commands print fit into a terminal of 80 columns: nothing is cut, no column is lost."""

from collections import Counter
from types import SimpleNamespace

import pytest
from rich.console import Console
from tests.watch.skewed import Skewed

import headgate as hg
from headgate.cli import console, journal, place, query, replay, simulate
from headgate.simulator.scenarios import SCENARIOS, Options
from headgate.testing import builders
from headgate_lab import bench, cliques_command
from headgate_lab.bench import control, rebalance, result, skew
from headgate_lab.bench.control_stage import Run, Setting
from headgate_lab.chaos import command, plant, report
from headgate_lab.demo.result import DemoResult, Lane
from headgate_lab.papers.claims import Claim, as_table


def printed(renderable, *cells: str, width: int = 80) -> str:
    """What a terminal of 80 columns shows. Each of the `cells` is there, in one piece."""
    terminal = Console(width=width, markup=False, highlight=False)
    with terminal.capture() as capture:
        terminal.print(renderable)
    text = capture.get()
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    for cell in cells:
        assert cell in text, cell
    return text


def figures(*, imbalance: float, busiest_ms: float, moved_bytes: int) -> replay.BatchFigures:
    return replay.BatchFigures(imbalance, busiest_ms, moves=128, pins=12, moved_bytes=moved_bytes)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_simulate(count) -> None:
    names = ["static", "flux-hybrid", "flux-memory", "rebuild-redist", "model-predictive"][:count]
    options = Options(nodes=3, seconds=2)
    run = simulate.RunOptions(["static"])
    result = simulate.simulate("slow", options, run, None, lambda step, part: None)["static"]
    text = printed(simulate.as_table("slow", options, dict.fromkeys(names, result)))
    for name in names:
        assert name in text
    for label, cell in simulate.FIGURES:
        assert label in text
        assert cell(simulate.row("static", result)) in text


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_titles_of_all_scenarios(scenario) -> None:
    printed(simulate.as_table(scenario, Options(), {}))


def test_replay() -> None:
    steps = [
        replay.ReplayedBatch(
            batch,
            12_345_678,
            figures(imbalance=1.23, busiest_ms=98_765.4, moved_bytes=9_876_543_210),
            figures(imbalance=11.05, busiest_ms=12_345.6, moved_bytes=1_234_567_890),
        )
        for batch in (99_998, 99_999)
    ]
    text = printed(replay.as_table("checkpoints/users", "flux-load", "rebuild", steps))
    for value in (
        "99998",
        "12,345,678",
        "1.23",
        "98,765",
        "9,876.54",
        "11.05",
        "12,346",
        "1,234.57",
        "197,531",
    ):
        assert value in text, value
    for head in ("batch", "rows", "busiest", "/ mean", "ms", "moves", "pins", "MB", "recorded", "replayed"):
        assert head in text, head


def test_journal() -> None:
    decision = {
        "batch": 12345, "rows": 12_345_678, "wall_ms": 98_765.4, "imbalance": 11.25, "row_imbalance": 10.75, "row_bound": 10.25,
        "table": 321, "channels": 64, "policy": "flux-load", "moves": 128, "bytes_moved": 9_876_543_210, "gain": 0.37,
        "carried_out": True, "why": "channel 0 has 240 ms of work, the mean is 122 ms; " * 3,
    }  # fmt: skip
    idle = {**decision, "batch": 12346, "policy": None, "carried_out": False, "why": ""}
    text = printed(journal.as_table([decision, idle], "checkpoints/users"))
    for value in ("12345", "12,345,678", "98,765", "11.25", "321", "64", "128", "9,876.54", "37%", "yes"):
        assert value in text, value
    assert text.count("channel 0 has 240 ms") == 3


def test_wide_tables_have_everything_in_one_row() -> None:
    decision = {
        "batch": 12345, "rows": 12_345_678, "wall_ms": 98_765.4, "imbalance": 11.25, "row_imbalance": 10.75, "row_bound": 10.25,
        "table": 321, "channels": 64, "mode": "act", "policy": "flux-load", "moves": 128, "pins": 3, "unpins": 2,
        "bytes_moved": 9_876_543_210, "gain": 0.37, "carried_out": False, "refusal": "gain_below_cost",
        "why": "channel 0 has 240 ms of work",
    }  # fmt: skip
    text = printed(journal.as_wide_table([decision], "checkpoints/users"), width=console.WIDE)
    (line,) = [line for line in text.splitlines() if "12345" in line]
    for value in ("12,345,678", "act", "flux-load", "9,876.54", "gain_below_cost", "240 ms of work"):
        assert value in line, value
    one = figures(imbalance=1.23, busiest_ms=98_765.4, moved_bytes=9_876_543_210)
    steps = [replay.ReplayedBatch(99_998, 12_345_678, one, one)]
    text = printed(replay.as_wide_table("c", "flux-load", "rebuild", steps), width=console.WIDE)
    (line,) = [line for line in text.splitlines() if "99998" in line]
    assert line.count("9,876.54") == 2


def test_wide_output_is_wider_than_the_terminal() -> None:
    assert console.Output(as_json=False, wide=True).console.width >= console.WIDE


def test_listings() -> None:
    printed(bench.listing(), *bench.names())
    printed(simulate.listing(), *SCENARIOS)


def test_place() -> None:
    figures = {
        "queries": 12_345_678, "servers": 1000, "algorithm": "rare-first", "types": 1_234_567, "sources": 100_000,
        "replication": 12.3456, "floor": 1.23, "random": 99.9, "traffic": 123_456_789.4, "largest_load": 1_234_567.0,
        "mean_load": 1_234_567.0, "imbalance": 1.0512, "imbalance_bound": 1.0, "fallbacks": 12_345.0, "moves": 1_234_567.0,
        "saved_traffic": 123_456_789.0, "out": f"{'folder/' * 9}placement.parquet",
    }  # fmt: skip
    text = printed(place.as_table(figures), "123,456,789", "1,234,567", ">= 1.2300", "12,345")
    assert str(figures["out"]) in text.replace("\n", "")


def test_queries_of_a_service() -> None:
    listed = [
        {"id": 1_234_567, "name": "hot cities of the north", "state": "failed", "why": "there is no source 'weather'",
         "sql": "SELECT city, avg(temp) AS temp FROM weather GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')"},
    ]  # fmt: skip
    printed(query.as_table(listed), "1234567", "cities")


def test_status_and_journal_of_a_stage(tmp_path) -> None:
    skewed = Skewed(str(tmp_path / "c"), limits=hg.Limits(memory="20KB")).run(3)
    for shown in (skewed.status(), skewed.journal()):
        text = str(shown)
        assert max(len(line) for line in text.splitlines()) <= 80
        assert "…" not in text
    assert f"{skewed.journal()[-1].report.rows:,}" in text


def test_a_bench() -> None:
    samples = {"headgate, aggregate of 1,000,000 rows": [1234.5, 1300.0] * 9, "native rocksdb": [2222.2]}
    name = "aggregate, 1,000,000 keys, Zipf(1.0): count, sum and max per key"
    rival = "native groupBy().agg() with rocksdb"
    one = result.Result(name, "rows/s", 12_345_678.0, rival, 1_234_567.0, samples)
    goal = result.Goal("rows a second beside native, with a rather long name", 3.0, 10.0)
    shown = result.Report("aggregate", (one,), (goal,), machine={"cpu": "a long name of a processor " * 3})
    printed(shown.as_table(), "12,345,678", "1,234,567", "10.00x", ">= 3x", "groupBy().agg()")


def test_benches_with_tables_of_their_own() -> None:
    run = Run(12_345.6, 1_234.5, 100, (12.5,))
    rows = [control.Row(Setting("cyclic", 128, 128), {name: [run] for name in control.SHOWN})]
    printed(control.as_grid(rows), "12345.6", "cyclic 3/s, 128 of 128", "forecast", "12.5 / 12.5 / 12.5")
    cells = ("1,234.56", "1,234", "12.34 MB", "12.3%", "1,234,567", "12,345", "1,234", "12")
    for heads in (skew.HEADS, rebalance.HEADS):
        grid = console.numbers_grid("bench", heads)
        grid.add_row("history, 1,000,000 keys, Zipf(1.2), 32 channels", *cells[: len(heads) - 1])
        printed(grid, *cells[: len(heads) - 1])


def test_chaos() -> None:
    problem = "the output of batch 3 has 5 rows, and the one-channel answer has 6"
    many = report.Report(30_000_000, 2, 456_789.0, Counter(kill=123_456_789), [(12_345_678, problem)])
    printed(command.as_table(many), "123,456,789", "12345678", "sleep")
    mutant = plant.Mutant("commit log", "the claim is not compared with the newest entry", "m", "a", "b")
    hunts = [plant.Hunt(mutant, 12_345, problem, 123_456, 1.0)]
    printed(plant.as_table(plant.Plantation(hunts, 12.0)), "123,456", "12345")


def test_cliques() -> None:
    figures = {
        "size": 4, "graph": "soc-LiveJournal1.parquet", "cliques": 16_410_485_123, "vertices": 4_847_571,
        "edges": 42_851_237, "malformed": 123_456, "self_loops": 518_382, "duplicates": 25_623_879, "waves": 1234,
        "proposals": 1_234_567_890, "index_s": 1234.5, "search_s": 12_345.6, "peak_mb": 12_345, "out": "folder/" * 12,
    }  # fmt: skip
    text = printed(cliques_command.as_table(figures), "16,410,485,123", "1,234, 1,234,567,890")
    assert text.count("folder/") >= 11


def test_the_result_of_the_demonstration() -> None:
    ran = builders.report(0, builders.table([0, 1]), [16_000_000, 0])
    step = SimpleNamespace(report=ran, ms=1_234_567.0, moves=1234, bytes_moved=123_456_789)
    fixed, adaptive = (Lane(name, name, (step,)) for name in ("hash routing", "model-predictive"))  # type: ignore[arg-type]
    shown = DemoResult(fixed, adaptive, (), None, 500.0, 8, 100.0)
    printed(shown.as_table(), "hash routing", "model-predictive", "1,234,567 ms", "123,457 kB")


def test_reproduce_wraps_between_words() -> None:
    setup = "relative load imbalance of the consistent hash as the number of parallel channels grows"
    note = "measured with thirty-two channels, and the paper's own counter of key frequencies"
    measured = {"redistribution": 1.25, "scan": 1.3333, "readjustment": 38.2}
    text = printed(
        as_table("gedik", [Claim("PX-4", setup, 1.11, measured, "shape only", ok=False, note=note)])
    )
    words = set(text.replace("│", " ").split())
    assert {*setup.split(), *note.split(), "redistribution", "1.333,", "(tolerance:", "PX-4", "no"} <= words


@pytest.mark.parametrize(
    "words",
    [
        ("simulate",),
        ("simulate", "slow", "--nodes", "3", "--seconds", "2", "--policy", "static", "--policy", "flux-load"),
        ("replay", "CHECKPOINT", "--policy", "rebuild"),
        ("journal", "CHECKPOINT"),
        ("explain", "CHECKPOINT", "--batch", "0"),
        ("place", "QUERIES", "--servers", "3", "--out", "PLACED"),
        ("rmat", "GRAPH", "--scale", "4"),
        ("bench",),
        ("reproduce", "--list"),
        ("version",),
        ("--help",),
        *(
            (command, "--help")
            for command in ("simulate", "replay", "journal", "watch", "chaos", "place", "bench")
        ),
    ],
    ids=" ".join,
)
def test_commands_in_a_terminal_of_80_columns(words, checkpoint, tmp_path, call, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries.csv").write_text("query,sources\nq1,a b\nq2,b\nq3,c\n")
    files = {"CHECKPOINT": "stage", "QUERIES": "queries.csv", "PLACED": "placed.csv", "GRAPH": "g.parquet"}
    assert checkpoint == tmp_path / "stage"
    told = call(*(files.get(word, word) for word in words))
    assert told.exit_code == 0, told.output
    assert max(len(line) for line in told.stdout.splitlines()) <= 80
    assert "…" not in told.stdout


def test_wide_has_all_columns(checkpoint, call) -> None:
    wide = call("journal", str(checkpoint), "--wide").stdout
    assert all(head in wide for head in ("mode", "unpins", "refusal", "why", "flux-load"))
    assert "on the left" in call("replay", str(checkpoint), "--policy", "static", "--wide").stdout
