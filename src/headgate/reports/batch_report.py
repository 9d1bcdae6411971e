"""What happened in one batch, per channel and per bin: the statistics of Flux (section 5.1), on batches.

Its JSON holds columns, not one object per bin, because hundreds of bins go in every line of the journal.
Not here: smoothing over batches (`load_view`), and measuring, which is the drivers' work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from headgate.errors import ConfigError
from headgate.ids import BatchId, Bin, Channel, Version

_Record = TypeVar("_Record", "ChannelReport", "BinReport", "HotKey")


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """One channel's task in the batch. Idle time counts only waiting for input."""

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


@dataclass(frozen=True, slots=True)
class BinReport:
    """One bin that was touched in the batch or holds state, with the distinct keys of that state."""

    bin: Bin
    rows: int
    busy_ms: float = 0.0
    state_bytes: int = 0
    keys: int = 0


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
            ("channel", [one.channel for one in self.channels]),
            ("bin", [one.bin for one in self.bins]),
        ):
            if len(set(ids)) < len(ids):
                raise ConfigError(f"batch {self.batch} reports a {what} twice: {sorted(ids)}")

    @property
    def imbalance(self) -> float:
        """Busy time of the busiest channel over the mean; 1 is even, and so is a batch without work."""
        return _peak_over_mean([one.busy_ms for one in self.channels])

    @property
    def row_imbalance(self) -> float:
        """Rows of the fullest channel over the mean."""
        return _peak_over_mean([one.rows for one in self.channels])

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
    """Turn records into columns; numpy's numbers become JSON's own."""
    convert = {"float": float, "str": str}
    rows = tuple(records)
    return {
        field.name: [convert.get(str(field.type), int)(getattr(row, field.name)) for row in rows]
        for field in fields(kind)
    }


def records_of(kind: type[_Record], columns: Mapping[str, list[Any]]) -> tuple[_Record, ...]:
    """Turn columns back into records."""
    names = [field.name for field in fields(kind)]
    rows = zip(*(columns[name] for name in names), strict=True)
    return tuple(kind(**dict(zip(names, row, strict=True))) for row in rows)


def _peak_over_mean(values: list[float] | list[int]) -> float:
    total = sum(values)
    return max(values) * len(values) / total if total > 0 else 1.0
