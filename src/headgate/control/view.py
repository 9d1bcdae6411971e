"""The load as policies see it: smoothed over batches, and under the table that will be in force.

    work(b)  <- (1 - alpha) work(b) + alpha x(b)           x: the bin's rows, or its busy_ms
    cost(c)  <- (1 - alpha) cost(c) + alpha busy_ms(c) / rows(c)
    load(c)   = cost(c) * sum of work(b) over the bins that the table puts on c

The first report is taken whole, and so is one whose load lies elsewhere than the smoothed one, by more than
chance explains: then the past says nothing about what comes. Hot keys are smoothed in the same way, in a bounded
summary (`heavy_keys`). With basis `rows` (Flux's prediction, section 5.3) a bin's rows are its own
and the cost of a row is the channel's, so slow machines are seen as slow. A handful of rows may show
a channel to be faster, never slower: that would be its fixed overhead. A channel without rows keeps its cost,
or else a slow one would be emptied, forgotten, filled and emptied again; one never measured has the mean.
`silent` are the channels whose last report says nothing about their speed though they had rows, or that sent
none; `history` has the last `keep` batches' costs, as measured, for policies that look at change.
With basis `busy` the measured time is the bin's own, wherever it runs: right where bins differ in cost per
row and channels do not.

Law: the load of a channel is computed from bins under a table, never from where the rows were; so a move that
was decided but not yet seen counts at once (no ping-pong), and so does a pin, through the hot key's rows, and a
split, as equal pieces.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from headgate.control.report import BatchReport, HotKey, columns_of, records_of
from headgate.errors import ConfigError
from headgate.ids import Bin, Channel
from headgate.routing.heavy_keys import HeavyKeys, HeavyKeysState
from headgate.routing.table import Table

Basis = Literal["rows", "busy"]

_HANDFUL = 0.05  # of the mean rows of a channel
_TRACKED = 256  # hot keys: more than any table has use for, few enough to be committed with every batch


@dataclass(frozen=True)
class LoadView:
    """Smoothed loads; `LoadView()` is the view before the first report. Make the next with `fold`.

    `alpha` is the weight of the last report, `shift` the part of the load that must have moved to other bins
    before the past is forgotten (1: never).
    """

    alpha: float = 0.5
    shift: float = 0.15
    basis: Basis = "rows"
    reports: int = 0
    bin_work: Mapping[Bin, float] = field(default_factory=dict)
    bin_bytes: Mapping[Bin, int] = field(default_factory=dict)
    bin_keys: Mapping[Bin, int] = field(default_factory=dict)
    channel_cost_ms: Mapping[Channel, float] = field(default_factory=dict)
    hot_keys: tuple[HotKey, ...] = ()
    heavy: HeavyKeysState | None = None
    pinned: Mapping[Bin, int] = field(default_factory=dict)
    channel_load: tuple[float, ...] = ()
    utilization: Mapping[Channel, float] = field(default_factory=dict)
    period_ms: float = 0.0
    memory_limit: Mapping[Channel, int] = field(default_factory=dict)
    on_disk: frozenset[Bin] = frozenset()
    backlog_rows: Mapping[Bin, int] = field(default_factory=dict)
    backlog_bytes: Mapping[Bin, int] = field(default_factory=dict)
    keep: int = 0
    history: tuple[tuple[float, ...], ...] = ()
    silent: frozenset[Channel] = frozenset()
    move_ms_per_byte: float = 0.0

    def __post_init__(self) -> None:
        """Check the settings."""
        if not 0 < self.alpha <= 1:
            raise ConfigError(f"alpha={self.alpha} is outside (0, 1]: 1 trusts the last batch alone")
        if not 0 < self.shift <= 1:
            raise ConfigError(f"shift={self.shift} is outside (0, 1]: 1 never forgets the past")
        if self.basis not in ("rows", "busy"):
            raise ConfigError(f"basis={self.basis!r} is neither 'rows' nor 'busy'")

    def row_cost_ms(self, channel: Channel) -> float:
        """The ms that one unit of work takes on a channel; 1 with basis `busy`."""
        return 1.0 if self.basis == "busy" else self.measured_cost_ms(channel)

    def measured_cost_ms(self, channel: Channel) -> float:
        known = self.channel_cost_ms
        if channel in known:
            return known[channel]
        return sum(known.values()) / len(known) if known else 1.0

    def bin_load(self, bin: Bin, channel: Channel) -> float:
        """The ms per batch that a bin would take on a channel."""
        return self.bin_work.get(bin, 0.0) * self.row_cost_ms(channel)

    def bin_loads(self, table: Table) -> dict[Bin, float]:
        """The ms per batch of every bin where the table has it."""
        costs = [self.row_cost_ms(channel) for channel in range(table.channels)]
        return {bin: self.bin_work.get(bin, 0.0) * costs[channel] for bin, channel in table.items()}

    def state_bytes(self, table: Table) -> list[int]:
        """The state of every channel under a table, in memory or on disk."""
        held = [0] * table.channels
        for bin, channel in table.items():
            held[channel] += self.bin_bytes.get(bin, 0)
        return held

    def excess_bytes(self, table: Table) -> list[float]:
        """What every channel was granted less its state; infinite where there is no bound."""
        return [
            (self.memory_limit.get(channel) or math.inf) - held
            for channel, held in enumerate(self.state_bytes(table))
        ]

    def under(self, table: Table) -> LoadView:
        """The same knowledge under another table: moves, pins and unpins counted as if already seen."""
        work = dict(self.bin_work)
        now = {pin.bin: pin.hash for pin in table.pins}
        old, new = _by_hash(self.pinned), _by_hash(now)
        hot_rows = {key.hash: key.rows for key in self.hot_keys}
        for key_hash in sorted(h for h in old.keys() | new.keys() if old.get(h) != new.get(h)):
            home, pieces = table.home_bin(key_hash), new.get(key_hash, ())
            if key_hash in old:
                share = sum(work.pop(bin, 0.0) for bin in old[key_hash])
            elif any(bin in work for bin in pieces):
                continue  # measured already
            else:
                rows = hot_rows.get(key_hash, 0) * self._work_per_row(home, table)
                share = min(rows, work.get(home, 0.0))
                work[home] = work.get(home, 0.0) - share
            for bin in pieces:
                work[bin] = share / len(pieces)
            if not pieces:
                work[home] = work.get(home, 0.0) + share
        sizes = {bin: self.bin_bytes.get(bin, 0) for bin in work}
        keys = {bin: self.bin_keys.get(bin, 0) for bin in work}
        seen = replace(self, bin_work=work, bin_bytes=sizes, bin_keys=keys, pinned=now)
        loads = [0.0] * table.channels
        for bin, load in seen.bin_loads(table).items():
            loads[table.channel_of[bin]] += load
        return replace(seen, channel_load=tuple(loads))

    def _work_per_row(self, bin: Bin, table: Table) -> float:
        return 1.0 if self.basis == "rows" else self.measured_cost_ms(table.channel_of[bin])

    def to_json(self) -> dict[str, Any]:
        """JSON-native values in a stable order; reading them back gives an equal view."""
        bins = sorted(self.bin_work)
        channels = sorted(self.channel_cost_ms)
        return {
            "alpha": self.alpha,
            "shift": self.shift,
            "basis": self.basis,
            "reports": self.reports,
            "bins": {
                "bin": bins,
                "work": [self.bin_work.get(bin, 0.0) for bin in bins],
                "state_bytes": [self.bin_bytes.get(bin, 0) for bin in bins],
                "keys": [self.bin_keys.get(bin, 0) for bin in bins],
            },
            "channels": {
                "channel": channels,
                "cost_ms": [self.channel_cost_ms[channel] for channel in channels],
            },
            "hot_keys": columns_of(HotKey, self.hot_keys),
            "heavy": None if self.heavy is None else self.heavy.to_json(),
            "pinned": [[bin, key_hash] for bin, key_hash in self.pinned.items()],
            "channel_load": list(self.channel_load),
            "utilization": [list(pair) for pair in self.utilization.items()],
            "period_ms": self.period_ms,
            "memory": {
                "limit": [list(pair) for pair in self.memory_limit.items()],
                "on_disk": sorted(self.on_disk),
                "backlog_rows": [list(pair) for pair in self.backlog_rows.items()],
                "backlog_bytes": [list(pair) for pair in self.backlog_bytes.items()],
            },
            "change": {
                "keep": self.keep,
                "history": [list(row) for row in self.history],
                "silent": sorted(self.silent),
                "move_ms_per_byte": self.move_ms_per_byte,
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LoadView:
        """Read what `to_json` wrote, now or before there were memory and change in it."""
        bins, channels = data["bins"], data["channels"]
        memory, change = data.get("memory", {}), data.get("change", {})
        return cls(
            alpha=data["alpha"],
            shift=data["shift"],
            basis=data["basis"],
            reports=data["reports"],
            bin_work=_pairs(bins["bin"], bins["work"]),
            bin_bytes=_pairs(bins["bin"], bins["state_bytes"]),
            bin_keys=_pairs(bins["bin"], bins["keys"]),
            channel_cost_ms=_pairs(channels["channel"], channels["cost_ms"]),
            hot_keys=records_of(HotKey, data["hot_keys"]),
            heavy=None if data["heavy"] is None else HeavyKeysState.from_json(data["heavy"]),
            pinned=dict(data["pinned"]),
            channel_load=tuple(data["channel_load"]),
            utilization=dict(data.get("utilization", [])),
            period_ms=data.get("period_ms", 0.0),
            memory_limit=dict(memory.get("limit", [])),
            on_disk=frozenset(memory.get("on_disk", [])),
            backlog_rows=dict(memory.get("backlog_rows", [])),
            backlog_bytes=dict(memory.get("backlog_bytes", [])),
            keep=change.get("keep", 0),
            history=tuple(tuple(row) for row in change.get("history", [])),
            silent=frozenset(change.get("silent", [])),
            move_ms_per_byte=change.get("move_ms_per_byte", 0.0),
        )


def fold(view: LoadView, report: BatchReport, table: Table) -> LoadView:
    """The next view: the report smoothed in, then seen under `table`, the newest table decided.

    Bins absent from the report had no rows: their work decays. State bytes, keys, backlogs and limits are levels,
    so the last are taken. Cost: one pass over the bins known and the bins reported.
    """
    if view.basis == "busy":
        work_seen = {one.bin: _finite(one.busy_ms) for one in report.bins}
    else:
        work_seen = {one.bin: float(one.rows) for one in report.bins}
    bytes_seen = {one.bin: int(one.state_bytes) for one in report.bins}
    keys_seen = {one.bin: int(one.keys) for one in report.bins}
    before = {bin: work for bin, work in view.bin_work.items() if bin < table.hash_bins or bin in view.pinned}
    bins = sorted(before.keys() | work_seen.keys())
    fresh = view.reports == 0 or _moved(before, work_seen, report.rows) > view.shift
    alpha = 1.0 if fresh else view.alpha
    heavy, hot_keys = _heavy(view, report, table, fresh)
    seen = _costs_seen(report, table.channels)
    costs = _costs(view, report, seen)
    return replace(
        view,
        reports=view.reports + 1,
        bin_work=_smooth(before, work_seen, bins, alpha),
        bin_bytes={bin: bytes_seen.get(bin, 0) for bin in bins},
        bin_keys={bin: keys_seen.get(bin, 0) for bin in bins},
        channel_cost_ms={channel: costs[channel] for channel in sorted(costs) if channel < table.channels},
        hot_keys=hot_keys,
        heavy=heavy,
        utilization=_utilization(view, report, table, alpha),
        period_ms=float(report.wall_ms),
        memory_limit={
            one.channel: int(one.memory_limit)
            for one in report.channels
            if one.memory_limit > 0 and one.channel < table.channels
        },
        on_disk=frozenset(one.bin for one in report.bins if one.on_disk),
        backlog_rows={one.bin: int(one.backlog_rows) for one in report.bins if one.backlog_rows},
        backlog_bytes={one.bin: int(one.backlog_bytes) for one in report.bins if one.backlog_bytes},
        history=_history(view, seen, costs, table.channels),
        silent=_silent(report, seen, table),
        move_ms_per_byte=_move_cost(view, report, table),
    ).under(table)


def _moved(old: Mapping[Bin, float], new: Mapping[Bin, float], rows: int) -> float:
    """The part of the load that lies in other bins than before, beyond what chance would do with so many rows."""
    before, after = sum(old.values()), sum(new.values())
    if before <= 0 or after <= 0:
        return 0.0
    moved = chance = 0.0
    for bin in old.keys() | new.keys():
        was, now = old.get(bin, 0.0) / before, new.get(bin, 0.0) / after
        moved += abs(now - was) / 2
        chance += math.sqrt(max(was, now) / max(rows, 1)) / 2
    return moved - 2 * chance


def _heavy(
    view: LoadView, report: BatchReport, table: Table, fresh: bool
) -> tuple[HeavyKeysState, tuple[HotKey, ...]]:
    """The summary with the report's exact counts in it, and the hot keys with their smoothed rows."""
    decay = 1 - view.alpha or 1.0
    if fresh or view.heavy is None or view.alpha == 1 or view.heavy.decay != decay:
        tracker = HeavyKeys(capacity=_TRACKED, decay=decay)
        weight = 1 / view.alpha  # the first is taken whole
    else:
        tracker, weight = HeavyKeys.restore(view.heavy), 1.0
    labels = {key.hash: key.label for key in (*view.hot_keys, *report.hot_keys)}
    hashes = np.array([key.hash for key in report.hot_keys], dtype=np.int64)
    tracker.add(hashes, np.array([key.rows * weight for key in report.hot_keys], dtype=np.float64))
    state = tracker.state()
    order = np.lexsort((state.keys, -state.lower))
    keys, rows = state.keys[order], view.alpha * state.lower[order]
    found = zip(keys.tolist(), table.bin_of_hash(keys).tolist(), rows.tolist(), strict=True)
    return state, tuple(HotKey(h, bin, labels.get(h, ""), round(n)) for h, bin, n in found if n >= 1)


