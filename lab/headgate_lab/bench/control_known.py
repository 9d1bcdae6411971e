"""MPC that knows what nobody can know: what the distance to the oracle is made of.

`knowing` has the rates of the jobs and when each running job will end, but not which jobs will come: no
forecast that learns from the past knows more about Poisson jobs. For loads of `papers.mpc.load` that are
random. `foreseeing` has the loads of the next ten batches: what it misses is due to whole bins, the
guard and the horizon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.control.view import LoadView
from headgate.policies import Mpc
from headgate.policies.controller import Reading
from headgate.policies.horizon import Floats
from headgate_lab.bench.control_stage import Setting
from headgate_lab.papers.mpc.load import JOB_S, STEP_S, arrivals

CAUTION = 1.0
"""In deviations of the number of jobs that come in a batch."""


@dataclass(frozen=True)
class Knowing(Mpc):
    """Plans for costs that are given, by batch and step ahead."""

    expected_s: tuple[Floats, ...] = ()

    def expected(self, reading: Reading, view: LoadView) -> Floats:
        """What is known instead of what was measured."""
        return self.expected_s[min(view.reports, len(self.expected_s) - 1)]


def foreseeing(setting: Setting, seed: int) -> Knowing:
    """The controller that knows the loads of the coming batches, as many as it plans for."""
    plain = Mpc(forecast=False)
    slow = setting.slow(seed) * setting.unit_s
    later = np.vstack([slow, np.repeat(slow[-1:], plain.horizon.prediction, axis=0)])
    known = tuple(later[batch : batch + plain.horizon.prediction] for batch in range(len(slow)))
    return Knowing(forecast=False, expected_s=known)


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
