"""The paper's runs, made once each: figures and claims that use the same run share it.

`Lab` in full has the paper's ten random imbalances and all of its points; `quick` has two and the
ends and the middle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from headgate.policies.horizon import Floats, Horizon
from headgate_lab.papers.mpc.controllers import (
    GATE_WINDOW,
    LqrOfChanges,
    LqrOfValues,
    MpcAsPrinted,
    MpcInSeconds,
)
from headgate_lab.papers.mpc.load import STEP_S, jobs
from headgate_lab.papers.mpc.query import Controller, Query, QueryRun, run
from headgate_lab.papers.rerun import Progress

Make = Callable[[int], Controller | None]

LOAD_STEPS = 2000
REMEMBERED = 128
WEIGHTS = (0.0, 0.1, 1.0, 10.0, 100.0)
FORMS = {"changes": LqrOfChanges, "values": LqrOfValues}


@dataclass(frozen=True)
class Scenario:
    """A load on some of the machines."""

    kind: str
    rate: float
    machines: int = 3
    perturbed: int = 1

    def jobs(self, seed: int) -> Floats:
        """One random imbalance; the same for every controller."""
        rng = np.random.default_rng([11, seed])
        return jobs(
            self.kind,
            self.rate,
            machines=self.machines,
            perturbed=self.perturbed,
            steps=LOAD_STEPS,
            rng=rng,
        )


TUNED_ON = Scenario("poisson", 3)


@dataclass
class Lab:
    """Runs queries and caches the results."""

    quick: bool = False
    progress: Progress | None = None
    query: Query = field(default_factory=Query)
    cache: dict[tuple[object, ...], list[QueryRun]] = field(default_factory=dict)
    figure: str = ""
    part: float = 0.0
    gate_window: int = GATE_WINDOW

    @cached_property
    def raw(self) -> Lab:
        """The same lab with a gate that looks at each measurement alone."""
        return replace(self, gate_window=1, cache={})

    @property
    def seeds(self) -> int:
        """Random imbalances."""
        return 2 if self.quick else 10

    @property
    def rates(self) -> tuple[int, ...]:
        """External jobs a second, Figure 2 left and middle."""
        return (1, 3, 6) if self.quick else (1, 2, 3, 4, 5, 6)

    @property
    def perturbed(self) -> tuple[int, ...]:
        """Perturbed machines of six, Figure 2 right."""
        return (1, 3, 6) if self.quick else (1, 2, 3, 4, 5, 6)

    def left(self, kind: str) -> tuple[Scenario, ...]:
        """Figure 2 left (poisson) and middle (cyclic)."""
        return tuple(Scenario(kind, rate) for rate in self.rates)

    def right(self) -> tuple[Scenario, ...]:
        """Figure 2 right."""
        return tuple(Scenario("poisson", 3, 6, number) for number in self.perturbed)

    def tell(self, what: str, part: float) -> None:
        """Report progress."""
        self.figure, self.part = what, part
        if self.progress is not None:
            self.progress(what, part)

    def outcomes(self, scenario: Scenario, name: str, make: Make) -> list[QueryRun]:
        """The runs of a controller under all imbalances, from the cache if they were made before."""
        key = (scenario, name)
        if key not in self.cache:
            if self.progress is not None:
                self.progress(f"{self.figure}: {name}, {scenario.kind} {scenario.rate:g}/s", self.part)
            self.cache[key] = [
                run(self.query, scenario.jobs(seed), make(scenario.machines)) for seed in range(self.seeds)
            ]
        return self.cache[key]

    def static(self, scenario: Scenario) -> list[QueryRun]:
        """No adaptation."""
        return self.outcomes(scenario, "static", lambda machines: None)

    def mpc(
        self,
        scenario: Scenario,
        *,
        weight: float = 5.0,
        control: int = 5,
        prediction: int = 10,
        window: int = 1,
        gate: float | None = 0.05,
        normalised: bool = True,
    ) -> list[QueryRun]:
        """The paper's controller."""
        name = f"mpc R={weight:g} Hu={control} Hp={prediction} window={window} gate={gate} {normalised}"
        horizon = Horizon(control, prediction)
        return self.outcomes(
            scenario,
            name,
            lambda n: MpcAsPrinted(
                n,
                weight=weight,
                horizon=horizon,
                window=window,
                gate_window=self.gate_window,
                gate=gate,
                normalised=normalised,
            ),
        )

    def ours(self, scenario: Scenario) -> list[QueryRun]:
        """The cost in seconds with a forecast, and no gate; what a move costs is known."""
        query = self.query

        def make(machines: int) -> Controller:
            part = machines * query.tuples_per_s * STEP_S / query.tuples
            return MpcInSeconds(machines, gate=None, part=part, move_s=query.move_s, remembers=REMEMBERED)

        return self.outcomes(scenario, "ours", make)

    def regulated(self, scenario: Scenario, form: str, weight: float) -> list[QueryRun]:
        """An LQR stand-in of one form and weight."""
        kind = FORMS[form]
        return self.outcomes(
            scenario,
            f"lqr {form} {weight:g}",
            lambda machines: kind(machines, weight=weight, gate_window=self.gate_window),
        )

    def fixed_lqr(self, scenario: Scenario) -> tuple[str, list[QueryRun]]:
        """One LQR for all scenarios, as the paper has one: it penalises input values, as the text says, and its
        weight was tuned once, on one of three machines under 3 jobs a second.
        """
        weight = min(WEIGHTS, key=lambda w: mean_s(self.regulated(TUNED_ON, "values", w)))
        return f"values {weight:g}", self.regulated(scenario, "values", weight)

    def lqr(self, scenario: Scenario) -> tuple[str, list[QueryRun]]:
        """The best LQR stand-in in this scenario, of both forms and all weights: its name and its runs."""
        runs = {
            f"{form} {weight:g}": self.regulated(scenario, form, weight)
            for form in FORMS
            for weight in WEIGHTS
        }
        best = min(runs, key=lambda name: mean_s(runs[name]))
        return best, runs[best]


def mean_s(outcomes: Sequence[QueryRun]) -> float:
    """The mean response time."""
    return float(np.mean([outcome.seconds for outcome in outcomes]))
