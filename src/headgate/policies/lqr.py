"""A linear quadratic regulator of the channels' shares: the rival of model predictive control, for comparison.

    e = y - mean(y), without the last channel        e(k+1) = e(k) + G du(k)
    least sum of |e|^2 + weight |du|^2 for ever      du = -K e

The last channel takes what the others leave: all of them together cannot be controlled, since the deviations add up to
zero. The sum of shares is kept by that, their bounds only by cutting and scaling afterwards. Times are divided by their
mean, so `weight` has no unit. With U S V' = G the regulator falls apart into numbers, one for each
singular value s:  p = (1 + sqrt(1 + 4 weight / s^2)) / 2,  k = p s / (weight + p s^2),  K = V diag(k) U'.

The papers that describe the LQR controller do not give its state and weights in full; this is the plain textbook form.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headgate.errors import ConfigError
from headgate.plans.plan import Plan
from headgate.plans.refusal import Refusal
from headgate.policies.controller import Reading, Rules, plan_to, read
from headgate.policies.horizon import Floats
from headgate.reports.load_view import LoadView
from headgate.routing.table import Table


@dataclass(frozen=True)
class Lqr:
    """Feeds the deviations from the mean time back into the shares; a large `weight` makes it slow."""

    weight: float = 0.1
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        """Check the settings."""
        if not 0 <= self.weight < np.inf:
            raise ConfigError(f"lqr: weight={self.weight} must be 0 or more")

    @property
    def name(self) -> str:
        """`lqr`."""
        return "lqr"

    @property
    def remembers(self) -> int:
        """Batches whose costs the view must keep."""
        return 2

    def initial(self, bins: int, channels: int) -> Table:
        """Deal the bins round robin."""
        return Table.uniform(bins, channels)

    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """Moves towards the regulator's shares; None within the deadband, or the named reason why nothing is decided."""
        reading = read(view, table, self.rules)
        if not isinstance(reading, Reading):
            return reading
        target = regulated(reading.unit_s, reading.shares, self.weight)
        return plan_to(target[None], reading.unit_s, reading, view, table, self.rules, policy=self.name)


def regulated(unit_s: Floats, shares: Floats, weight: float, offset_s: Floats | float = 0.0) -> Floats:
    """The next shares: one step of the regulator, cut to 0..1 and scaled to sum 1.

    >>> regulated(np.array([1.0, 1.0]), np.array([0.7, 0.3]), 0.0).round(6).tolist()
    [0.5, 0.5]
    """
    scale = unit_s.mean()
    times = (unit_s * shares + offset_s) / scale
    u, s, v = np.linalg.svd(response(unit_s / scale))
    p = (1 + np.sqrt(1 + 4 * weight / s**2)) / 2
    change = -(v.T * (p * s / (weight + p * s**2))) @ u.T @ (times - times.mean())[:-1]
    return bounded(shares + np.append(change, -change.sum()))


def response(unit: Floats) -> Floats:
    """G: what a change of the first shares, the last channel taking the opposite, does to the first deviations."""
    size = len(unit)
    spread = np.diag(unit) - unit / size
    return np.asarray(spread[:-1, :-1] - spread[:-1, -1:], dtype=np.float64)


def bounded(shares: Floats) -> Floats:
    """Shares cut to 0..1 and scaled to sum 1."""
    cut = np.clip(shares, 0.0, 1.0)
    return np.asarray(cut / cut.sum(), dtype=np.float64)
