"""Model predictive control of the channels' shares (Yfoulis and Gounaris).

The shares follow the speed of the channels, weighed against the cost of moves. In every batch the
controller plans shares over a horizon (`horizon`), takes the first step of the plan, and turns it into
moves (`shares`), with the linear cost those with which the batches take least (`whole_bins`). It minimises one
of two costs:

    linear      the time of the coming batches including moves; all in seconds, nothing to tune
    quadratic   the paper's: squared deviation from the mean time, plus R times the squared change of shares

R is (seconds to move a share of 1)^2, from the bytes of state and the measured speed of reading them,
so that both terms are squared seconds. If `weight` is given, R is that number, and times are divided by
their mean first. The model starts from the measurements of every batch, so a lasting error of the model
is not counted twice.

The defaults differ from the paper: the linear cost, a forecast of the channels' speeds, no gate on short changes (smoothing replaces it),
and a shorter settling period. `Mpc.paper()` has the paper's. Not here: whether the plan is worth its
cost (`guard`), and memory, except that a receiver must have enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from headgate.control.plan import Plan
from headgate.control.policy import Policy
from headgate.control.refusal import Refusal
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.policies.controller import Reading, Rules, plan_to, read
from headgate.policies.forecast import forecast
from headgate.policies.horizon import Floats, Horizon, least_imbalance, least_time, load_solver
from headgate.policies.whole_bins import soonest
from headgate.routing.table import Move, Table

REMEMBERED = 128
"""The number of past batches that a forecast uses."""


@dataclass(frozen=True)
class Mpc(Policy):
    """Plans shares over a horizon and carries out the first step.

    `cost` is `linear` or `quadratic`; `weight` is the paper's R for the latter (None: derived from the
    cost of a move). `bandwidth_mb_s` is the speed of moving state (None: as measured). With `forecast`
    the channels' costs are predicted from the last 128 batches (`forecast`), as far as predictions would
    have helped in these; otherwise the current costs are assumed to last.
    """

    cost: Literal["linear", "quadratic"] = "linear"
    weight: float | None = None
    bandwidth_mb_s: float | None = None
    forecast: bool = True
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

    def as_printed(self) -> Mpc:
        return self.paper()

    @classmethod
    def paper(cls, weight: float = 5.0) -> Mpc:
        """The controller as evaluated in the paper, with its misprints corrected."""
        return cls("quadratic", weight, forecast=False, rules=Rules(deadband=0.05, gate=0.05, settle=10))

    @property
    def name(self) -> str:
        """`mpc`."""
        return "mpc"

    @property
    def remembers(self) -> int:
        """As many batches as a forecast uses; without a forecast two, for the gate."""
        return REMEMBERED if self.forecast else 2

    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """Moves towards the planned shares; None within the deadband, or a named refusal.

        Law: the next batch is expected to end sooner. Cost: 2 ms for 6 channels, 20 ms for 128.
        """
        reading = read(view, table, self.rules, bandwidth_mb_s=self.bandwidth_mb_s)
        if not isinstance(reading, Reading):
            return reading
        unit_s = self.expected(reading, view)
        planned = self._planned(reading, unit_s)
        refine = None if planned is None else self._refine(reading, planned, unit_s, table)
        return plan_to(planned, unit_s, reading, view, table, self.rules, policy=self.name, refine=refine)

    def _refine(
        self, reading: Reading, planned: Floats, unit_s: Floats, table: Table
    ) -> Callable[[tuple[Move, ...]], tuple[Move, ...]] | None:
        """What makes better moves of those nearest to the planned shares; None: they stay."""
        if self.cost != "linear":
            return None
        return partial(
            soonest,
            planned=planned,
            unit_s=unit_s,
            bins=reading.bins,
            table=table,
            room=reading.room,
            move_s=reading.move_s,
            steps=self.horizon.prediction,
        )

    def expected(self, reading: Reading, view: LoadView) -> Floats:
        """The costs to plan for: those of now, or one row for each coming batch."""
        if not self.forecast or not len(reading.history):
            return reading.unit_s
        return forecast(
            reading.history,
            reading.unit_s,
            self.horizon.prediction,
            alpha=view.alpha,
            move_s=reading.move_s,
        )

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