def _by_hash(pinned: Mapping[Bin, int]) -> dict[int, tuple[Bin, ...]]:
    """The bins of each pinned key: one, or the pieces over which it is split."""
    found: dict[int, tuple[Bin, ...]] = {}
    for bin in sorted(pinned):
        found[pinned[bin]] = (*found.get(pinned[bin], ()), bin)
    return found


def _utilization(view: LoadView, report: BatchReport, table: Table, alpha: float) -> dict[Channel, float]:
    if report.table_version != table.version or report.wall_ms <= 0:
        return {}
    seen = {one.channel: _finite(one.busy_ms) / float(report.wall_ms) for one in report.channels}
    return {
        channel: (1 - alpha) * view.utilization.get(channel, share) + alpha * share
        for channel, share in sorted(seen.items())
        if channel < table.channels
    }


def _costs_seen(report: BatchReport, channels: int) -> dict[Channel, float]:
    """The ms of a row on each channel that measured one.

    Reading the state of a bin that moved here happens once and says nothing about the speed, unless bins take turns on disk.
    """
    seen = {}
    for one in report.channels:
        working = one.busy_ms - (0.0 if one.disk_bytes else one.read_ms)
        if one.channel < channels and one.rows > 0 and 0 < working < math.inf:
            seen[one.channel] = float(working) / int(one.rows)
    return seen


