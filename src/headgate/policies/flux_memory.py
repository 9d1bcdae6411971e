"""Flux's memory policy (section 6.2): the channel that lacks most memory gives a bin to the one with most free.

    excess(c) = memory limit of c - state of c's bins, in memory or on disk        (interpretation FLUX-E1)

The excess is negative if bins must be on disk. Idle time would not help here, because a channel that
spills is busy with its disk. Channels are paired from the least excess to the most. A pair moves the
largest bin that makes the two more even, 0 < size < excess(receiver) - excess(donor). Bins in memory
come before bins on disk, which must be read and processed up to date before they can move. There is no
bound on the receiver: even if memory is exhausted everywhere, a move evens out what is on disk.

The paper says neither how uneven a pair must be nor what a ratio of signed numbers means (FLUX-E2).
Here a channel that lacks memory may always give. Another channel gives only if the shares of memory in
use differ by the ratio `imbalance`, as loads do in the load policy. So the policy stops soon after
everything is in memory, like the paper's.

A channel without a limit has room for everything, so it takes bins, but only from channels
that lack memory. If no channel has a limit the policy proposes nothing. `FluxMemory.paper()`
has one round per plan.

Not here: spilling and loading, which each channel does by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from headgate.control.plan import Plan
from headgate.control.policy import Policy, bytes_moved
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.ids import Bin, Channel
from headgate.policies.pairing import bins_held, even
from headgate.routing.table import Table


@dataclass(frozen=True)
class FluxMemory(Policy):
    """Evens the excess memory of the channels pair by pair.

    `imbalance`: a donor that does not lack memory gives only if its share of memory in use is this many
    times the receiver's. `rounds` bounds the rounds in one plan.
    """

    imbalance: float = 1.2
    rounds: int = 32

    def __post_init__(self) -> None:
        """Check the settings."""
        if not self.imbalance >= 1 or self.rounds < 1:
            raise ConfigError(
                f"flux-memory: imbalance={self.imbalance} and rounds={self.rounds} must be 1 or more"
            )

    def as_printed(self) -> FluxMemory:
        return self.paper()

    @classmethod
    def paper(cls) -> FluxMemory:
        """The policy as printed in the paper."""
        return cls(rounds=1)

    @property
    def name(self) -> str:
        """`flux-memory`."""
        return "flux-memory"

    def propose(self, view: LoadView, table: Table) -> Plan | None:
        """Moves that even the excess; None if it is even, or no channel has a limit."""
        return self.under_name(view, table, self.name)

    def under_name(self, view: LoadView, table: Table, name: str) -> Plan | None:
        """Like `propose`, under the name of another policy."""
        if not view.memory_limit or table.channels < 2:
            return None
        excess = view.excess_bytes(table)
        scale = _Excess(self, view, excess)
        least, most = excess.index(min(excess)), excess.index(max(excess))
        if not scale.worthwhile(least, most):
            return None
        scale.held = bins_held(table)
        moves = even(scale, self.rounds)
        if not moves:
            return None
        donor, short = moves[0].source, sum(spare < 0 for spare in excess)
        state = "is short of" if excess[donor] < 0 else "has only"
        return Plan(
            policy=name,
            from_version=table.version,
            moves=tuple(moves),
            gain=_gain(excess, [-pressure for pressure in scale.pressure], view, donor),
            cost=float(bytes_moved(view, moves)),
            reason=f"channel {donor} {state} {abs(excess[donor]):,.0f} bytes of memory; "
            f"{short} of {table.channels} channels are short",
        )


@dataclass
class _Excess:
    """The pressure of memory, which is the negated excess: see `pairing.Scale`."""

    rule: FluxMemory
    view: LoadView
    excess: list[float]
    held: list[list[Bin]] = field(default_factory=list)
    pressure: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.pressure = [-spare for spare in self.excess]
        self.bounded = [channel for channel, spare in enumerate(self.excess) if math.isfinite(spare)]

    def worthwhile(self, donor: Channel, receiver: Channel) -> bool:
        if self.pressure[donor] > 0 and math.isinf(self.pressure[receiver]):
            return True
        mean = sum(self.pressure[channel] for channel in self.bounded) / len(self.bounded)
        uneven = self._in_use(donor) >= self.rule.imbalance * self._in_use(receiver)
        return self.pressure[donor] > mean and (self.pressure[donor] > 0 or uneven)

    def _in_use(self, channel: Channel) -> float:
        limit = self.view.memory_limit.get(channel)
        return 1 + self.pressure[channel] / limit if limit else math.inf

    def choose(self, donor: Channel, receiver: Channel) -> Bin | None:
        gap = self.pressure[donor] - self.pressure[receiver]
        size = self.view.bin_bytes
        order = sorted(self.held[donor], key=lambda b: (b in self.view.on_disk, -size.get(b, 0), b))
        return next((bin for bin in order if 0 < size.get(bin, 0) < gap), None)

    def shift(self, bin: Bin, donor: Channel, receiver: Channel) -> None:
        size = self.view.bin_bytes[bin]
        self.pressure[donor] -= size
        self.pressure[receiver] += size
        self.held[donor].remove(bin)


def _gain(before: list[float], after: list[float], view: LoadView, donor: Channel) -> float:
    """The share of the lacking memory that the plan saves, or else the share of state that leaves the donor."""
    lacks, still = (sum(max(0.0, -spare) for spare in excess) for excess in (before, after))
    relieved = 1 - still / lacks if lacks > 0 else 0.0
    limit = view.memory_limit[donor]
    fuller = (limit - before[donor]) or 1.0
    return max(relieved, (after[donor] - before[donor]) / fuller)
