"""The tables that commands print fit into a terminal of 80 columns: nothing is cut, no column is lost."""

import pytest
from rich.console import Console

from headgate.cli import journal, replay, simulate
from headgate.simulator.scenarios import SCENARIOS, Options
from headgate_lab.papers.claims import Claim, as_table


def printed(renderable) -> str:
    """What a terminal of 80 columns shows."""
    console = Console(width=80, markup=False, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    text = capture.get()
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
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
        "batch": 12345, "rows": 12_345_678, "wall_ms": 98_765.4, "imbalance": 11.25, "table": 321,
        "channels": 64, "policy": "flux-load", "moves": 128, "bytes_moved": 9_876_543_210, "gain": 0.37,
        "carried_out": True, "why": "channel 0 has 240 ms of work, the mean is 122 ms; " * 3,
    }  # fmt: skip
    idle = {**decision, "batch": 12346, "policy": None, "carried_out": False, "why": ""}
    text = printed(journal.as_table([decision, idle], "checkpoints/users"))
    for value in ("12345", "12,345,678", "98,765", "11.25", "321", "64", "128", "9,876.54", "37%", "yes"):
        assert value in text, value
    assert text.count("channel 0 has 240 ms") == 3


def test_reproduce_wraps_between_words() -> None:
    setup = "relative load imbalance of the consistent hash as the number of parallel channels grows"
    note = "measured with thirty-two channels, and the paper's own counter of key frequencies"
    measured = {"redistribution": 1.25, "scan": 1.3333, "readjustment": 38.2}
    text = printed(
        as_table("gedik", [Claim("PX-4", setup, 1.11, measured, "shape only", ok=False, note=note)])
    )
    words = set(text.replace("│", " ").split())
    assert {*setup.split(), *note.split(), "redistribution", "1.333,", "(tolerance:", "PX-4", "no"} <= words