def _costs(view: LoadView, report: BatchReport, seen: Mapping[Channel, float]) -> dict[Channel, float]:
    costs = dict(view.channel_cost_ms)
    few = _HANDFUL * sum(one.rows for one in report.channels) / max(len(report.channels), 1)
    for one in report.channels:
        now, known = seen.get(one.channel), costs.get(one.channel)
        if now is not None and (one.rows >= few or (known is not None and now < known)):
            costs[one.channel] = now if known is None else (1 - view.alpha) * known + view.alpha * now
    return costs


def _silent(report: BatchReport, seen: Mapping[Channel, float], table: Table) -> frozenset[Channel]:
    """Channels without a measurement that should have one. A channel without rows has nothing to measure."""
    came = {table.channel_of[one.bin] for one in report.bins if one.rows > 0 and one.bin in table.channel_of}
    sent = {one.channel for one in report.channels}
    missing = set(range(table.channels)) - sent
    if report.table_version == table.version:  # else the rows may have gone elsewhere
        missing |= came - seen.keys()
    return frozenset(missing)


def _history(
    view: LoadView, seen: Mapping[Channel, float], costs: Mapping[Channel, float], channels: int
) -> tuple[tuple[float, ...], ...]:
    """The last costs as measured; of a channel that measured none, what is known of it."""
    if view.keep < 1:
        return ()
    mean = sum(costs.values()) / len(costs) if costs else 1.0
    row = tuple(seen.get(channel, costs.get(channel, mean)) for channel in range(channels))
    before = view.history if view.history and len(view.history[0]) == channels else ()
    return (*before, row)[-view.keep :]


