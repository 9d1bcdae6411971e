"""`headgate bench rescale`: what it reports of given times, and what the page says of the results file."""

import json
from pathlib import Path

import pytest

from headgate.sources.source import Demand
from headgate_lab.bench.rescale import Measured, report, with_parts
from headgate_lab.bench.rescale.drawn import Drawn
from headgate_lab.bench.rescale.page import BEGIN, PAGE, RESULTS, written
from headgate_lab.bench.rescale.stream import AT_ONCE, TWICE, Times

DEMAND = Demand(rows=100, tasks=2)
ROOT = Path(__file__).parents[3]


def made(part="1M keys", slowest=120.0):
    times = {
        TWICE: Times(quiet=[100.0] * 5, during=[100.0] * 4 + [slowest], notice=[2]),
        AT_ONCE: Times(quiet=[100.0] * 5, during=[900.0], notice=[0]),
    }
    return report({part: Measured(times, 30.0, [500.0])}, where={"load": 0.0}, quick=False)


@pytest.mark.parametrize(("slowest", "ok"), [(120.0, True), (140.0, False)])
def test_the_goal_is_about_announced_changes(slowest, ok) -> None:
    (goal,) = made(slowest=slowest).as_json()["goals"]
    assert (goal["name"], goal["goal"], goal["ok"]) == (
        "1M keys: 2 to 4 channels: p99 over no change",
        "<= 1.3x",
        ok,
    )
    pause = made(slowest=slowest).as_json()["results"][-1]
    assert (pause["value"], pause["rival_value"]) == (slowest / 1e3, 30.0)


def test_a_part_takes_the_place_of_the_same_part_in_the_results_file() -> None:
    first, other, again = made(), made("20M keys"), made(slowest=130.0)
    both = with_parts(first.as_json(), other.as_json())
    assert [goal["name"].split(":")[0] for goal in both["goals"]] == ["1M keys", "20M keys"]
    last = with_parts(both, again.as_json())
    assert [goal["measured"] for goal in last["goals"]] == [
        other.as_json()["goals"][0]["measured"],
        again.as_json()["goals"][0]["measured"],
    ]


def test_a_comparison_has_no_goal_and_takes_the_place_of_itself() -> None:
    times = {TWICE: Times(quiet=[100.0], during=[500.0], notice=[2])}
    cast = report({"cast": Measured(times, judged=False)}, where={}, quick=False).as_json()
    assert cast["goals"] == []
    both = with_parts(with_parts(made().as_json(), cast), cast)
    assert sum(one["name"] == "cast: 2 to 4 channels: p99" for one in both["results"]) == 1
    assert len(both["goals"]) == 1


def test_every_key_is_drawn_once_and_then_at_random() -> None:
    source = Drawn(keys=10, load=4, rows=5, batches=1)
    offset, seen = None, []
    for _ in range(3):
        planned = source.plan(offset, DEMAND)
        seen += [
            key for part in planned.ranges for rows in source.read(part.what) for key in rows[0].to_pylist()
        ]
        offset = planned.offset
    assert sorted(seen) == list(range(10))
    planned = source.plan(offset, DEMAND)
    assert planned.rows == 5
    assert source.plan(planned.offset, DEMAND).ranges == ()


@pytest.mark.skipif(not (ROOT / RESULTS).exists(), reason="not measured yet")
def test_the_page_has_the_figures_of_the_results_file() -> None:
    text, measured = (ROOT / PAGE).read_text(), json.loads((ROOT / RESULTS).read_text())
    assert BEGIN in text
    assert written(text, measured) == text, "run: python -m headgate_lab.bench.rescale.page"
