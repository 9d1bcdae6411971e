"""For every claim of the papers a mutation of the mechanism behind it that makes its row fail.

A row that no mutation could make fail would check nothing. Each entry names the rows, says what is broken, runs
what measures them, and patches one thing. `FAST` has rows that small instances settle, and runs by default.
`SLOW` has those that take some seconds, and `long_mutations.LONG` those of the figures; both run with `--full`.
`NO_MUTATION` has the claims that hold and that none was made for, with the reason. A claim that does not hold
needs no mutation.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from headgate.flow import Batcher, Gate, Rows
from headgate.hosting import Balance, Host
from headgate.routing.builders import Assignment, Problem
from headgate.routing.builders.problem import settle
from headgate.routing.lossy_counting import LossyCounter, SlidingLossyCounter
from headgate.routing.partitioning import PartitioningFunction
from headgate.routing.ring import HashRing
from headgate_lab.papers.claims import Claim
from headgate_lab.papers.faucet.units import Loop

Patch = Callable[[pytest.MonkeyPatch], None]


def part(name: str) -> Any:
    """A module of the papers, all of whose names may be patched."""
    return importlib.import_module(f"headgate_lab.papers.{name}")


faucet, flux, gedik, mice, mpc = (
    part(f"{paper}.units") for paper in ("faucet", "flux", "gedik", "mice", "mpc")
)
toy = part("gedik.toy")


@dataclass(frozen=True)
class Mutation:
    """What is broken, what measures the rows, and which of them must fail then."""

    says: str
    rows: tuple[str, ...]
    run: Callable[[], list[Claim] | Claim]
    patch: Patch

    def claims(self) -> dict[str, Claim]:
        """The rows by id."""
        found = self.run()
        return {claim.id: claim for claim in (found if isinstance(found, list) else [found])}


def put(target: object, name: str, value: Any) -> Patch:
    """Set an attribute."""
    return lambda patch: patch.setattr(target, name, value)


def scaled(module: Any, name: str, factor: float) -> Patch:
    """Multiply what a function returns."""
    original = getattr(module, name)
    return put(module, name, lambda *args, **options: factor * original(*args, **options))


class Forgetful(LossyCounter):
    """Returns only keys that are twice as frequent as asked for."""

    def frequent(self, threshold: float) -> Any:
        return super().frequent(2 * threshold)


class LateRestart(SlidingLossyCounter):
    """Has one counter fewer, so each serves for longer."""

    def __init__(self, *, epsilon: float, window: int, counters: int) -> None:
        super().__init__(epsilon=epsilon, window=window, counters=counters - 1)


class Reseeded(HashRing):
    """Its points depend on the number of channels."""

    @classmethod
    def uniform(cls, channels: int, *, replicas: int = 1000, seed: int = 0) -> HashRing:
        return HashRing.uniform(channels, replicas=replicas, seed=channels)


class Unpinned(PartitioningFunction):
    """Forgets its pins."""

    def lookup_ints(self, keys: Any) -> Any:
        return self.ring.lookup_ints(keys)


def miscounting(problem: Problem, **options: Any) -> Assignment:
    """`readj` that counts one percent more state than it moves."""
    done = READJ(problem, **options)
    return replace(done, moved_state=1.01 * done.moved_state + 1e-9)


READJ = gedik.readj


def where_it_was(problem: Problem, **_: Any) -> Assignment:
    """A builder that moves nothing."""
    assert problem.start is not None
    return settle(problem, problem.start.copy(), moved=problem.moved(problem.start))


LEAST_IMBALANCE = mpc.least_imbalance


def damped(unit_s: Any, shares: Any, *, weight: float, **options: Any) -> Any:
    """The controller with R three times as large as given."""
    return LEAST_IMBALANCE(unit_s, shares, weight=3 * weight, **options)


def unequal(unit_s: Any, shares: Any, **options: Any) -> Any:
    """The controller without the rule that shares sum to one."""
    plan = LEAST_IMBALANCE(unit_s, shares, **options)
    return None if plan is None else 1.001 * plan


def count_bias_twice(patch: pytest.MonkeyPatch) -> None:
    """As printed (MPC-E5): the disturbance of a step is minus that of the step before."""
    sign = [1.0]

    def plan(unit_s: Any, shares: Any, *, offset_s: Any, **options: Any) -> Any:
        sign[0] = -sign[0]
        return LEAST_IMBALANCE(unit_s, shares, offset_s=sign[0] * np.asarray(offset_s), **options)

    patch.setattr(mpc, "least_imbalance", plan)


def always(*_: Any, **__: Any) -> bool:
    """For a rule that never stops anything."""
    return True


SOLVE = mice.solve


def at_random(load: Any, servers: Any, algorithm: str, **options: Any) -> Any:
    """Every offline algorithm is OffRand."""
    return SOLVE(load, servers, "off-rand", chance=np.random.default_rng(1).random(997))


def at_random_host(rates: Any, *, servers: int, rule: str) -> Host:
    """Every host chooses its servers at random."""
    return Host(rates, servers=servers, rule="on-rand", draw=np.random.default_rng(1).random)


@dataclass(frozen=True)
class Dear:
    """An assignment whose streams are counted eight times."""

    made: Any

    @property
    def traffic(self) -> float:
        return 8 * float(self.made.traffic)


def dear(load: Any, servers: Any, algorithm: str, **options: Any) -> Any:
    """Solve as always, and count eight streams for one."""
    return Dear(SOLVE(load, servers, algorithm, **options))


class Wider(Batcher):
    """A gate that lets in twice as many batches as it was told, twice as large."""

    def __init__(self, gate: Gate, **options: Any) -> None:
        super().__init__(Gate(2 * gate.in_flight, 2 * gate.batch), **options)


def leaking(rows: Any) -> Any:
    """An iterator of rows that loses every third."""
    return Rows(row for number, row in enumerate(rows) if number % 3)


class Careless(Loop):
    """A graph whose rows all come out, so that no batch is without output."""

    def fan_out(self, row: Any) -> int:
        return 2

    def expand(self, row: Any) -> Any:
        for number in range(2):
            self._made += 1
            yield (*row, 2 * number + 1)


FAST: tuple[Mutation, ...] = (
    Mutation("theta without its denominator", ("PX-1",), gedik.formulas, put(gedik, "theta", lambda alpha, n: alpha - 1)),
    Mutation("delta a tenth larger", ("PX-2", "PX-3"), gedik.formulas, scaled(gedik, "tracking_threshold", 1.1)),
    Mutation("alpha from the square of the utilization", ("PX-4",), gedik.formulas, put(gedik, "alpha_for_utilization", lambda u: u**-2)),
    Mutation("a counter too few", ("PX-6",), gedik.staggered, put(gedik, "SlidingLossyCounter", LateRestart)),
    Mutation("points that depend on the number of channels", ("PX-7",), gedik.ring_growth, put(gedik, "HashRing", Reseeded)),
    Mutation("pins are not looked at", ("PX-8",), gedik.lookup, put(gedik, "PartitioningFunction", Unpinned)),
    Mutation("the builder places nothing", tuple(f"PX-{n}" for n in range(11, 18)), toy.toy_claims, put(toy, "scan", where_it_was)),
    Mutation("R is three times as large", ("CX-9", "CX-10", "CX-11", "CX-12"), lambda: [*mpc.golden(), mpc.arrival()],
             put(mpc, "least_imbalance", damped)),
    Mutation("shares do not sum to one", ("CX-13",), mpc.invariants, put(mpc, "least_imbalance", unequal)),
    Mutation("no deadband", ("CX-14",), mpc.deadband,
             lambda patch: patch.setattr("headgate_lab.papers.mpc.controllers.departs", always)),
    Mutation("the disturbance is counted twice, as printed", ("CX-15",), mpc.bias, count_bias_twice),
    Mutation("Eq. 1 with a tenth more", ("MX-19",), mice.pure_random, scaled(mice, "expected_random_traffic", 1.1)),
    Mutation("offline algorithms choose at random", ("MX-24",), mice.single_source, put(mice, "solve", at_random)),
    Mutation("LeastCost chooses at random", ("MX-20",), mice.in_blocks,
             put(mice, "Host", at_random_host)),
    Mutation("the absolute relaxation is on", ("MX-21",), mice.example_1, put(mice, "Balance", lambda **_: Balance())),
    Mutation("the relative relaxation is a tenth", ("MX-22",), mice.switch, put(mice, "Balance", partial(Balance, relative=0.1))),
    Mutation("no relaxation at all", ("MX-23",), mice.within_limits,
             put(mice, "Host", partial(Host, balance=Balance(absolute=0.0, relative=0.0)))),
    Mutation("a move need not make its pair more even", ("FX-36",), flux.figure_6,
             lambda patch: patch.setattr("headgate.policies.flux_load.STRICTLY", 10.0)),
)  # fmt: skip

SLOW: tuple[Mutation, ...] = (
    Mutation("a counter that returns the hottest alone", ("PX-5",), gedik.lossy, put(gedik, "LossyCounter", Forgetful)),
    Mutation("a stream counts eight times", ("MX-25",), mice.bounds, put(mice, "solve", dear)),
    Mutation("gates are twice as wide", ("FC-10", "FC-12", "FC-13"), faucet.invariants, put(faucet, "Batcher", Wider)),
    Mutation("every third row is lost at a gate", ("FC-11",), faucet.invariants, put(faucet, "Rows", leaking)),
    Mutation("no batch is without output", ("FC-14",), faucet.invariants, put(faucet, "Loop", Careless)),
)  # fmt: skip

NO_MUTATION: dict[str, str] = {
    "FX-22": "holds with 32 machines alone, which takes minutes",
    "FX-34": "tests/simulator/test_plane.py breaks the books that it reads",
    "MX-2": "holds at full scale alone, which takes minutes; MX-6 has the same algorithms broken",
    "MX-9": "holds at full scale alone, which takes minutes; MX-11 has the same rule broken",
    "MX-12": "holds at full scale alone, which takes minutes: in a small lab types are few, and alpha wide",
}
"""Claims that hold and that no mutation was made for, and why."""
