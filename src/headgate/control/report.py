"""What happened in one batch, per channel and per bin: the statistics of Flux (section 5.1), on batches.

Its JSON holds columns, not one object per bin, because every line of the journal has hundreds of bins.
The columns about memory and backlog are omitted if nothing was spilled or held back. Not here: smoothing
over batches (`view`), and measuring, which is the drivers' work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from headgate.errors import ConfigError
from headgate.ids import BatchId, Bin, Channel, Version
from headgate.routing.lower_bound import busiest_bound

_Record = TypeVar("_Record", "ChannelReport", "BinReport", "HotKey")
_SPARSE = {"sparse": True}  # a column that the JSON omits if it holds only defaults


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """One channel's task in the batch. Idle time counts only waiting for input.

    `memory_limit` is the memory granted for state, 0 for no bound. `resident_bytes` is the state in
    memory and `disk_bytes` the state that was spilled; the backlog is the rows that were admitted and
    not yet processed. `read_ms` is the part of the busy time spent on reading the state of bins that
    moved here or came from disk. `ahead_ms` is the time spent, beside the busy time, on reading the state
    of `ahead_bins` bins that will move here.
    """

    channel: Channel
    rows: int
    out_rows: int = 0
    busy_ms: float = 0.0
    idle_ms: float = 0.0
    state_bytes: int = 0
    state_keys: int = 0
    delta_bytes: int = 0
    rebuilt_bins: int = 0
    executor: str = ""
    read_ms: float = field(default=0.0, metadata=_SPARSE)
    ahead_bins: int = field(default=0, metadata=_SPARSE)
    ahead_ms: float = field(default=0.0, metadata=_SPARSE)
    memory_limit: int = field(default=0, metadata=_SPARSE)
    resident_bytes: int = field(default=0, metadata=_SPARSE)
    disk_bytes: int = field(default=0, metadata=_SPARSE)
    backlog_rows: int = field(default=0, metadata=_SPARSE)
    backlog_bytes: int = field(default=0, metadata=_SPARSE)


@dataclass(frozen=True, slots=True)
class BinReport:
    """One bin that was touched in the batch or holds state, with its number of keys and its waiting rows."""

    bin: Bin
    rows: int
    busy_ms: float = 0.0
    state_bytes: int = 0
    keys: int = 0
    on_disk: bool = field(default=False, metadata=_SPARSE)
    backlog_rows: int = field(default=0, metadata=_SPARSE)
    backlog_bytes: int = field(default=0, metadata=_SPARSE)


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key with many rows in the batch: its signed 64-bit hash, its bin, a label for people, its rows."""

    hash: int
    bin: Bin
    label: str
    rows: int


@dataclass(frozen=True)
class BatchReport:
    """One batch under one table. `bins` holds only bins that were touched or hold state."""

    batch: BatchId
    table_version: Version
    rows: int
    wall_ms: float
    channels: tuple[ChannelReport, ...]
    bins: tuple[BinReport, ...]
    hot_keys: tuple[HotKey, ...] = ()

    def __post_init__(self) -> None:
        """Refuse two reports of one channel or of one bin: both would be counted."""
        for what, ids in (
            ("channel", [c.channel for c in self.channels]),
            ("bin", [b.bin for b in self.bins]),
        ):
            if len(set(ids)) < len(ids):
                raise ConfigError(f"batch {self.batch} reports a {what} twice: {sorted(ids)}")

    @property
    def imbalance(self) -> float:
        """Busy time of the busiest channel divided by the mean; 1 if all are equal or there was no work."""
        return _peak_over_mean([c.busy_ms for c in self.channels])

    @property
    def row_imbalance(self) -> float:
        """Rows of the fullest channel divided by the mean."""
        return _peak_over_mean([c.rows for c in self.channels])

    @property
    def row_bound(self) -> float:
        """A lower bound of `row_imbalance` over every placement of whole keys (`busiest_bound`), from the hot keys.

        Rows are whole as well: of three rows on eight channels some channel has one, 2.67 times the mean.
        """
        hot = [key.rows for key in self.hot_keys]
        channels, rows = max(1, len(self.channels)), sum(c.rows for c in self.channels)
        rest = rows - sum(hot)
        # An operator that counts a row of a key twice proves nothing about keys.
        keys = busiest_bound(hot, channels, rest=rest) if rest >= 0 else 1.0
        return max(keys, -(-rows // channels) * channels / rows) if rows > 0 else keys

    @property
    def balance(self) -> str:
        """Busiest over mean in time and in rows, and the least that whole keys allow."""
        return f"{self.imbalance:.2f}x the mean (rows {self.row_imbalance:.2f}x, at best {self.row_bound:.2f}x with whole keys)"

    def to_json(self) -> dict[str, Any]:
        """JSON-native values in a stable order."""
        return {
            "batch": int(self.batch),
            "table_version": int(self.table_version),
            "rows": int(self.rows),
            "wall_ms": float(self.wall_ms),
            "channels": columns_of(ChannelReport, self.channels),
            "bins": columns_of(BinReport, self.bins),
            "hot_keys": columns_of(HotKey, self.hot_keys),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BatchReport:
        """Read what `to_json` wrote."""
        return cls(
            batch=data["batch"],
            table_version=data["table_version"],
            rows=data["rows"],
            wall_ms=data["wall_ms"],
            channels=records_of(ChannelReport, data["channels"]),
            bins=records_of(BinReport, data["bins"]),
            hot_keys=records_of(HotKey, data["hot_keys"]),
        )


def columns_of(kind: type[_Record], records: Iterable[_Record]) -> dict[str, list[Any]]:
    """Turn records into columns; numpy's numbers become JSON numbers."""
    rows = tuple(records)
    columns: dict[str, list[Any]] = {}
    for name, to, sparse, default in _COLUMNS[kind]:
        column = [to(getattr(row, name)) for row in rows]
        if not (sparse and all(value == default for value in column)):
            columns[name] = column
    return columns


_CONVERT: dict[str, type] = {"float": float, "str": str, "bool": bool}
_COLUMNS: dict[type, list[tuple[str, type, bool, Any]]] = {
    kind: [
        (f.name, _CONVERT.get(str(f.type), int), bool(f.metadata.get("sparse")), f.default)
        for f in fields(kind)
    ]
    for kind in (ChannelReport, BinReport, HotKey)
}
"""Of each column of a record: its name, its type in JSON, whether it may be omitted, and its default."""


def records_of(kind: type[_Record], columns: Mapping[str, list[Any]]) -> tuple[_Record, ...]:
    """Turn columns back into records; an absent column takes its default."""
    names = [name for name, _, _, default in _COLUMNS[kind] if name in columns or default is MISSING]
    rows = zip(*(columns[name] for name in names), strict=True)
    return tuple(kind(**dict(zip(names, row, strict=True))) for row in rows)


def _peak_over_mean(values: list[float] | list[int]) -> float:
    total = sum(values)
    return max(values) * len(values) / total if total > 0 else 1.0
