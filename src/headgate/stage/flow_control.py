"""What goes on and what waits in the next batch of a stage: decided by the driver before it, obeyed by the tasks.

Three reasons for a bin's rows to wait in the backlog: its state is on disk because the channel is short of memory
(`flow.rotation`), its state is on its way and larger than a batch may carry, or its channel is late and there is a buffer
(`flow.skew_buffer`). All that lasts between batches is committed with them.

Law: nothing waits for ever. Who waits for memory or for the way stands in a line whose head is served in its turn, whatever else
comes; and what a bin's rows waited for being over, they are all processed in that batch, however late the channel
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
from headgate.flow.skew_buffer import WorkBudget, work_budgets
from headgate.routing.table import Table
from headgate.sizes import parse_bytes, show_bytes
from headgate.stage.settings import Limits
from headgate.storage.manifest import Manifest

EVERYTHING = WorkBudget(math.inf, 0)


@dataclass(frozen=True)
class Flow:
    """One batch's orders: what waits already, bins whose rows are to wait, tables to let go by channel, and each channel's share of time
    and buffer.
    """

    backlog: Backlog
    shares: tuple[WorkBudget, ...]
    asleep: frozenset[int] = frozenset()
    on_disk: frozenset[int] = frozenset()
    in_flight: tuple[int, ...] = ()
    """Those that are on their way, longest first."""
    evicted: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    rotation: Mapping[int, Rotation] = field(default_factory=dict)
    limits: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def everything(cls, table: Table) -> Flow:
        """Nothing waits."""
        return cls(Backlog(), (EVERYTHING,) * table.channels)


class FlowControl:
    """A stage's settings of memory, buffer and moving. Memory can be granted and reclaimed while it runs (FLUX-34)."""

    def __init__(self, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.memory = None if limits.memory is None else parse_bytes(limits.memory, "memory")
        self.buffer = None if limits.buffer is None else parse_bytes(limits.buffer, "buffer")
        self.arrivals = None if limits.arrivals is None else parse_bytes(limits.arrivals, "arrivals")
        self.turn_ms = limits.turn_ms
        self._limits: dict[int, int] = {}

    def limit(self, channel: int) -> int | None:
        """Bytes of state that a channel may hold in memory."""
        return self._limits.get(channel, self.memory)

    def change(self, amount: str | int, channels: Iterable[int], *, sign: int) -> None:
        """Grant (1) or reclaim (-1) so much on each of some channels, from the next batch on."""
        size = sign * parse_bytes(amount, "amount")
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
        self._limits.update(wanted)

    def prepare(self, table: Table, view: LoadView, last: Manifest | None) -> Flow:
        """The orders for a batch under a table, after what is committed."""
        if last is None:
            return replace(Flow.everything(table), limits=self._limits_of(table))
        backlog, flow, before = last.backlog, last.flow, last.table
        sizes = {bin: last.state.sizes.get(bin, 0) for bin in table.bins}
        in_flight = self._in_flight(table, before, sizes, view, flow)
        waiting = [bin for bin in (*backlog.rows, *_due(last)) if bin not in in_flight]
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
        found = {channel: self.limit(channel) for channel in range(table.channels)}
        return {channel: limit for channel, limit in found.items() if limit is not None}

    def _rotate(
        self, table: Table, sizes: Mapping[int, int], waiting: list[int], flow: FlowState
    ) -> tuple[dict[int, Rotation], frozenset[int]]:
        found: dict[int, Rotation] = {}
        for channel, limit in self._limits_of(table).items():
            read_ms = flow.read_ms[channel] if channel < len(flow.read_ms) else 0.0
            found[channel] = rotate(
                flow.rotation.get(channel, Rotation()),
                {bin: sizes[bin] for bin in table.bins_of(channel)},
                limit,
                waiting,
                elapsed_ms=math.inf if channel in flow.idle else flow.wall_ms,
                gap_ms=read_ms if self.turn_ms is None else self.turn_ms,
            )
        return found, frozenset(bin for one in found.values() for bin in one.inactive)

    def _in_flight(
        self, table: Table, before: Table, sizes: Mapping[int, int], view: LoadView, flow: FlowState
    ) -> tuple[int, ...]:
        """The bins whose state is too much to arrive in this batch. What is on its way longest arrives, one at least on each channel; then
        hot ones.
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
    """Bins with work that is due by event time, longest first: on disk nobody would do it."""
    due, watermark = last.state.due, last.clock.watermark
    return sorted((bin for bin, time in due.items() if time <= watermark), key=lambda bin: due[bin])


def _evicted(table: Table, before: Table, out: frozenset[int], flow: FlowState) -> dict[int, tuple[int, ...]]:
    """Tables to let go: of bins that are on disk, and of bins that went to another executor."""
    found: dict[int, list[int]] = {}
    for bin in sorted(out):
        found.setdefault(table.channel_of[bin], []).append(bin)
    where = flow.executors
    for bin, old in before.items():
        new = table.channel_of.get(bin)
        if new is not None and new != old and max(old, new) < len(where) and where[old] != where[new]:
            found.setdefault(old, []).append(bin)
    return {channel: tuple(bins) for channel, bins in found.items()}
