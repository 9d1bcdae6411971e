"""The controllers of the paper around the pure cores in `policies`: what lasts between steps,
and the three rules.

All of them keep the shares they computed apart from the shares in force, so that small steps add up
until one share departs from what is in force by 5% (MPC-E8); wait while a machine's time changed by
more than 5% in a step (MPC-16); and begin after 10 steps (MPC-E10). The gate looks at times that are
averaged over `GATE_WINDOW` steps (MPC-E9): measured anew every 0.1 s they change by more than 5% with
every job that comes or goes, and the gate would hardly ever open. What a controller sees behind the gate
is the last measurement, unless it has the moving average of MPC-21 (`window`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from headgate.policies.forecast import forecast
from headgate.policies.horizon import Floats, Horizon, least_imbalance, least_time
from headgate.policies.lqr import bounded, modes, regulated
from headgate.policies.shares import departs

GATE_WINDOW = 5
"""Steps of the average before the gate: at the mean load of 3 jobs one more job is +25%, so 5% in a step of it."""


@dataclass
class Ruled:
    """The rules, and a moving average of `window` steps; a controller says what the next shares are.

    `gate_window` is the average that the gate looks at.
    """

    machines: int
    deadband: float = 0.05
    gate: float | None = 0.05
    settle: int = 10
    window: int = 1
    gate_window: int = GATE_WINDOW
    seen: int = 0
    past: deque[Floats] = field(default_factory=deque)
    before: Floats | None = None

    def __post_init__(self) -> None:
        """Start with equal shares."""
        self.computed = self.enforced = np.full(self.machines, 1 / self.machines)

    def next(self, unit_s: Floats) -> Floats:
        """The shares after the ones computed last."""
        raise NotImplementedError

    def _mean(self, steps: int) -> Floats:
        return np.asarray(np.mean(np.array(self.past)[-steps:], axis=0), dtype=np.float64)

    def step(self, unit_s: Floats) -> Floats | None:
        """Apply the rules around `next`."""
        self.past.append(unit_s)
        if len(self.past) > max(self.window, self.gate_window):
            self.past.popleft()
        smooth = self._mean(self.gate_window)
        before, self.before = self.before, smooth
        self.seen += 1
        if self.seen <= self.settle or before is None:
            return None
        if self.gate is not None and float(np.abs(smooth / before - 1).max()) > self.gate:
            return None
        self.computed = self.next(self._mean(self.window))
        if not departs(self.computed, self.enforced, self.deadband):
            return None
        self.enforced = self.computed
        return self.enforced


@dataclass
class MpcAsPrinted(Ruled):
    """Eq. 2 with R as given (MPC-14), and B over its mean, as in `policies.Mpc.paper`.

    With `normalised` off B is in seconds for the whole workload; then R hardly counts (MPC-E6).
    """

    weight: float = 5.0
    horizon: Horizon = field(default_factory=Horizon)
    normalised: bool = True

    def next(self, unit_s: Floats) -> Floats:
        """The first step of the plan."""
        unit_s = unit_s / unit_s.mean() if self.normalised else unit_s
        plan = least_imbalance(unit_s, self.computed, weight=self.weight, horizon=self.horizon)
        return self.computed if plan is None else np.asarray(plan[0])


@dataclass
class MpcInSeconds(Ruled):
    """Eq. 1 itself: the time of the next steps with the time of the moves; ours, not the paper's.

    `part` is a step's part of the whole workload, `move_s` the time in which all of the state
    moves. If it remembers earlier steps, it plans for the times that these predict.
    """

    part: float = 1 / 200
    move_s: float = 1.0
    remembers: int = 0
    horizon: Horizon = field(default_factory=Horizon)

    def __post_init__(self) -> None:
        """Start without measurements."""
        super().__post_init__()
        self.history: deque[Floats] = deque(maxlen=self.remembers or 1)

    def step(self, unit_s: Floats) -> Floats | None:
        """Remember the times, then do as every controller."""
        self.history.append(unit_s)
        return super().step(unit_s)

    def next(self, unit_s: Floats) -> Floats:
        """The first step of the plan, from the shares in force, because the cost of
        moves depends on these.
        """
        if self.remembers:
            unit_s = forecast(
                np.array(self.history),
                unit_s,
                self.horizon.prediction,
                alpha=1.0,
                move_s=self.move_s / self.part,
            )
        plan = least_time(self.part * unit_s, self.enforced, move_s=self.move_s, horizon=self.horizon)
        return self.enforced if plan is None else np.asarray(plan[0])


@dataclass
class LqrOfChanges(Ruled):
    """The stand-in that penalises changes of input (MPC-E14): `policies.lqr`."""

    weight: float = 0.1

    def next(self, unit_s: Floats) -> Floats:
        """One step of the regulator."""
        return regulated(unit_s, self.computed, self.weight)


@dataclass
class LqrOfValues(Ruled):
    """The stand-in that penalises input values, as the paper says that the LQR does: the running
    sum of deviations fed back.

    State: the deviations e in the coordinates of `policies.lqr`, and their sum z; input v: the
    shares' distance from equal ones. e(k+1) = G v(k), z(k+1) = z(k) + e(k), least sum of |e|^2 +
    |z|^2 + weight |v|^2. For each eigenvalue s of G, with g = 1 + weight / s^2 and c = (1 + sqrt(1
    + 4 g)) / 2, the Riccati equation gives v = -c / ((c + g) s) * (z + e).
    """

    weight: float = 0.1

    def __post_init__(self) -> None:
        """Start with a sum of zero."""
        super().__post_init__()
        self.summed = np.zeros(self.machines)

    def next(self, unit_s: Floats) -> Floats:
        """State feedback around equal shares."""
        unit = unit_s / unit_s.mean()
        times = unit * self.computed
        self.summed = self.summed + times - times.mean()
        s, basis = modes(unit)
        g = 1 + self.weight / s**2
        c = (1 + np.sqrt(1 + 4 * g)) / 2
        return bounded(1 / self.machines - (basis * (c / ((c + g) * s))) @ (basis.T @ self.summed))
