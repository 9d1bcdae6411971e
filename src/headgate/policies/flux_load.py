"""Flux's load balancing policy (section 5.3): the busiest channel gives a bin to the idlest, pair by pair.

    U(c) = busy share of the time        U'(donor) = U - n(bin) * unit(donor)
    unit(c) = U(c) / rows(c)             U'(receiver) = U + n(bin) * unit(receiver)

A pair is skipped if the donor is below the mean, U(donor) / U(receiver) < imbalance, or the
receiver is above `receiver`. A bin moves only if the difference of the pair shrinks and the
receiver stays within 1.

The utilization U is measured in two ways. For a continuous pipeline, `measured` is busy_ms / wall_ms,
which is 1 minus the idle share of the paper. A batch lasts as long as its busiest channel, so
`relative` is the load divided by the load of the busiest channel. The rest of the policy is the same.

`FluxLoad.paper()` is the paper's policy exactly: it takes the first bin in order of rows that helps at
all, and one round per plan. The default differs in three settings. It takes the bin that evens the pair
best, which needs fewer moves. A plan holds several rounds, each predicted from the one before, because
moves at the boundary of a batch need no extra pause. And it starts at the ratio `imbalance` but
continues to `settle`: moving has a cost, so a small imbalance starts nothing, but a plan that starts is
finished. With relative utilization it proposes nothing if the busiest channel cannot be relieved,
because nothing else shortens the batch.

Not here: memory (`flux_memory`), splitting a bin (pins), and whether the plan is worth its cost (`guard`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from headgate.control.plan import Plan
from headgate.control.policy import Policy, bytes_moved
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.ids import Bin, Channel
from headgate.policies.pairing import STRICTLY, bins_held, even
from headgate.routing.table import Table


@dataclass(frozen=True)
class FluxLoad(Policy):
    """Evens the channels' utilizations pair by pair.

    `imbalance` is Flux's th_imb: the ratio in the first pair that starts a plan. `rounds` bounds the
    rounds in one plan; `settle`, at most `imbalance`, is the ratio at which they end. `choice` is
    `best` or `first`. `utilization` is `relative` or `measured`. `receiver` is Flux's th_util: a
    channel above it receives nothing.
    """

    imbalance: float = 1.1
    rounds: int = 32
    settle: float = 1.02
    choice: Literal["best", "first"] = "best"
    utilization: Literal["relative", "measured"] = "relative"
    receiver: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        if not self.imbalance >= 1 or self.rounds < 1:
            raise ConfigError(
                f"flux-load: imbalance={self.imbalance} and rounds={self.rounds} must be 1 or more"
            )
        if not self.settle >= 1:
            raise ConfigError(
                f"flux-load: settle={self.settle} is a ratio of two loads and must be 1 or more"
            )
        if self.choice not in ("best", "first"):
            raise ConfigError(f"flux-load: choice={self.choice!r} is neither 'best' nor 'first'")
        if self.utilization not in ("relative", "measured"):
            raise ConfigError(
                f"flux-load: utilization={self.utilization!r} is neither 'relative' nor 'measured'"
            )
        if not 0 < self.receiver <= 1:
            raise ConfigError(f"flux-load: receiver={self.receiver} is outside (0, 1]")

    def as_printed(self) -> FluxLoad:
        return self.paper()

    @classmethod
    def paper(cls) -> FluxLoad:
        """The policy as printed in the paper, with the thresholds of section 5.4."""
        return cls(1.2, 1, settle=1.2, choice="first", utilization="measured", receiver=0.9)

    @property
    def name(self) -> str:
        """`flux-load`."""
        return "flux-load"

    def propose(self, view: LoadView, table: Table) -> Plan | None:
        """Moves that even the pairs; None if the first pair is even enough or no move helps it.

        Law: no move makes its pair worse. Cost: one pass over the channels if there is nothing to do,
        otherwise one pass over the donor's bins for each round and pair.
        """
        return self.within(view, table, lambda table: [math.inf] * table.channels, self.name)

    def within(
        self, view: LoadView, table: Table, room: Callable[[Table], list[float]], name: str
    ) -> Plan | None:
        """Like `propose`, under another policy's name; `room` gives each channel's free bytes under a table."""
        used, load_scale = self._utilizations(view, table)
        if table.channels < 2 or max(used) <= 0 or not self._starts(used):
            return None
        held = bins_held(table)
        unit = self._units(view, used, held, load_scale)
        scale = _Utilization(self, view, used, unit, held, room(table))
        moves = even(scale, self.rounds, first_decides=self.utilization == "relative")
        if not moves:
            return None
        busiest = moves[0].source
        touched = {busiest, *(move.target for move in moves if move.source == busiest)}
        mean = sum(used) / len(used)
        return Plan(
            policy=name,
            from_version=table.version,
            moves=tuple(moves),
            gain=1 - max(scale.pressure[channel] for channel in touched) / used[busiest],
            cost=float(bytes_moved(view, moves)),
            reason=f"channel {busiest} has {used[busiest] / mean:.2f} times the mean load",
        )

    def _starts(self, used: list[float]) -> bool:
        high, low = max(used), min(used)
        return low <= self.receiver and high >= self.imbalance * low and high > sum(used) / len(used)

    def _utilizations(self, view: LoadView, table: Table) -> tuple[list[float], float]:
        """Every channel's utilization, and the utilization that one ms of load causes."""
        if self.utilization == "measured":
            used = [view.utilization.get(channel, 0.0) for channel in range(table.channels)]
            return used, 1 / view.period_ms if view.period_ms > 0 else 0.0
        load = view.under(table).channel_load
        peak = max(load)
        scale = 1 / peak if peak > 0 else 0.0
        return [ms * scale for ms in load], scale

    def _units(
        self, view: LoadView, used: list[float], held: list[list[Bin]], load_scale: float
    ) -> list[float]:
        """What one row adds to each channel's utilization."""
        units = [view.row_cost_ms(channel) * load_scale for channel in range(len(used))]
        if self.utilization == "measured":
            # A channel without rows keeps its earlier cost per row, or else the cost elsewhere (FLUX-E5).
            for channel, bins in enumerate(held):
                rows = sum(view.bin_work.get(bin, 0.0) for bin in bins)
                if rows > 0 and used[channel] > 0:
                    units[channel] = used[channel] / rows
        return units


