"""scan and redist against the paper's listings written out slowly."""

from dataclasses import replace

import numpy as np
import pytest
from tests.routing.builders.problems import problem

from headgate.routing.builders import (
    Objective,
    Problem,
    redist,
    scan,
)


def partial(problem: Problem, placed: dict[int, int]) -> tuple[float, float]:
    """Rho and gamma of a partial placement, from their definitions."""
    some = list(placed)
    sub = Problem(problem.volume[some], problem.old[some], problem.channels, problem.objective)
    where = np.array([placed[d] for d in some], dtype=np.int64)
    loads = problem.loads
    assert loads is not None
    moved = problem.moved_state + sum(loads[0][d] for d in some if placed[d] != problem.old[d])
    return sub.rho(where), moved * problem.channels / problem.considered_state


def slow_scan(problem: Problem) -> list[int]:
    placed: dict[int, int] = {}
    for d in np.argsort(-problem.volume, kind="stable").tolist():
        values = [
            problem.objective.utility(*partial(problem, {**placed, d: c})) for c in range(problem.channels)
        ]
        placed[d] = int(np.argmin(values))
    return [placed[d] for d in range(len(placed))]


def slow_redist(problem: Problem) -> list[int]:
    placed: dict[int, int] = {}
    while len(placed) < problem.volume.shape[0]:
        best = (np.inf, -1, -1)
        for d in range(problem.volume.shape[0]):
            if d in placed:
                continue
            for c in range(problem.channels):
                value = problem.objective.utility(*partial(problem, {**placed, d: c})) / problem.volume[d]
                if value < best[0] - 1e-12:
                    best = (value, d, c)
        placed[best[1]] = best[2]
    return [placed[d] for d in range(len(placed))]


UTILITIES = ["A", "APM", "APLM", "ATM", "ATLM", "APLM10", "ATLM10"]


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("resources", ["LCL", "LLL", "LQL", "CCL"])
@pytest.mark.parametrize("seed", range(3))
def test_scan_and_redist_equal_the_slow_listings(resources: str, utility: str, seed: int) -> None:
    p = problem(seed, resources=resources, utility=utility)
    assert scan(p).channel.tolist() == slow_scan(p)
    assert redist(p).channel.tolist() == slow_redist(p)


@pytest.mark.parametrize("resources", ["LCL", "LQL", "CCL"])
def test_the_printed_exponent_of_a_third(resources: str) -> None:
    """The builders see the penalty that the slow form gives, and it changes what APM chooses."""
    changed = 0
    for seed in range(6):
        usual = problem(seed, resources=resources)
        p = replace(usual, objective=Objective(resources=resources, thirds=True))
        assert scan(p).channel.tolist() == slow_scan(p)
        assert redist(p).channel.tolist() == slow_redist(p)
        changed += redist(p).channel.tolist() != redist(usual).channel.tolist()
    assert (changed > 0) == ("C" in resources), "with three resources a third is their number"
