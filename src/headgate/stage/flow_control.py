"""Decides which rows of the next batch are processed and which wait. The driver decides before
the batch, and the tasks obey.

There are three reasons for the rows of a bin to wait in the backlog: its state is on disk because
the channel is short of memory (`flow.rotation`); its state is moving and is more than may arrive in
one batch; or its channel is late and has a buffer (`flow.skew_buffer`). Everything that must be
remembered between batches is committed with them.

Law: nothing waits for ever. Bins that wait for memory, or to arrive, stand in a queue; its head is
served when its turn comes, whatever else arrives. Once the reason for waiting has ended, all rows
of the bin are processed in that batch, even if the channel is late
(`tests/laws/test_waiting_laws.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.flow.backlog import Backlog
from headgate.flow.flow_state import FlowState
from headgate.flow.rotation import Rotation, rotate
from headgate.flow.shared_memory import SharedMemory
from headgate.flow.skew_buffer import WorkBudget, work_budgets
from headgate.routing.table import Table
from headgate.sizes import parse_bytes, show_bytes
from headgate.stage.settings import Limits
from headgate.storage.manifest import Manifest

EVERYTHING = WorkBudget(math.inf, 0)


@dataclass(frozen=True)
class Flow:
    """The orders for one batch: the rows that wait already, the bins whose rows are to wait
    (`asleep`), the tables to evict by channel, and each channel's share of time and buffer.
    """

    backlog: Backlog
    shares: tuple[WorkBudget, ...]
    asleep: frozenset[int] = frozenset()
    on_disk: frozenset[int] = frozenset()
    in_flight: tuple[int, ...] = ()
    """Bins whose state is still moving, those that have waited longest first."""
    evicted: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    rotation: Mapping[int, Rotation] = field(default_factory=dict)
    limits: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def everything(cls, table: Table) -> Flow:
        """Nothing waits."""
        return cls(Backlog(), (EVERYTHING,) * table.channels)


class FlowControl:
    """A stage's limits for memory, buffer and arriving state. Memory can be granted and reclaimed
    while the stage runs (FLUX-34).
    """

    def __init__(self, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        memory = limits.memory
        self.shared = memory if isinstance(memory, SharedMemory) else None
        self.memory: int | None = None
        if memory is not None and not isinstance(memory, SharedMemory):
            self.memory = parse_bytes(memory, "memory")
        self.buffer = None if limits.buffer is None else parse_bytes(limits.buffer, "buffer")
        self.arrivals = None if limits.arrivals is None else parse_bytes(limits.arrivals, "arrivals")
        self.turn_ms = limits.turn_ms
        self._limits: dict[int, int] = {}

    def limit(self, channel: int) -> int | None:
        """Bytes of state that a channel may hold in memory."""
        return self._limits.get(channel, self.memory)

    def change(self, amount: str | int, channels: Iterable[int], *, sign: int) -> None:
        """Grant (`sign=1`) or reclaim (`sign=-1`) this amount on each of these
        channels, from the next batch on.
        """
        self._limits.update(self.changed(amount, channels, sign=sign))

    def changed(self, amount: str | int, channels: Iterable[int], *, sign: int) -> dict[int, int]:
        """The limits that `change` would set; an error if that is not possible."""
        size = sign * parse_bytes(amount, "amount")
        if self.shared is not None:
            raise ConfigError(
                f"this stage shares its memory with others ({self.shared!r}), which cannot be changed while it runs"
            )
        if self.memory is None:
            raise ConfigError(
                "this stage has no memory budget to change; make it with Stage(limits=hg.Limits(memory=...))"
            )
        wanted = {channel: self._limits.get(channel, self.memory) + size for channel in channels}
        short = [channel for channel, limit in wanted.items() if limit < 1]
        if short:
            has = self._limits.get(short[0], self.memory)
            raise ConfigError(
                f"channel {short[0]} has {show_bytes(has)}, {show_bytes(-size)} cannot be taken from it"
            )
        return wanted

    def prepare(self, table: Table, view: LoadView, last: Manifest | None) -> Flow:
        """The orders for the next batch under a table; `last` is the newest commit."""
        sizes = {} if last is None else {bin: last.state.sizes.get(bin, 0) for bin in table.bins}
        if self.shared is not None:
            held = {
                channel: sum(sizes.get(bin, 0) for bin in table.bins_of(channel))
                for channel in range(table.channels)
            }
            self._limits = self.shared.limits(self, held)
        if last is None:
            return replace(Flow.everything(table), limits=self._limits_of(table))
        backlog, flow, before = last.backlog, last.flow, last.table
        in_flight = self._in_flight(table, before, sizes, view, flow)
        # A bin may have both rows that wait and due work.
        waited_for = dict.fromkeys((*backlog.rows, *_due(last)))
        waiting = [bin for bin in waited_for if bin not in in_flight]
        rotation, out = self._rotate(table, sizes, waiting, flow)
        return Flow(
            backlog=backlog,
            shares=tuple(work_budgets(view, table, backlog, self.buffer))
            if self.buffer is not None
            else (EVERYTHING,) * table.channels,
            asleep=out.union(in_flight),
            on_disk=out,
            in_flight=in_flight,
            evicted=_evicted(table, before, out, flow),
            rotation=rotation,
            limits=self._limits_of(table),
        )

    def _limits_of(self, table: Table) -> dict[int, int]:
        limits = {channel: self.limit(channel) for channel in range(table.channels)}
        return {channel: limit for channel, limit in limits.items() if limit is not None}

    def _rotate(
        self, table: Table, sizes: Mapping[int, int], waiting: list[int], flow: FlowState
    ) -> tuple[dict[int, Rotation], frozenset[int]]:
        rotations: dict[int, Rotation] = {}
        for channel, limit in self._limits_of(table).items():
            read_ms = flow.read_ms[channel] if channel < len(flow.read_ms) else 0.0
            rotations[channel] = rotate(
                flow.rotation.get(channel, Rotation()),
                {bin: sizes[bin] for bin in table.bins_of(channel)},
                limit,
                waiting,
                elapsed_ms=math.inf if channel in flow.idle else flow.wall_ms,
                gap_ms=read_ms if self.turn_ms is None else self.turn_ms,
            )
        return rotations, frozenset(bin for rotation in rotations.values() for bin in rotation.inactive)

    def _in_flight(
        self, table: Table, before: Table, sizes: Mapping[int, int], view: LoadView, flow: FlowState
    ) -> tuple[int, ...]:
        """The bins whose state cannot arrive in this batch. On each channel the bin that has waited
        longest arrives in any case, then others as far as the limit allows, the hottest first.
        """
        if self.arrivals is None:
            return ()
        moved = {bin for bin, channel in table.items() if before.channel_of.get(bin, channel) != channel}
        line = [bin for bin in flow.in_flight if bin in table.channel_of]
        line += sorted(moved.difference(line), key=lambda bin: (-view.bin_work.get(bin, 0.0), bin))
        heads = {table.channel_of[bin]: bin for bin in reversed(line)}
        arrived = {channel: max(sizes[bin], 1) for channel, bin in heads.items()}
        late = set()
        for bin in sorted(set(line) - set(heads.values()), key=lambda b: (-view.bin_work.get(b, 0.0), b)):
            channel = table.channel_of[bin]
            if arrived[channel] + sizes[bin] > self.arrivals:
                late.add(bin)
            else:
                arrived[channel] += max(sizes[bin], 1)
        return tuple(bin for bin in line if bin in late)


def _due(last: Manifest) -> list[int]:
    """Bins with work that is due by event time, the longest overdue first. They must come into
    memory: while a bin is on disk, nothing does its work.
    """
    due, watermark = last.state.due, last.clock.watermark
    return sorted((bin for bin, time in due.items() if time <= watermark), key=lambda bin: due[bin])


def _evicted(table: Table, before: Table, out: frozenset[int], flow: FlowState) -> dict[int, tuple[int, ...]]:
    """The tables to evict, by channel: those of bins on disk, and of bins that moved to another executor."""
    evicted: dict[int, list[int]] = {}
    for bin in sorted(out):
        evicted.setdefault(table.channel_of[bin], []).append(bin)
    where = flow.executors
    for bin, old in before.items():
        new = table.channel_of.get(bin)
        if new is not None and new != old and max(old, new) < len(where) and where[old] != where[new]:
            evicted.setdefault(old, []).append(bin)
    return {channel: tuple(bins) for channel, bins in evicted.items()}
