"""readj against the paper's listing written out slowly, its steps, and where it stops."""

import itertools
from typing import Literal

import numpy as np
import pytest
from tests.routing.builders.problems import problem, zipf

from headgate.routing.builders import (
    Problem,
    readj,
)
from headgate.routing.ring import HashRing


def slow_readj(problem: Problem, variant: str) -> tuple[list[int], int]:
    """Algorithm 4 in the listing's loop order, with everything computed from scratch."""
    assert problem.start is not None
    where = problem.start.copy()
    utility, steps = 0.0, 0
    while True:
        rho = problem.rho(where)
        if variant == "clean":
            utility = problem.objective.utility(rho, problem.gamma(where))
        best, best_gain = None, -np.inf
        for i, j in itertools.permutations(range(problem.channels), 2):
            for d1 in np.flatnonzero(where == i):
                for d2 in [None, *np.flatnonzero(where == j).tolist()]:
                    if variant == "clean" and d2 is not None and problem.volume[d2] > problem.volume[d1]:
                        continue  # the same swap, seen from its larger item
                    after = where.copy()
                    after[d1] = j
                    if d2 is not None:
                        after[d2] = i
                    new = problem.rho(after)
                    if new >= rho - 1e-12:
                        continue
                    value = problem.objective.utility(new, problem.gamma(after))
                    away = abs(problem.volume[d1] - (0 if d2 is None else problem.volume[d2]))
                    gain = (utility - value) / max(away, 1e-12)
                    if gain > best_gain + 1e-9 * abs(best_gain) or best is None:
                        best, best_gain = after, gain
                        if variant == "literal":
                            utility = value
        if best is None:
            return where.tolist(), steps
        where, steps = best, steps + 1


UTILITIES = ["A", "APM", "APLM", "ATM", "ATLM", "APLM10", "ATLM10"]


@pytest.mark.parametrize("variant", ["clean", "literal"])
@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("resources", ["LCL", "LQL"])
@pytest.mark.parametrize("seed", range(4))
def test_readj_equals_the_slow_listing(
    resources: str, utility: str, variant: Literal["clean", "literal"], seed: int
) -> None:
    if (resources, utility) == ("LCL", "A"):
        pytest.skip("one resource and no migration: all gains are the same number, so rounding picks")
    p = problem(seed, resources=resources, utility=utility, items=8)
    got = readj(p, variant=variant)
    wanted, steps = slow_readj(p, variant)
    assert got.channel.tolist() == wanted
    assert got.steps == steps


@pytest.mark.parametrize("variant", ["clean", "literal"])
def test_readj_lowers_rho_at_every_step_and_a_cap_of_five_changes_nothing(variant) -> None:
    ring = HashRing.uniform(9)
    p = Problem(zipf(10**6)[:43], ring.lookup_ints(np.arange(43)).astype(np.int64), 10)
    free = readj(p, variant=variant)
    assert (np.diff(free.rho_trace) < 0).all()
    assert free.steps > 5
    assert free.rho_trace[-1] == pytest.approx(free.rho)
    capped = readj(p, variant=variant, moves_per_item=5)
    assert capped.rho == pytest.approx(free.rho, rel=0.03)


def test_readj_stops_at_enough_and_at_max_steps() -> None:
    p = Problem(zipf(100, 0.5), np.zeros(100, dtype=np.int64), 4)
    assert p.worst(readj(p, enough=1.0).channel) <= 1.0
    assert readj(p, enough=1.0).steps < readj(p).steps
    assert readj(p, max_steps=3).steps == 3
    with pytest.raises(ValueError, match="clean"):
        readj(p, variant="tidy")  # type: ignore[arg-type]


def test_readj_with_loads_that_follow_no_common_order() -> None:
    rng = np.random.default_rng(3)
    volume = np.sort(rng.random(40))[::-1]
    loads = np.stack([rng.random(40), volume, volume])
    p = Problem(volume, rng.integers(0, 4, 40), 4, loads=loads)
    got = readj(p)
    assert (np.diff(got.rho_trace) < 0).all()
    assert got.moved_state == pytest.approx(p.moved(got.channel), abs=1e-9)
    assert p.start is not None
    assert got.rho < 0.5 * p.rho(p.start)
