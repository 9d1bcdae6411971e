"""The channels of a batch as bars, the bins in them, and the bins that move. Pure.

Laws: the rows of all segments sum to the rows of the report; every move that a decision carries out is
shown; bins that are too small to be seen are added up, never left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.control.journal import Entry
from headgate.control.report import BatchReport, BinReport
from headgate.routing.table import Table

SMALL = 0.03
"""A bin with a smaller part of the mean channel's rows has no segment of its own."""


@dataclass(frozen=True)
class Moved:
    """A bin that changes its channel from one table to the next."""

    bin: int
    source: int | None
    """None for a bin that is new and whose key comes from several channels or none."""
    target: int


def moved(before: Table, after: Table) -> list[Moved]:
    """The bins that are on another channel under the second table. A key that is pinned comes from
    the channel of its home bin.
    """
    homes = {pin.bin: after.home_bin(pin.hash) for pin in after.pins}
    found = []
    for bin, channel in after.items():
        source = before.channel_of.get(bin, before.channel_of.get(homes.get(bin, -1)))
        if source != channel:
            found.append(Moved(bin, source, channel))
    return found


def channel_bars(entry: Entry, before: Entry | None) -> dict[str, Any]:
    """The channels of a batch, with the mean that they are compared with, and what moves. They are
    compared by their busy times, or by their rows if no time was measured.
    """
    report, table = entry.report, entry.decision.base
    came = moved(before.decision.base, table) if before is not None else []
    goes = moved(table, entry.decision.table)
    timed = any(channel.busy_ms for channel in report.channels)
    values = [channel.busy_ms if timed else float(channel.rows) for channel in report.channels]
    mean = sum(values) / len(values) if values else 0.0
    least = SMALL * report.rows / max(1, len(report.channels))
    watched = {move.bin for move in (*came, *goes)}
    bins = {bin.bin: bin for bin in report.bins}
    labels, pinned = _labels(report, table), {pin.bin for pin in table.pins}
    on: dict[int, list[int]] = {}
    for bin, channel_number in table.items():
        on.setdefault(channel_number, []).append(bin)
    bars = []
    for channel, value in zip(report.channels, values, strict=True):
        here = on.get(channel.channel, [])
        mine = [bins[bin] for bin in here if bin in bins]
        bars.append(
            {
                "channel": channel.channel,
                "rows": channel.rows,
                "value": round(value, 3),
                "of_mean": round(value / mean, 3) if mean else 1.0,
                "bins": len(here),
                "keys": channel.state_keys,
                "state_bytes": channel.state_bytes,
                "disk_bytes": channel.disk_bytes,
                "memory_limit": channel.memory_limit,
                "waiting": channel.backlog_rows,
                "executor": channel.executor,
                "segments": _segments(mine, least, watched, labels, pinned),
            }
        )
    return {
        "unit": "ms" if timed else "rows",
        "mean": round(mean, 3),
        "imbalance": round(report.imbalance, 3),
        "row_imbalance": round(report.row_imbalance, 3),
        "row_bound": round(report.row_bound, 3),
        "bars": bars,
        "came": [_as_json(move, bins) for move in came],
        "goes": [_as_json(move, bins) for move in goes],
    }


def _segments(
    bins: Iterable[BinReport], least: float, watched: set[int], labels: dict[int, str], pinned: set[int]
) -> list[dict[str, Any]]:
    """The bins of a channel, the largest first, and the small ones together."""
    ordered = sorted(bins, key=lambda bin: (-bin.rows, bin.bin))
    large = [bin for bin in ordered if bin.rows >= max(least, 1) or bin.bin in watched]
    small = [bin for bin in ordered if not (bin.rows >= max(least, 1) or bin.bin in watched)]
    segments = [
        {
            "bin": bin.bin,
            "rows": bin.rows,
            "state_bytes": bin.state_bytes,
            "keys": bin.keys,
            "on_disk": bin.on_disk,
            "pinned": bin.bin in pinned,
            "label": labels.get(bin.bin, ""),
        }
        for bin in large
    ]
    if small:
        rows, size = sum(bin.rows for bin in small), sum(bin.state_bytes for bin in small)
        keys = sum(bin.keys for bin in small)
        segments.append(
            {"bin": None, "bins": len(small), "rows": rows, "state_bytes": size, "keys": keys, "label": ""}
        )
    return segments


def _labels(report: BatchReport, table: Table) -> dict[int, str]:
    """The hottest key of each bin that has one."""
    labels = {pin.bin: pin.label for pin in table.pins}
    for key in report.hot_keys:  # the most frequent first
        labels.setdefault(key.bin, key.label)
    return labels


def _as_json(move: Moved, bins: Mapping[int, BinReport]) -> dict[str, Any]:
    size = bins.get(move.bin)
    return {
        "bin": move.bin,
        "from": move.source,
        "to": move.target,
        "rows": size.rows if size else 0,
        "state_bytes": size.state_bytes if size else 0,
    }


def hot_keys(report: BatchReport, table: Table, most: int) -> list[dict[str, Any]]:
    """The keys with the most rows, and the share of the batch that each has."""
    pieces: dict[int, list[int]] = {}
    for pin in table.pins:
        pieces.setdefault(pin.hash, []).append(pin.bin)
    return [
        {
            "label": key.label or str(key.hash),
            "rows": key.rows,
            "share": round(key.rows / report.rows, 5) if report.rows else 0.0,
            "bins": pieces.get(key.hash, [key.bin]),
            "channels": sorted({table.channel_of[bin] for bin in pieces.get(key.hash, [key.bin])}),
            "pinned": key.hash in pieces,
        }
        for key in report.hot_keys[:most]
    ]
