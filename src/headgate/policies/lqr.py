"""A linear quadratic regulator of the channels' shares, for comparison with model predictive control.

    e = N' y        y: the channels' times; N: an orthonormal basis of all changes that add up to zero
    e(k+1) = e(k) + G w(k),  G = N' B N,  change of shares = N w
    minimal sum of |e|^2 + weight |w|^2 over an infinite horizon:  w = -K e

The P channels cannot be controlled independently, because deviations from the mean add up to zero. The
literature omits one of them, which then gets the rest; P - 1 coordinates that treat all channels alike
do the same and are better. This keeps the sum of the shares; their bounds are only kept by clipping and
scaling afterwards. Times are divided by their mean, so `weight` has no unit. With the eigenvalues s of
G the regulator separates into scalar equations:

    p = (1 + sqrt(1 + 4 weight / s^2)) / 2,  k = p s / (weight + p s^2)

The papers that describe the LQR controller do not give its state and weights in full; this is the textbook form.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headgate.control.plan import Plan
from headgate.control.policy import Policy
from headgate.control.refusal import Refusal
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.policies.controller import Reading, Rules, plan_to, read
from headgate.policies.horizon import Floats
from headgate.routing.table import Table


@dataclass(frozen=True)
class Lqr(Policy):
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
        """Two batches, for the gate."""
        return 2

    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """Moves towards the regulator's shares; None within the deadband, or a named refusal."""
        reading = read(view, table, self.rules)
        if not isinstance(reading, Reading):
            return reading
        target = regulated(reading.unit_s, reading.shares, self.weight)
        return plan_to(target[None], reading.unit_s, reading, view, table, self.rules, policy=self.name)


def regulated(unit_s: Floats, shares: Floats, weight: float, offset_s: Floats | float = 0.0) -> Floats:
    """The next shares: one step of the regulator, clipped to 0..1 and scaled to sum to 1.

    >>> regulated(np.array([1.0, 1.0]), np.array([0.7, 0.3]), 0.0).round(6).tolist()
    [0.5, 0.5]
    """
    scale = unit_s.mean()
    s, basis = modes(unit_s / scale)
    p = (1 + np.sqrt(1 + 4 * weight / s**2)) / 2
    times = (unit_s * shares + offset_s) / scale
    return bounded(shares - (basis * (p * s / (weight + p * s**2))) @ (basis.T @ times))


def modes(unit: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues of G, and the corresponding changes of shares: columns that add up to zero."""
    size = len(unit)
    zero_sum = np.linalg.qr(np.hstack([np.ones((size, 1)), np.eye(size)[:, 1:]]))[0][:, 1:]
    s, turned = np.linalg.eigh(zero_sum.T @ (unit[:, None] * zero_sum))
    return s, zero_sum @ turned


def bounded(shares: Floats) -> Floats:
    """Shares clipped to 0..1 and scaled to sum to 1."""
    clipped = np.clip(shares, 0.0, 1.0)
    return np.asarray(clipped / clipped.sum(), dtype=np.float64)