@dataclass
class _Utilization:
    """The pressure of load: see `pairing.Scale`."""

    rule: FluxLoad
    view: LoadView
    used: list[float]
    unit: list[float]
    held: list[list[Bin]]
    room: list[float]
    pressure: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.pressure = list(self.used)
        self.least = min(self.rule.imbalance, self.rule.settle)
        self.mean = sum(self.used) / len(self.used)

    def worthwhile(self, donor: Channel, receiver: Channel) -> bool:
        high, low = self.pressure[donor], self.pressure[receiver]
        return high * STRICTLY > self.mean and high >= self.least * low and low <= self.rule.receiver

    def choose(self, donor: Channel, receiver: Channel) -> Bin | None:
        if self.rule.choice == "first":
            order = sorted(self.held[donor], key=lambda bin: (-self.view.bin_work.get(bin, 0.0), bin))
            return next((bin for bin in order if self._helps(bin, donor, receiver)), None)
        best = min((self._judged(bin, donor, receiver) for bin in self.held[donor]), default=None)
        return best[2] if best is not None and best[0] < self.pressure[donor] * STRICTLY else None

    def shift(self, bin: Bin, donor: Channel, receiver: Channel) -> None:
        self.pressure[donor], self.pressure[receiver] = self._after(bin, donor, receiver)
        self.held[donor].remove(bin)
        self.room[donor] += self.view.bin_bytes.get(bin, 0)
        self.room[receiver] -= self.view.bin_bytes.get(bin, 0)
        self.mean = sum(self.pressure) / len(self.pressure)

    def _after(self, bin: Bin, donor: Channel, receiver: Channel) -> tuple[float, float]:
        work = self.view.bin_work.get(bin, 0.0)
        return (
            self.pressure[donor] - work * self.unit[donor],
            self.pressure[receiver] + work * self.unit[receiver],
        )

    def _fits(self, bin: Bin, low: float, receiver: Channel) -> bool:
        return low <= 1 and self.view.bin_bytes.get(bin, 0) <= self.room[receiver]

    def _helps(self, bin: Bin, donor: Channel, receiver: Channel) -> bool:
        """Whether the difference shrinks strictly, whichever of the two is then the busier (FLUX-E3)."""
        if self.view.bin_work.get(bin, 0.0) <= 0:
            return False
        high, low = self._after(bin, donor, receiver)
        gap = self.pressure[donor] - self.pressure[receiver]
        return abs(high - low) < gap * STRICTLY and self._fits(bin, low, receiver)

    def _judged(self, bin: Bin, donor: Channel, receiver: Channel) -> tuple[float, int, Bin]:
        high, low = self._after(bin, donor, receiver)
        peak = max(high, low) if self._fits(bin, low, receiver) else math.inf
        return peak, self.view.bin_bytes.get(bin, 0), bin
