"""The load as policies see it: smoothed over batches, and under the table that will be in force.

    work(b)  <- (1 - alpha) work(b) + alpha x(b)           x: the bin's rows, or its busy_ms
    cost(c)  <- (1 - alpha) cost(c) + alpha busy_ms(c) / rows(c)
    load(c)   = cost(c) * sum of work(b) over the bins that the table puts on c

The first report is taken without smoothing. So is a report whose load moved to other bins by more than
chance explains, because then the past says nothing about the future. Hot keys are smoothed in the same
way, in a summary of bounded size (`heavy_keys`).

With basis `rows` (Flux's prediction, section 5.3) the number of rows belongs to the bin and the cost of a
row to the channel, so a slow machine is seen as slow. A report of very few rows may lower a channel's
cost but never raise it, because it mostly measures the fixed overhead. A channel without rows keeps its
cost; otherwise a slow channel would be emptied, forgotten, filled and emptied again. A channel that was
never measured gets the mean cost. With basis `busy` the measured time belongs to the bin, wherever it
runs: use it where bins differ in cost per row and channels do not.

`silent` are the channels that had rows but reported no speed, or sent no report. `history` has the
measured costs of the last `keep` batches, for policies that look at changes.

Law: the load of a channel is computed from its bins under a table, never from where the rows were. So a
decided move counts at once, before it is measured (no ping-pong). A pin counts at once too, by the rows
of the hot key, and so does a split, as equal pieces.
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

_FEW_ROWS = 0.05  # as a part of the mean rows of a channel
_TRACKED = 256  # hot keys: more than any table needs, few enough to be committed with every batch


@dataclass(frozen=True)
class LoadView:
    """Smoothed loads; `LoadView()` is the view before the first report, and `fold` makes the next one.

    `alpha` is the weight of the last report. `shift` is the part of the load that must have moved to
    other bins before the past is forgotten (1: never).
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
        """The ms that a row takes on a channel; the mean of the others if it was never measured."""
        known = self.channel_cost_ms
        if channel in known:
            return known[channel]
        return sum(known.values()) / len(known) if known else 1.0

    def bin_load(self, bin: Bin, channel: Channel) -> float:
        """The ms per batch that a bin would take on a channel."""
        return self.bin_work.get(bin, 0.0) * self.row_cost_ms(channel)

    def bin_loads(self, table: Table) -> dict[Bin, float]:
        """The ms per batch of every bin on the channel where the table puts it."""
        costs = [self.row_cost_ms(channel) for channel in range(table.channels)]
        return {bin: self.bin_work.get(bin, 0.0) * costs[channel] for bin, channel in table.items()}

    def state_bytes(self, table: Table) -> list[int]:
        """The bytes of state of every channel under a table, in memory or on disk."""
        held = [0] * table.channels
        for bin, channel in table.items():
            held[channel] += self.bin_bytes.get(bin, 0)
        return held

    def excess_bytes(self, table: Table) -> list[float]:
        """Every channel's memory limit minus its state; infinite where there is no limit."""
        return [
            (self.memory_limit.get(channel) or math.inf) - held
            for channel, held in enumerate(self.state_bytes(table))
        ]

    def under(self, table: Table) -> LoadView:
        """The same measurements under another table, as if its moves, pins and unpins had already happened."""
        work = dict(self.bin_work)
        now = {pin.bin: pin.hash for pin in table.pins}
        old, new = _by_hash(self.pinned), _by_hash(now)
        hot_rows = {key.hash: key.rows for key in self.hot_keys}
        for key_hash in sorted(h for h in old.keys() | new.keys() if old.get(h) != new.get(h)):
            home, pieces = table.home_bin(key_hash), new.get(key_hash, ())
            if key_hash in old:
                share = sum(work.pop(bin, 0.0) for bin in old[key_hash])
            elif any(bin in work for bin in pieces):
                continue  # already measured
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
        costs = [self.row_cost_ms(channel) for channel in range(table.channels)]
        loads = [0.0] * table.channels
        for bin, channel in table.items():
            loads[channel] += work.get(bin, 0.0) * costs[channel]
        return replace(
            self, bin_work=work, bin_bytes=sizes, bin_keys=keys, pinned=now, channel_load=tuple(loads)
        )

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
        """Read what `to_json` wrote, also before it had `memory` and `change`."""
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
    """The next view: the report is smoothed in, and the result applies to `table`, the newest one decided.

    Bins absent from the report had no rows: their work decays. State bytes, keys, backlogs and limits are
    not smoothed; the last value counts. Cost: one pass over the known and the reported bins.
    """
    if view.basis == "busy":
        work_seen = {b.bin: _finite(b.busy_ms) for b in report.bins}
    else:
        work_seen = {b.bin: float(b.rows) for b in report.bins}
    bytes_seen = {b.bin: int(b.state_bytes) for b in report.bins}
    keys_seen = {b.bin: int(b.keys) for b in report.bins}
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
            c.channel: int(c.memory_limit)
            for c in report.channels
            if c.memory_limit > 0 and c.channel < table.channels
        },
        on_disk=frozenset(b.bin for b in report.bins if b.on_disk),
        backlog_rows={b.bin: int(b.backlog_rows) for b in report.bins if b.backlog_rows},
        backlog_bytes={b.bin: int(b.backlog_bytes) for b in report.bins if b.backlog_bytes},
        history=_history(view, seen, costs, table.channels),
        silent=_silent(report, seen, table),
        move_ms_per_byte=_move_cost(view, report, table),
    ).under(table)