def _move_cost(view: LoadView, report: BatchReport, table: Table) -> float:
    """The ms that reading a byte of moved state takes, smoothed; 0 until a move was measured."""
    bins = [0] * table.channels
    for one in report.bins:
        channel = table.channel_of.get(one.bin)
        if channel is not None and one.state_bytes > 0:
            bins[channel] += 1
    spent = size = 0.0
    for told in report.channels:
        if told.channel < table.channels and told.rebuilt_bins > 0 and 0 < told.read_ms < math.inf:
            spent += told.read_ms
            size += told.rebuilt_bins * told.state_bytes / max(bins[told.channel], 1)
    if spent <= 0 or size <= 0:
        return view.move_ms_per_byte
    known = view.move_ms_per_byte or spent / size
    return (1 - view.alpha) * known + view.alpha * spent / size


def _finite(measured: float) -> float:
    """What was measured; a smoothed value would never recover from anything else."""
    return float(measured) if math.isfinite(measured) else 0.0


def _smooth(
    old: Mapping[int, float], new: Mapping[int, float], keys: Iterable[int], alpha: float
) -> dict[int, float]:
    return {key: (1 - alpha) * old.get(key, 0.0) + alpha * new.get(key, 0.0) for key in keys}


def _pairs(keys: list[int], values: list[Any]) -> dict[int, Any]:
    return dict(zip(keys, values, strict=True))
