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
from typing import Any

from headgate.astray import NEVER
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.flow.backlog import Backlog
from headgate.flow.rotation import Rotation, rotate
from headgate.flow.skew_buffer import WorkBudget as Share
from headgate.flow.skew_buffer import work_budgets as shares
from headgate.operators.event_time import Clock
from headgate.routing.table import Table
from headgate.sizes import parse_bytes, show_bytes
from headgate.storage.manifest import Manifest

EVERYTHING = Share(math.inf, 0)


@dataclass(frozen=True)
class Flow:
    """One batch's orders: what waits already, bins whose rows are to wait, tables to let go by channel, and each channel's share of time
    and buffer.
    """

    backlog: Backlog
    shares: tuple[Share, ...]
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

    def to_json(self, answers: list[dict[str, Any]], wall_ms: float) -> dict[str, Any]:
        """What the next batch needs to know of this one."""
        return {
            "rotation": {str(c): one.to_json() for c, one in self.rotation.items()},
            "in_flight": list(self.in_flight),
            "idle": [a["channel"] for a in answers if not a["arrived"][0]],
            "wall_ms": wall_ms,
            "read_ms": [a["read_ms"] / a["rebuilt_bins"] if a["rebuilt_bins"] else 0.0 for a in answers],
            "executors": [a["executor"] for a in answers],
        }


class FlowControl:
    """A stage's settings of memory, buffer and moving. Memory can be granted and reclaimed while it runs (FLUX-34)."""

    def __init__(
        self,
        *,
        memory: str | int | None = None,
        t_gap_ms: float | None = None,
        buffer: str | int | None = None,
        move_bytes: str | int | None = None,
    ) -> None:
        if t_gap_ms is not None and not (t_gap_ms >= 0 and math.isfinite(t_gap_ms)):
            raise ConfigError(f"t_gap={t_gap_ms} is a time in ms between two reads, 0 or more")
        self.memory = None if memory is None else parse_bytes(memory, "memory")
        self.buffer = None if buffer is None else parse_bytes(buffer, "buffer")
        self.move_bytes = None if move_bytes is None else parse_bytes(move_bytes, "move_bytes")
        self.t_gap_ms = t_gap_ms
        self._limits: dict[int, int] = {}

    def limit(self, channel: int) -> int | None:
        """Bytes of state that a channel may hold in memory."""
        return self._limits.get(channel, self.memory)

    def change(self, amount: str | int, channels: Iterable[int], *, sign: int) -> None:
        """Grant (1) or reclaim (-1) so much on each of some channels, from the next batch on."""
        size = sign * parse_bytes(amount, "amount")
        if self.memory is None:
            raise ConfigError("this stage has no memory budget to change; make it with Stage(memory=...)")
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
        backlog, flow = last.backlog, last.flow
        before = Table.from_json(last.table)
        sizes = {bin: last.state_bytes.get(bin, 0) for bin in table.bins}
        in_flight = self._in_flight(table, before, sizes, view, flow)
        waiting = [bin for bin in (*backlog.rows, *_due(last)) if bin not in in_flight]
        rotation, out = self._rotate(table, sizes, waiting, flow)
        return Flow(
            backlog=backlog,
            shares=tuple(shares(view, table, backlog, self.buffer))
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
        self, table: Table, sizes: Mapping[int, int], waiting: list[int], flow: Mapping[str, Any]
    ) -> tuple[dict[int, Rotation], frozenset[int]]:
        found: dict[int, Rotation] = {}
        for channel, limit in self._limits_of(table).items():
            was = flow["rotation"].get(str(channel))
            read_ms = flow["read_ms"][channel] if channel < len(flow["read_ms"]) else 0.0
            found[channel] = rotate(
                Rotation.from_json(was) if was else Rotation(),
                {bin: sizes[bin] for bin in table.bins_of(channel)},
                limit,
                waiting,
                elapsed_ms=math.inf if channel in flow.get("idle", ()) else flow["wall_ms"],
                gap_ms=read_ms if self.t_gap_ms is None else self.t_gap_ms,
            )
        return found, frozenset(bin for one in found.values() for bin in one.inactive)

    def _in_flight(
        self, table: Table, before: Table, sizes: Mapping[int, int], view: LoadView, flow: Mapping[str, Any]
    ) -> tuple[int, ...]:
        """The bins whose state is too much to arrive in this batch. What is on its way longest arrives, one at least on each channel; then
        hot ones.
        """
        if self.move_bytes is None:
            return ()
        moved = {bin for bin, channel in table.items() if before.channel_of.get(bin, channel) != channel}
        line = [bin for bin in flow["in_flight"] if bin in table.channel_of]
        line += sorted(moved.difference(line), key=lambda bin: (-view.bin_work.get(bin, 0.0), bin))
        heads = {table.channel_of[bin]: bin for bin in reversed(line)}
        arrived = {channel: max(sizes[bin], 1) for channel, bin in heads.items()}
        late = set()
        for bin in sorted(set(line) - set(heads.values()), key=lambda b: (-view.bin_work.get(b, 0.0), b)):
            channel = table.channel_of[bin]
            if arrived[channel] + sizes[bin] > self.move_bytes:
                late.add(bin)
            else:
                arrived[channel] += max(sizes[bin], 1)
        return tuple(bin for bin in line if bin in late)


def _due(last: Manifest) -> list[int]:
    """Bins with work that is due by event time, longest first: on disk nobody would do it."""
    watermark = Clock.from_json(last.clock).watermark if last.clock else NEVER
    return sorted((bin for bin, time in last.due.items() if time <= watermark), key=lambda bin: last.due[bin])


def _evicted(
    table: Table, before: Table, out: frozenset[int], flow: Mapping[str, Any]
) -> dict[int, tuple[int, ...]]:
    """Tables to let go: of bins that are on disk, and of bins that went to another executor."""
    found: dict[int, list[int]] = {}
    for bin in sorted(out):
        found.setdefault(table.channel_of[bin], []).append(bin)
    where = flow["executors"]
    for bin, old in before.items():
        new = table.channel_of.get(bin)
        if new is not None and new != old and max(old, new) < len(where) and where[old] != where[new]:
            found.setdefault(old, []).append(bin)
    return {channel: tuple(bins) for channel, bins in found.items()}
