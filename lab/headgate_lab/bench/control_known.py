"""MPC that knows the rates of the jobs and when each running job will end, but not which jobs will come.

It shows how much of the distance to the oracle a forecast could save at most: no forecast that learns from
the past knows more about Poisson jobs than this. For loads of `papers.mpc.load` that are random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.control.plan import Plan
from headgate.control.refusal import Refusal
from headgate.control.view import LoadView
from headgate.policies import Mpc
from headgate.policies.controller import Reading, plan_to, read
from headgate.policies.horizon import Floats, least_time
from headgate.routing.table import Table
from headgate_lab.bench.control_stage import Setting
from headgate_lab.papers.mpc.load import JOB_S, STEP_S, arrivals

CAUTION = 1.0
"""In deviations of the number of jobs that come in a batch."""


@dataclass(frozen=True)
class Knowing(Mpc):
    """Plans for the expected loads, by batch and step ahead, and a margin."""

    expected_s: tuple[Floats, ...] = ()

    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """As MPC, with what is known instead of what was measured."""
        reading = read(view, table, self.rules)
        if not isinstance(reading, Reading):
            return reading
        unit_s = self.expected_s[min(view.reports, len(self.expected_s) - 1)]
        planned = least_time(
            unit_s, reading.shares, move_s=reading.move_s, horizon=self.horizon, upper=reading.upper
        )
        return plan_to(planned, unit_s, reading, view, table, self.rules, policy=self.name)


def knowing(setting: Setting, seed: int) -> Knowing:
    """The controller for one run of a setting whose load is Poisson or cyclic."""
    plain = Mpc(forecast=False)
    steps, length = plain.horizon.prediction, round(JOB_S / STEP_S)
    came, mean = arrivals(
        setting.kind,
        setting.rate,
        perturbed=setting.perturbed,
        steps=setting.batches,
        rng=setting.chance(seed),
        ahead=steps,
    )
    margin = CAUTION * np.sqrt(mean[: len(came)].mean())
    expected = []
    for batch in range(setting.batches):
        known = batch + length - 1  # arrivals before this one have been seen when the batch is planned
        line = np.where(
            np.arange(len(mean))[:, None] < known,
            np.vstack([came, np.zeros((steps, setting.perturbed))]),
            mean[:, None],
        )
        slow = np.ones((steps, setting.channels))
        for step in range(steps):
            slow[step, : setting.perturbed] += line[batch + step : batch + step + length].sum(axis=0) + margin
        expected.append(slow * setting.unit_s)
    return Knowing(forecast=False, expected_s=tuple(expected))
