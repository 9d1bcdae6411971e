"""The default policy: memory first, then hot keys and load, for channels as fast as they lastingly are.

While a bin is on disk, the memory policy decides (`flux_memory`), because reading from disk costs more than
imbalance. Otherwise `rebuild` decides, which pins and splits hot keys and balances bins with them. It sees
a channel as slower or faster than the others only if it is so for long: its cost of a row differs from the
median channel's by `unlike` in each of the last `lasting` batches, and smoothed. So a slow machine gets
less work, and a moment's noise moves nothing. Nor does a gain that chance explains: of few rows some channel always
has more than the others. A plan of `rebuild` that would leave a channel without
enough memory is not proposed; the load policy (`flux_load`) takes its place, which moves bins only where there is room.

Not here: predicting speeds (`mpc`), and whether the plan is worth its cost (`guard`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Self

from headgate.control.plan import Plan, apply
from headgate.control.policy import Policy
from headgate.control.refusal import Refusal
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.policies.flux_load import FluxLoad
from headgate.policies.flux_memory import FluxMemory
from headgate.policies.rebuild import Rebuild
from headgate.routing.table import Table


@dataclass(frozen=True)
class Adaptive(Policy):
    """Memory while something is spilled, otherwise `rebuild` with lasting speeds. Each part keeps its settings."""

    unlike: float = 1.25
    lasting: int = 2
    rebuild: Rebuild = field(default_factory=lambda: Rebuild(speeds=True))
    load: FluxLoad = field(default_factory=FluxLoad)
    memory: FluxMemory = field(default_factory=FluxMemory)

    def __post_init__(self) -> None:
        """Check the settings."""
        if not self.unlike > 1 or self.lasting < 1:
            raise ConfigError(
                f"adaptive: unlike={self.unlike} must be above 1, lasting={self.lasting} 1 or more"
            )

    @property
    def name(self) -> str:
        """`adaptive`."""
        return "adaptive"

    @property
    def remembers(self) -> int:
        """The batches in which a channel must have been unlike the others."""
        return self.lasting

    def fitted(self, resources: str, *, whole: str = "") -> Self:
        """This policy for an operator, as `Rebuild.fitted`."""
        return replace(self, rebuild=self.rebuild.fitted(resources, whole=whole))

    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """The memory policy's plan while a bin is on disk, otherwise `rebuild`'s where memory allows it."""
        if view.on_disk:
            plan = self.memory.under_name(view, table, self.name)
            if plan is not None:
                return plan
        seen = lasting_speeds(view, table.channels, unlike=self.unlike, lasting=self.lasting)
        proposed = self.rebuild.propose(seen, table)
        if not isinstance(proposed, Plan):
            return proposed
        if proposed.gain < chance(view, table.channels):
            return None
        if _fits(proposed, view, table):
            return replace(proposed, policy=self.name)
        return self.load.within(seen, table, view.excess_bytes, self.name)

    def resize(self, view: LoadView, table: Table, channels: int) -> Plan | None:
        """The plan of `rebuild` for another number of channels."""
        seen = lasting_speeds(view, table.channels, unlike=self.unlike, lasting=self.lasting)
        return replace(self.rebuild.resize(seen, table, channels), policy=self.name)


def lasting_speeds(view: LoadView, channels: int, *, unlike: float, lasting: int) -> LoadView:
    """The view with the median cost on all channels, except for those that have been unlike it for long."""
    costs = [view.measured_cost_ms(channel) for channel in range(channels)]
    usual = median(costs)
    recent = view.history[-lasting:] if len(view.history) >= lasting else ()
    kept = {}
    for channel, cost in enumerate(costs):
        ratios = [row[channel] / median(row) for row in recent if len(row) == channels and median(row) > 0]
        smooth = cost / usual if usual > 0 else 1.0
        slow = min(smooth, *ratios) >= unlike if ratios else False
        fast = max(smooth, *ratios) <= 1 / unlike if ratios else False
        kept[channel] = usual * sum(ratios) / len(ratios) if slow or fast else usual
    return replace(view, channel_cost_ms=kept)


def chance(view: LoadView, channels: int) -> float:
    """By how much the fullest of equal channels exceeds the mean because rows are few.

    The largest of C deviations is about sqrt(2 ln C) standard deviations, and smoothing by alpha counts
    (2 - alpha) / alpha batches.

    >>> round(chance(LoadView(bin_work={0: 1000.0}), 8), 3)
    0.105
    """
    rows = sum(view.bin_work.values()) * (2 - view.alpha) / view.alpha
    if channels < 2 or rows <= 0 or view.basis != "rows":
        return 0.0
    return math.sqrt(2 * math.log(channels) * channels / rows)


def _fits(plan: Plan, view: LoadView, table: Table) -> bool:
    """Whether no channel is short of memory after the plan that is not already."""
    if not view.memory_limit:
        return True
    after = apply(plan, table, table.from_batch)
    before = view.excess_bytes(table)
    then = view.under(after).excess_bytes(after)
    return all(spare >= min(0.0, had) for spare, had in zip(then, before, strict=True))
