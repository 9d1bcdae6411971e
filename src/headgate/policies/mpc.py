"""Model predictive control of the channels' shares (Yfoulis and Gounaris): follow the speed of the channels, but mind the moves.

Every batch it plans shares over a horizon (`horizon`), takes the first step of the plan, and has it turned into moves (`shares`):

    linear      the time of the coming batches, the time of the moves in it; all in seconds, nothing to tune
    quadratic   the paper's: squared deviation from the mean time, plus R times the squared change of shares

R is (seconds that moving a share of 1 takes)^2, from the state's bytes and the measured speed of reading them back, so that both
terms are squared seconds; with `weight` it is that number, and times are divided by their mean first. The model starts from what
was measured in every batch, so a lasting error of the model is not counted twice.

What differs from the paper by default: the linear cost, no gate on short changes (smoothing does its work), a shorter settling
period. `Mpc.paper()` has the paper's. Not here: whether the plan is worth it (`guard`), memory beyond "the receiver has room".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from headgate.control.plan import Plan
from headgate.control.refusal import Refusal
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.policies.controller import Reading, Rules, plan_to, read
from headgate.policies.forecast import cautious
from headgate.policies.horizon import Floats, Horizon, least_imbalance, least_time, load_solver
from headgate.routing.table import Table

REMEMBERED = 128
"""Batches of the past that a forecast looks at."""


@dataclass(frozen=True)
class Mpc:
    """Plans shares over a horizon and moves the first step of it.

    `cost` is `linear` or `quadratic`, `weight` the paper's R for the latter (None: derived from what a move costs).
    `bandwidth_mb_s` is how fast state moves (None: as measured). With `forecast` the channels' costs are predicted from the last
    128 batches, restless ones with caution, else the present ones are taken to last.
    """

    cost: Literal["linear", "quadratic"] = "linear"
    weight: float | None = None
    bandwidth_mb_s: float | None = None
    forecast: bool = False
    horizon: Horizon = field(default_factory=Horizon)
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        """Check the settings, and that the solver is installed."""
        if self.cost not in ("linear", "quadratic"):
            raise ConfigError(f"mpc: cost={self.cost!r} is neither 'linear' nor 'quadratic'")
        if self.weight is not None and (self.cost == "linear" or not self.weight >= 0):
            raise ConfigError(
                f"mpc: weight={self.weight} must be 0 or more, and only the quadratic cost has one"
            )
        if self.bandwidth_mb_s is not None and not self.bandwidth_mb_s > 0:
            raise ConfigError(f"mpc: bandwidth_mb_s={self.bandwidth_mb_s} must be above 0")
        load_solver()  # a missing extra is an error here, and not in a batch

    @classmethod
    def paper(cls, weight: float = 5.0) -> Mpc:
        """The controller as evaluated in the paper, corrected where it is misprinted."""
        return cls("quadratic", weight, rules=Rules(deadband=0.05, gate=0.05, settle=10))

    @property
    def name(self) -> str:
        """`mpc`."""
        return "mpc"

    @property
    def remembers(self) -> int:
        """Batches whose costs the view must keep."""
        return REMEMBERED if self.forecast else 2

    def initial(self, bins: int, channels: int) -> Table:
        """Deal the bins round robin."""
        return Table.uniform(bins, channels)

    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """Moves towards the planned shares; None within the deadband, or the named reason why nothing is decided.

        Law: the next batch, as expected, ends sooner. Cost: 2 ms for 6 channels, 20 ms for 128.
        """
        reading = read(view, table, self.rules, bandwidth_mb_s=self.bandwidth_mb_s)
        if not isinstance(reading, Reading):
            return reading
        unit_s = self._expected(reading)
        planned = self._planned(reading, unit_s)
        return plan_to(planned, unit_s, reading, view, table, self.rules, policy=self.name)

    def _planned(self, reading: Reading, unit_s: Floats) -> Floats | None:
        if self.cost == "linear":
            return least_time(
                unit_s, reading.shares, move_s=reading.move_s, horizon=self.horizon, upper=reading.upper
            )
        weight = reading.move_s**2
        if self.weight is not None:
            weight, unit_s = self.weight, unit_s / unit_s.mean()
        return least_imbalance(
            unit_s, reading.shares, weight=weight, horizon=self.horizon, upper=reading.upper
        )

    def _expected(self, reading: Reading) -> Floats:
        if not self.forecast or not len(reading.history):
            return reading.unit_s
        return np.asarray(cautious(reading.history, self.horizon.prediction), dtype=np.float64)
