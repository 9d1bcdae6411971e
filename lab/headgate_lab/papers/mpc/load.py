"""The external load: jobs of one second that share a machine with the query. All chance comes
in as a Generator.

    poisson   arrivals at a constant mean rate
    cyclic    the mean rate times (1 + sin(2 pi t / 5 s)) / 2: half as many on average (MPC-E18)
    step      the rate's mean number of jobs, from a third of the time on, for good
    drift     from none to twice the rate's mean number, slowly

A machine with n jobs works at 1 / (1 + n) of its speed: the processor is shared (MPC-E13).
"""

from __future__ import annotations

import numpy as np

from headgate.errors import ConfigError
from headgate.policies.horizon import Floats

STEP_S = 0.1
JOB_S = 1.0
PERIOD_S = 5.0
KINDS = ("poisson", "cyclic", "step", "drift")


def jobs(
    kind: str, rate: float, *, machines: int, perturbed: int, steps: int, rng: np.random.Generator
) -> Floats:
    """The jobs that run on each machine in each step of 0.1 s; only the first
    `perturbed` machines have any.

    The load is warm from the first step on: jobs that came before are there.
    """
    if kind not in KINDS:
        raise ConfigError(f"load {kind!r} is none of {', '.join(KINDS)}")
    running = np.zeros((steps, machines))
    time = np.arange(steps) * STEP_S
    if kind == "step":
        running[steps // 3 :, :perturbed] = rate
        return running
    if kind == "drift":
        running[:, :perturbed] = 2 * rate * (time / time[-1])[:, None]
        return running
    arrived, _ = arrivals(kind, rate, perturbed=perturbed, steps=steps, rng=rng)
    for machine in range(perturbed):
        running[:, machine] = np.convolve(arrived[:, machine], np.ones(round(JOB_S / STEP_S)), "valid")
    return running


def arrivals(
    kind: str, rate: float, *, perturbed: int, steps: int, rng: np.random.Generator, ahead: int = 0
) -> tuple[Floats, Floats]:
    """The jobs that arrive in each step, from one job's length before the first, and the
    expected number, for `ahead` steps more.
    """
    begin = -round(JOB_S / STEP_S) + 1
    time = np.arange(begin, steps + ahead) * STEP_S
    mean = np.full(len(time), rate * STEP_S)
    if kind == "cyclic":
        mean *= (1 + np.sin(2 * np.pi * time / PERIOD_S)) / 2
    return rng.poisson(mean[: steps - begin, None], (steps - begin, perturbed)).astype(np.float64), mean