def _moved(old: Mapping[Bin, float], new: Mapping[Bin, float], rows: int) -> float:
    """The part of the load that moved to other bins, minus what chance explains for this many rows."""
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
    """The summary with the report's exact counts added, and the hot keys with their smoothed rows."""
    decay = 1 - view.alpha or 1.0
    if fresh or view.heavy is None or view.alpha == 1 or view.heavy.decay != decay:
        tracker = HeavyKeys(capacity=_TRACKED, decay=decay)
        weight = 1 / view.alpha  # the first report is not smoothed
    else:
        tracker, weight = HeavyKeys.restore(view.heavy), 1.0
    labels = {key.hash: key.label for key in (*view.hot_keys, *report.hot_keys)}
    hashes = np.array([key.hash for key in report.hot_keys], dtype=np.int64)
    tracker.add(hashes, np.array([key.rows * weight for key in report.hot_keys], dtype=np.float64))
    state = tracker.state()
    order = np.lexsort((state.keys, -state.lower))
    keys, rows = state.keys[order], view.alpha * state.lower[order]
    hot = zip(keys.tolist(), table.bin_of_hash(keys).tolist(), rows.tolist(), strict=True)
    return state, tuple(HotKey(h, bin, labels.get(h, ""), round(n)) for h, bin, n in hot if n >= 1)


def _by_hash(pinned: Mapping[Bin, int]) -> dict[int, tuple[Bin, ...]]:
    """The bins of each pinned key: one, or the pieces over which it is split."""
    bins: dict[int, tuple[Bin, ...]] = {}
    for bin in sorted(pinned):
        bins[pinned[bin]] = (*bins.get(pinned[bin], ()), bin)
    return bins


def _utilization(view: LoadView, report: BatchReport, table: Table, alpha: float) -> dict[Channel, float]:
    if report.table_version != table.version or report.wall_ms <= 0:
        return {}
    seen = {c.channel: _finite(c.busy_ms) / float(report.wall_ms) for c in report.channels}
    return {
        channel: (1 - alpha) * view.utilization.get(channel, share) + alpha * share
        for channel, share in sorted(seen.items())
        if channel < table.channels
    }


def _costs_seen(report: BatchReport, channels: int) -> dict[Channel, float]:
    """The ms that a row took, for each channel that processed rows.

    The time to read the state of a bin that moved here is subtracted, because it is spent only once. It
    counts on a channel with bins on disk, which are read again and again.
    """
    seen = {}
    for c in report.channels:
        working = c.busy_ms - (0.0 if c.disk_bytes else c.read_ms)
        if c.channel < channels and c.rows > 0 and 0 < working < math.inf:
            seen[c.channel] = float(working) / int(c.rows)
    return seen


def _costs(view: LoadView, report: BatchReport, seen: Mapping[Channel, float]) -> dict[Channel, float]:
    costs = dict(view.channel_cost_ms)
    few = _FEW_ROWS * sum(c.rows for c in report.channels) / max(len(report.channels), 1)
    for c in report.channels:
        now, known = seen.get(c.channel), costs.get(c.channel)
        if now is not None and (c.rows >= few or (known is not None and now < known)):
            costs[c.channel] = now if known is None else (1 - view.alpha) * known + view.alpha * now
    return costs


def _silent(report: BatchReport, seen: Mapping[Channel, float], table: Table) -> frozenset[Channel]:
    """Channels that should have a measurement and have none. A channel without rows needs none."""
    had_rows = {table.channel_of[b.bin] for b in report.bins if b.rows > 0 and b.bin in table.channel_of}
    reported = {c.channel for c in report.channels}
    missing = set(range(table.channels)) - reported
    if report.table_version == table.version:  # otherwise the rows may have been on other channels
        missing |= had_rows - seen.keys()
    return frozenset(missing)


def _history(
    view: LoadView, seen: Mapping[Channel, float], costs: Mapping[Channel, float], channels: int
) -> tuple[tuple[float, ...], ...]:
    """The last costs as measured; for a channel without a measurement, its smoothed cost."""
    if view.keep < 1:
        return ()
    mean = sum(costs.values()) / len(costs) if costs else 1.0
    row = tuple(seen.get(channel, costs.get(channel, mean)) for channel in range(channels))
    before = view.history if view.history and len(view.history[0]) == channels else ()
    return (*before, row)[-view.keep :]


def _move_cost(view: LoadView, report: BatchReport, table: Table) -> float:
    """The ms that reading a byte of moved state takes, smoothed; 0 until the first move was measured."""
    bins = [0] * table.channels
    for b in report.bins:
        channel = table.channel_of.get(b.bin)
        if channel is not None and b.state_bytes > 0:
            bins[channel] += 1
    spent = size = 0.0
    for c in report.channels:
        for read, ms in ((c.rebuilt_bins, c.read_ms), (c.ahead_bins, c.ahead_ms)):
            if c.channel < table.channels and read > 0 and 0 < ms < math.inf:
                spent += ms
                size += read * c.state_bytes / max(bins[c.channel], 1)
    if spent <= 0 or size <= 0:
        return view.move_ms_per_byte
    known = view.move_ms_per_byte or spent / size
    return (1 - view.alpha) * known + view.alpha * spent / size


def _finite(measured: float) -> float:
    """A measurement, or 0 if it is not finite: a smoothed value would never recover from NaN."""
    return float(measured) if math.isfinite(measured) else 0.0


def _smooth(
    old: Mapping[int, float], new: Mapping[int, float], keys: Iterable[int], alpha: float
) -> dict[int, float]:
    return {key: (1 - alpha) * old.get(key, 0.0) + alpha * new.get(key, 0.0) for key in keys}


def _pairs(keys: list[int], values: list[Any]) -> dict[int, Any]:
    return dict(zip(keys, values, strict=True))
