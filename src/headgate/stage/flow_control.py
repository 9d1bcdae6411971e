"""Decides which rows of the next batch are processed and which wait. The driver decides before
the batch, and the tasks obey.

There are three reasons for the rows of a bin to wait in the backlog: its state is on disk because
the channel is short of memory (`flow.rotation`); its state is moving and is more than may arrive in
one batch; or its channel is late and has a buffer (`flow.skew_buffer`). Everything that must be
remembered between batches is committed with them.

Where keys have deadlines, what waits is served by slack (`flow.slack`) instead of in the order of waiting.

Law: nothing waits for ever. Bins that wait for memory, or to arrive, stand in a queue; its head is
served when its turn comes, whatever else arrives. Once the reason for waiting has ended, all rows
of the bin are processed in that batch, even if the channel is late
(`tests/laws/test_waiting_laws.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.flow.backlog import Backlog
from headgate.flow.flow_state import FlowState
from headgate.flow.read_ahead import ReadAhead, read_ahead
from headgate.flow.rotation import Rotation, rotate
from headgate.flow.shared_memory import SharedMemory
from headgate.flow.skew_buffer import WorkBudget, held_back, work_budgets
from headgate.flow.slack import Deadlines, WaitingBin, by_slack, is_fair
from headgate.routing.reshape import reshaped
from headgate.routing.table import Table
from headgate.sizes import parse_bytes, show_bytes
from headgate.stage.settings import Limits
from headgate.state.keys import KeySpec
from headgate.storage.manifest import Manifest

EVERYTHING = WorkBudget(math.inf, 0)
NOTHING_AHEAD = ReadAhead()


@dataclass(frozen=True)
class Flow:
    """The orders for one batch: the rows that wait already, the bins whose rows are to wait
    (`asleep`), the tables to evict by channel, and each channel's share of time and buffer.
    """

    backlog: Backlog
    shares: tuple[WorkBudget, ...]
    asleep: frozenset[int] = frozenset()
    held_back: frozenset[int] = frozenset()
    """Bins that producers hold back because their channel will be late; a channel that gets their rows
    itself may process them.
    """
    on_disk: frozenset[int] = frozenset()
    in_flight: tuple[int, ...] = ()
    """Bins whose state is still moving, those that have waited longest first."""
    evicted: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    rotation: Mapping[int, Rotation] = field(default_factory=dict)
    limits: Mapping[int, int] = field(default_factory=dict)
    waited: Mapping[int, tuple[float, int]] = field(default_factory=dict)
    """How long each bin that something waits for was passed over before this batch, in ms and in batches."""
    deadlines: Mapping[int, float] = field(default_factory=dict)
    """How long the rows of a bin should wait at most, in ms; empty if there is no deadline at all."""
    ahead: ReadAhead = NOTHING_AHEAD
    """State to read before it is needed, because a table is announced."""

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
        self._given, self.deadlines = limits, Deadlines(others=limits.others_ms)
        self._limits: dict[int, int] = {}

    def set_deadlines(self, hashes: Callable[[pa.RecordBatch], NDArray[np.int64]], key: KeySpec) -> None:
        """Find the keys that have a deadline; `hashes` computes how a key is routed."""
        named = list(self._given.deadlines or ())
        if not named:
            return
        values = [one if isinstance(one, tuple) else (one,) for one in named]
        wrong = next(
            (one for one, parts in zip(named, values, strict=True) if len(parts) != len(key.names)), None
        )
        if wrong is not None:
            raise ConfigError(f"deadlines names key {wrong!r}, but the key is {', '.join(key.names)}")
        try:
            columns = [
                pa.array(column, kind)
                for column, kind in zip(zip(*values, strict=True), key.types, strict=True)
            ]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            kinds = ", ".join(f"{name} {kind}" for name, kind in zip(key.names, key.types, strict=True))
            raise ConfigError(f"deadlines names keys that are not of the type of {kinds}: {error}") from error
        found = hashes(pa.RecordBatch.from_arrays(columns, names=list(key.names))).tolist()
        by_hash = {h: self._given.milliseconds(one) for h, one in zip(found, named, strict=True)}
        self.deadlines = Deadlines(by_hash, self._given.others_ms)

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

    def prepare(
        self,
        table: Table,
        view: LoadView,
        last: Manifest | None,
        later: Table | None = None,
        places: Sequence[str] = (),
    ) -> Flow:
        """The orders for the next batch under a table; `last` is the newest commit. `later` is a table that
        is announced, and `places` are the executors where its channels will be, or those of `table` if
        none is announced; empty if that is not known.
        """
        deadlines = self.deadlines.by_bin(table) if self.deadlines else {}
        sizes = {} if last is None else {bin: last.state.sizes.get(bin, 0) for bin in table.bins}
        if self.shared is not None:
            held_bytes = {
                channel: sum(sizes.get(bin, 0) for bin in table.bins_of(channel))
                for channel in range(table.channels)
            }
            self._limits = self.shared.limits(self, held_bytes)
        if last is None:
            return replace(Flow.everything(table), limits=self._limits_of(table), deadlines=deadlines)
        backlog, flow, before = last.backlog, last.flow, last.table
        # A bin may have both rows that wait and due work.
        waited_for = list(dict.fromkeys((*backlog.rows, *_due(last))))
        if deadlines:
            waited_for = _by_slack(waited_for, deadlines, table, view, last)
        in_flight = self._in_flight(table, before, sizes, view, flow, waited_for if deadlines else [])
        waiting = [bin for bin in waited_for if bin not in in_flight]
        rotation, out = self._rotate(table, sizes, waiting, flow)
        shares = (EVERYTHING,) * table.channels
        held = frozenset[int]()
        if self.buffer is not None:
            shares = tuple(work_budgets(view, table, backlog, self.buffer))
            held = held_back(view, table, backlog, shares) - deadlines.keys()  # there the channel decides
        return Flow(
            backlog=backlog,
            shares=shares,
            held_back=held - out - frozenset(in_flight),
            asleep=out.union(in_flight),
            on_disk=out,
            in_flight=in_flight,
            evicted=_evicted(table, before, out, flow.executors, places if later is None else ()),
            rotation=rotation,
            limits=self._limits_of(table),
            waited={bin: flow.waited.get(bin, (0.0, 0)) for bin in waited_for},
            deadlines=deadlines,
            ahead=NOTHING_AHEAD
            if later is None
            else self._ahead(table, later, view, sizes, rotation, flow.executors, places),
        )

    def _ahead(
        self,
        table: Table,
        later: Table,
        view: LoadView,
        sizes: Mapping[int, int],
        rotation: Mapping[int, Rotation],
        where: Sequence[str],
        places: Sequence[str],
    ) -> ReadAhead:
        limits = self._limits_of(table)
        used = {channel: sum(sizes[bin] for bin in rotation[channel].active) for channel in limits}
        room = {channel: max(0, limit - used[channel]) for channel, limit in limits.items()}
        made = reshaped(table, later).keys()  # their state is made of other bins when the time comes
        return read_ahead(table, later, view, places=where, places_later=places, room=room, without=made)

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
                ranked=bool(self.deadlines),
            )
        return rotations, frozenset(bin for rotation in rotations.values() for bin in rotation.inactive)

    def _in_flight(
        self,
        table: Table,
        before: Table,
        sizes: Mapping[int, int],
        view: LoadView,
        flow: FlowState,
        urgent: list[int],
    ) -> tuple[int, ...]:
        """The bins whose state cannot arrive in this batch. On each channel the bin that has waited
        longest arrives in any case, then others as far as the limit allows: those that something waits for
        in the order of `urgent`, then the hottest first.
        """
        if self.arrivals is None:
            return ()
        moved = {bin for bin, channel in table.items() if before.channel_of.get(bin, channel) != channel}
        line = [bin for bin in flow.in_flight if bin in table.channel_of]
        line += sorted(moved.difference(line), key=lambda bin: (-view.bin_work.get(bin, 0.0), bin))
        heads = {table.channel_of[bin]: bin for bin in reversed(line)}
        arrived = {channel: max(sizes[bin], 1) for channel, bin in heads.items()}
        late = set()
        rank = {bin: at for at, bin in enumerate(urgent)}

        def order(bin: int) -> tuple[int, float, int]:
            return rank.get(bin, len(rank)), -view.bin_work.get(bin, 0.0), bin

        for bin in sorted(set(line) - set(heads.values()), key=order):
            channel = table.channel_of[bin]
            if arrived[channel] + sizes[bin] > self.arrivals:
                late.add(bin)
            else:
                arrived[channel] += max(sizes[bin], 1)
        return tuple(bin for bin in line if bin in late)


def _by_slack(
    waiting: Iterable[int], deadlines: Mapping[int, float], table: Table, view: LoadView, last: Manifest
) -> list[int]:
    """The bins that something waits for, those with the least slack first. Its rows cost what rows of its channel
    took, and its state what it took to read one back.
    """
    bins, backlog, flow = [], last.backlog, last.flow
    for bin in waiting:
        if bin not in table.channel_of:
            continue
        channel = table.channel_of[bin]
        cost_ms = backlog.rows.get(bin, 0) * view.measured_cost_ms(channel)
        cost_ms += flow.read_ms[channel] if channel < len(flow.read_ms) else 0.0
        bins.append(WaitingBin(bin, deadlines[bin], *flow.waited.get(bin, (0.0, 0)), cost_ms))
    return by_slack(bins, fair=is_fair(last.batch + 1))


def _due(last: Manifest) -> list[int]:
    """Bins with work that is due by event time, the longest overdue first. They must come into
    memory: while a bin is on disk, nothing does its work.
    """
    due, watermark = last.state.due, last.clock.watermark
    return sorted((bin for bin, time in due.items() if time <= watermark), key=lambda bin: due[bin])


def _evicted(
    table: Table, before: Table, out: frozenset[int], where: Sequence[str], places: Sequence[str]
) -> dict[int, tuple[int, ...]]:
    """The tables to evict, by channel: those of bins on disk, and of bins that moved to another executor.
    `where` the channels were in the last batch, and `places` where they will be, if that is known.
    """
    evicted: dict[int, list[int]] = {}
    for bin in sorted(out):
        evicted.setdefault(table.channel_of[bin], []).append(bin)
    places = places or where
    for bin, old in before.items():
        new = table.channel_of.get(bin)
        if new is None or new == old or old >= len(where) or new >= len(places):
            continue
        if where[old] != places[new]:
            left = [channel for channel, place in enumerate(places[: table.channels]) if place == where[old]]
            evicted.setdefault(old if old in left else min(left, default=old), []).append(bin)
    return {channel: tuple(bins) for channel, bins in evicted.items()}
