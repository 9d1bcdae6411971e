"""The bench of the doctor: its jobs, and what it makes of predictions and measurements."""

import json
from pathlib import Path

import pytest
from rich.console import Console
from tests.doctor import logs

from headgate.doctor.calibrate import SHAPES
from headgate.doctor.costs import Cost, Costs
from headgate.doctor.diagnosis import examine
from headgate.doctor.events import read_events
from headgate.doctor.operators import KINDS
from headgate_lab.bench import doctor
from headgate_lab.bench.doctor import page
from headgate_lab.bench.doctor.jobs import HOT, WORKS, drawn, seed_of, slowly, small


def compared(work, *, fixed_ms: float, native: float, ported: float) -> doctor.Compared:
    costs = Costs({kind: Cost(fixed_ms, 0.0, 0.0, 0.0) for kind in KINDS}, "a model")
    events = logs.log([[int(native) - 50, 10, 10, 10]] * 8, period_s=int(native / 1000))
    application = read_events(logs.lines(events), "the log")
    (found,) = examine(application, "the log", costs).diagnoses
    return doctor.Compared(work, found, (native,), (ported,))


def test_the_jobs_are_ten_and_are_not_those_of_the_calibration() -> None:
    assert len(WORKS) == len({work.name for work in WORKS}) == len(set(map(seed_of, WORKS))) == 10
    assert {"uniform", "zipf", "hot"} == {work.keys for work in WORKS}
    assert {"aggregate", "tumbling", "dedup", "join", "zscore", "pandas", "slow"} == {
        w.operator for w in WORKS
    }
    assert not {(work.rows, work.distinct) for work in WORKS} & {(s.rows, s.keys) for s in SHAPES}


def test_a_hot_key_has_its_share() -> None:
    work = small(next(work for work in WORKS if work.keys == "hot"))
    (first, *_) = drawn(work, seed=1)
    share = first["user"].to_pylist().count(7) / len(first)
    assert share == pytest.approx(HOT, abs=0.05)
    assert slowly(first.slice(0, 3)) == first.slice(0, 3)


def test_predictions_and_verdicts_are_judged() -> None:
    good = compared(WORKS[0], fixed_ms=110.0, native=1000.0, ported=100.0)
    far = compared(WORKS[1], fixed_ms=150.0, native=1000.0, ported=100.0)
    wrong = compared(WORKS[2], fixed_ms=1000.0, native=1000.0, ported=100.0)
    true = compared(WORKS[3], fixed_ms=1000.0, native=1000.0, ported=950.0)
    assert [each.within for each in (good, far, wrong, true)] == [True, False, False, True]
    assert [each.right for each in (good, far, wrong, true)] == [True, True, False, True]
    report = doctor.reported([good, far, wrong, true], {"cpu": "any"}, quick=True)
    assert [(goal.measured, goal.ok) for goal in report.goals] == [(2, False), (1, False)]
    data = json.loads(json.dumps(report.as_json(), allow_nan=False))
    lines = page.table(data).splitlines()
    assert lines[2] == "| aggregate, uniform keys | 1,000 ms | 110 ms | 100 ms | +10% | 9.1x | 10.0x |"
    assert "would not help" in lines[4]
    assert lines[-1].endswith("**not met**")
    terminal = Console(width=80)
    with terminal.capture() as capture:
        terminal.print(report.shown)
    assert max(map(len, capture.get().splitlines())) <= 80
    assert "does not" in capture.get()


def test_the_page_has_the_numbers_of_the_results() -> None:
    root = Path(__file__).parents[3]
    text = (root / page.PAGE).read_text(encoding="utf-8")
    assert page.BEGIN in text
    if (root / page.RESULTS).exists():
        report = json.loads((root / page.RESULTS).read_text(encoding="utf-8"))
        assert page.written(text, report) == text, "run: python -m headgate_lab.bench.doctor.page"
