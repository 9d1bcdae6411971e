"""What `bench faucet` says of its runs: the ratios, and the goals as they were asked for."""

from pathlib import Path
from typing import Any

from headgate_lab.bench.faucet.gate import KINDS, TENTH, WHOLE, Cases, Query, judged
from headgate_lab.bench.faucet.runs import FaucetSizes

QUERY = Query(Path(), FaucetSizes(), proposals=1_000, triangles=7)


def figures(seconds: float, grown: float, answer: int = 7) -> dict[str, Any]:
    return {
        "answer": answer,
        "seconds": seconds,
        "course": [(0.0, 1000.0), (seconds, 1000 + grown)],
        **dict.fromkeys(KINDS, grown),
        "peak": 1000 + grown,
    }


def cases(**changes: dict[str, Any]) -> Cases:
    found = {
        "gated": figures(40, 100),
        "free": figures(50, 2000),
        "gated_tenth": figures(5, 90, 1),
        "free_tenth": figures(4, 200, 1),
        **changes,
    }
    return {
        (gated, part): [found[f"{'gated' if gated else 'free'}{end}"]]
        for end, part in {"": WHOLE, "_tenth": TENTH}.items()
        for gated in (True, False)
    }


def goals(found: Cases) -> dict[str, tuple[float, bool]]:
    return {goal.name: (goal.measured, goal.ok) for goal in judged(found, QUERY, 500).goals}


def test_goals_compare_runs_of_the_same_size() -> None:
    assert goals(cases()) == {
        "time behind the gate over time without, at the plateau": (0.8, True),
        "memory without a gate over memory behind it": (20.0, True),
        "the same, with all that the idle session holds": (3000 / 1100, False),
        "memory behind the gate, ten times the input over the input": (100 / 90, True),
        "runs whose triangles differ from a count on one machine": (0, True),
    }


def test_each_goal_can_be_missed() -> None:
    slow = cases(gated=figures(53, 210), gated_tenth=figures(5, 100, 2))
    assert [ok for _, ok in goals(slow).values()] == [False] * 5


def test_every_kind_of_memory_is_in_the_results() -> None:
    measured = judged(cases(), QUERY, 500)
    names = [result.name for result in measured.results]
    assert {f"waves of 500: {kind}" for kind in KINDS.values()} < set(names)
    assert all(result.samples for result in measured.results if result.rival)
    assert measured.picture is not None
