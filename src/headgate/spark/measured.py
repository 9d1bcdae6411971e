"""The answers of a batch's tasks as a report."""

from __future__ import annotations

from typing import Any

import numpy as np

from headgate.reports.batch_report import BatchReport, BinReport, ChannelReport, HotKey
from headgate.routing.table import Table
from headgate.spark.manifest import Manifest

HOT_SHARE = 0.01


def batch_report(
    batch: int, table: Table, answers: list[dict[str, Any]], last: Manifest | None, wall_ms: float
) -> BatchReport:
    """Per channel and per bin, with the state of bins that the batch did not touch taken from the last
    commit.
    """
    sizes = dict(last.state_bytes) if last else {}
    keys = last.state_keys if last else {}
    bins: dict[int, BinReport] = {}
    for a in answers:
        t = a["touched"]
        per_row = a["busy_ms"] / a["rows"] if a["rows"] else 0.0
        for b, rows, size, n in zip(t["bin"], t["rows"], t["state_bytes"], t["keys"], strict=True):
            bins[b] = BinReport(bin=b, rows=rows, busy_ms=round(per_row * rows, 3), state_bytes=size, keys=n)
            sizes[b] = size
    for b, size in sizes.items():
        if b not in bins and b in table.channel_of:
            bins[b] = BinReport(bin=b, rows=0, busy_ms=0.0, state_bytes=size, keys=keys.get(b, 0))
    held = [0] * table.channels
    for b, size in sizes.items():
        if b in table.channel_of:
            held[table.channel_of[b]] += size
    channels = tuple(
        ChannelReport(
            channel=a["channel"],
            rows=a["rows"],
            out_rows=a["out_rows"],
            busy_ms=round(a["busy_ms"], 3),
            idle_ms=round(a["idle_ms"], 3),
            state_bytes=held[a["channel"]],
            state_keys=sum(one.keys for b, one in bins.items() if table.channel_of.get(b) == a["channel"]),
            delta_bytes=a["written"],
            rebuilt_bins=a["rebuilt_bins"],
            executor=a["executor"],
        )
        for a in answers
    )
    rows = sum(a["rows"] for a in answers)
    return BatchReport(
        batch=batch,
        table_version=table.version,
        rows=rows,
        wall_ms=round(wall_ms, 3),
        channels=channels,
        bins=tuple(bins[b] for b in sorted(bins)),
        hot_keys=_hot_keys(table, answers, rows),
    )


def _hot_keys(table: Table, answers: list[dict[str, Any]], rows: int) -> tuple[HotKey, ...]:
    """Keys that matter for balance: those with at least a hundredth of a channel's fair share of the rows.

    The channels' counts are exact; a split key is on several, so its counts are added up.
    """
    counts: dict[int, int] = {}
    labels: dict[int, str] = {}
    for a in answers:
        for h, n, label in zip(*a["hot"], strict=True):
            counts[h] = counts.get(h, 0) + n
            labels[h] = label
    found = [(n, h, labels[h]) for h, n in counts.items()]
    least = max(2.0, HOT_SHARE * rows / table.channels)
    found = sorted((f for f in found if f[0] >= least), key=lambda f: (-f[0], f[1]))
    bins = table.bin_of_hash(np.array([h for _, h, _ in found], np.int64)).tolist()
    return tuple(
        HotKey(hash=h, bin=b, label=label, rows=n) for (n, h, label), b in zip(found, bins, strict=True)
    )
