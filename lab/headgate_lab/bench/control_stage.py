"""A stage in batches, without Spark: channels whose speed an external load changes; real
policies, guard and loop.

Every batch has the same rows. A channel takes rows * cost * (1 + jobs) for its part of them,
and bytes / bandwidth for the state that it gives or takes under a new table; the batch takes as
long as its slowest channel. Loads go by batch, so that every policy sees the same and the
future can be known: the oracle plans shares for all of it, without the limits of whole bins. No
policy can be faster.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from headgate.control.loop import Loop
from headgate.control.plan import Plan
from headgate.control.refusal import Refusal
from headgate.control.report import BatchReport, BinReport, ChannelReport
from headgate.control.view import LoadView
from headgate.policies import Guard, Policy
from headgate.policies.horizon import Floats, Horizon, least_time
from headgate.routing.table import Table
from headgate_lab.papers.mpc.load import jobs

ROW_MS = 0.1
CHANNEL_ROWS = 1000
CHANNEL_BYTES = 42_500_000
BYTES_PER_MS = 125_000


@dataclass(frozen=True)
class Setting:
    """A load on some of the channels of a stage."""

    kind: str
    channels: int
    perturbed: int
    rate: float = 3.0
    batches: int = 150
    bins_per_channel: int = 32

    @property
    def name(self) -> str:
        """The load in words."""
        return f"{self.kind} {self.rate:g}/s, {self.perturbed} of {self.channels}"

    def slow(self, seed: int) -> Floats:
        """By how much each channel is slower in each batch."""
        load = jobs(
            self.kind,
            self.rate,
            machines=self.channels,
            perturbed=self.perturbed,
            steps=self.batches,
            rng=self.chance(seed),
        )
        return 1 + load

    def chance(self, seed: int) -> np.random.Generator:
        """What the load is drawn from."""
        return np.random.default_rng([23, seed])

    @property
    def unit_s(self) -> float:
        """The time of all the work on one undisturbed channel."""
        return self.channels * CHANNEL_ROWS * ROW_MS / 1e3

    @property
    def move_s(self) -> float:
        """The time in which a channel gives or takes all of the state."""
        return self.channels * CHANNEL_BYTES / BYTES_PER_MS / 1e3


@dataclass(frozen=True)
class Run:
    """What a policy achieved: the response time of all batches, what it moved, how often, and
    how long its decisions took.
    """

    seconds: float
    moved_mb: float
    adaptations: int
    planning_ms: tuple[float, ...]


@dataclass
class Timed(Policy):
    """A policy with a watch."""

    inner: Policy
    spent_ms: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As the policy itself."""
        return self.inner.name

    @property
    def remembers(self) -> int:
        """The policy's own."""
        return self.inner.remembers

    def initial(self, bins: int, channels: int) -> Table:
        """As the policy itself."""
        return self.inner.initial(bins, channels)

    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """As the policy itself, timed."""
        begin = time.thread_time()
        try:
            return self.inner.propose(view, table)
        finally:
            self.spent_ms.append(1e3 * (time.thread_time() - begin))


def drive(setting: Setting, policy: Policy, seed: int) -> Run:
    """Run a policy under the default guard, free to act in every batch."""
    timed = Timed(policy)
    bins = setting.channels * setting.bins_per_channel
    table = timed.initial(bins, setting.channels)
    loop = Loop(timed, Guard(cool_down_batches=0), "act", table)
    bin_rows = CHANNEL_ROWS / setting.bins_per_channel
    bin_bytes = CHANNEL_BYTES // setting.bins_per_channel
    place = np.array(table.assignment)
    total_ms, moved, adaptations = 0.0, 0, 0
    taken = given = np.zeros(setting.channels, dtype=np.int64)
    for batch, slow in enumerate(setting.slow(seed)):
        held = np.bincount(place, minlength=setting.channels)
        work_ms = held * bin_rows * ROW_MS * slow
        read_ms = taken * bin_bytes / BYTES_PER_MS
        wall_ms = float((work_ms + read_ms + given * bin_bytes / BYTES_PER_MS).max())
        total_ms += wall_ms
        channels = tuple(
            ChannelReport(
                channel=c,
                rows=round(held[c] * bin_rows),
                busy_ms=float(work_ms[c] + read_ms[c]),
                state_bytes=int(held[c]) * bin_bytes,
                rebuilt_bins=int(taken[c]),
                read_ms=float(read_ms[c]),
            )
            for c in range(setting.channels)
        )
        bins_seen = tuple(BinReport(b, round(bin_rows), state_bytes=bin_bytes) for b in range(bins))
        rows = setting.channels * CHANNEL_ROWS
        decision = loop.step(BatchReport(batch, loop.table.version, rows, wall_ms, channels, bins_seen))
        new = np.array(decision.table.assignment)
        gone = np.flatnonzero(new != place)
        taken, given = (np.bincount(ends[gone], minlength=setting.channels) for ends in (new, place))
        moved += len(gone) * bin_bytes
        adaptations += decision.changed
        place = new
    return Run(total_ms / 1e3, moved / 1e6, adaptations, tuple(timed.spent_ms))


def oracle(setting: Setting, seed: int) -> Run:
    """The shares that are best for the loads of the whole run; like all policies it begins with
    equal ones and acts from the second batch on.
    """
    unit_s = setting.slow(seed) * setting.unit_s
    even = np.full(setting.channels, 1 / setting.channels)
    horizon = Horizon(len(unit_s) - 1, len(unit_s) - 1)
    plan = least_time(unit_s[1:], even, move_s=setting.move_s, horizon=horizon, tidy=1e-4)
    assert plan is not None
    shares = np.vstack([even, plan])
    changes = np.abs(np.diff(shares, axis=0, prepend=even[None]))
    return Run(
        seconds=float((unit_s * shares + setting.move_s * changes).max(axis=1).sum()),
        moved_mb=float(changes.sum()) / 2 * setting.channels * CHANNEL_BYTES / 1e6,
        adaptations=int((changes.max(axis=1) > 1e-4).sum()),
        planning_ms=(),
    )
