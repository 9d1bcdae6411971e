"""The answers of a batch's tasks as a report."""

from __future__ import annotations

from typing import Any

import numpy as np

from headgate.control.report import BatchReport, BinReport, ChannelReport, HotKey
from headgate.flow.backlog import Backlog
from headgate.routing.table import Table
from headgate.stage.flow_control import Flow
from headgate.storage.manifest import Manifest

HOT_SHARE = 0.01


def batch_report(
    batch: int,
    table: Table,
    answers: list[dict[str, Any]],
    last: Manifest | None,
    wall_ms: float,
    flow: Flow,
    backlog: Backlog,
) -> BatchReport:
    """Per channel and per bin, with the state of bins that the batch did not touch taken from the last commit.

    A channel's rows are those that it processed, a bin's those that came for it; `backlog` is what waits after the batch.
    """
    sizes = dict(last.state_bytes) if last else {}
    keys = dict(last.state_keys) if last else {}
    bins: dict[int, BinReport] = {}
    came: dict[int, int] = {}
    per_row = [a["busy_ms"] / a["rows"] if a["rows"] else 0.0 for a in answers]
    for a in answers:
        touched = a["touched"]
        sizes.update(zip(touched["bin"], touched["state_bytes"], strict=True))
        keys.update(zip(touched["bin"], touched["keys"], strict=True))
        came.update(zip(*a["arrived"], strict=True))
    for b in sorted(sizes.keys() | came.keys() | backlog.rows.keys()):
        if b in table.channel_of:
            rows = came.get(b, 0)
            bins[b] = BinReport(
                bin=b,
                rows=rows,
                busy_ms=round(per_row[table.channel_of[b]] * rows, 3),
                state_bytes=sizes.get(b, 0),
                keys=keys.get(b, 0),
                on_disk=b in flow.on_disk,
                backlog_rows=backlog.rows.get(b, 0),
                backlog_bytes=backlog.bytes.get(b, 0),
            )
    held: list[list[BinReport]] = [[] for _ in answers]
    for b, one in bins.items():
        held[table.channel_of[b]].append(one)
    channels = tuple(
        ChannelReport(
            channel=a["channel"],
            rows=a["rows"],
            out_rows=a["out_rows"],
            busy_ms=round(a["busy_ms"], 3),
            idle_ms=round(a["idle_ms"], 3),
            state_bytes=sum(one.state_bytes for one in mine),
            state_keys=sum(one.keys for one in mine),
            delta_bytes=a["written"],
            rebuilt_bins=a["rebuilt_bins"],
            executor=a["executor"],
            read_ms=round(a["read_ms"], 3),
            memory_limit=flow.limits.get(a["channel"], 0),
            resident_bytes=sum(one.state_bytes for one in mine if not one.on_disk),
            disk_bytes=sum(one.state_bytes for one in mine if one.on_disk),
            backlog_rows=sum(one.backlog_rows for one in mine),
            backlog_bytes=sum(one.backlog_bytes for one in mine),
        )
        for a, mine in zip(answers, held, strict=True)
    )
    total = sum(came.values())
    return BatchReport(
        batch=batch,
        table_version=table.version,
        rows=total,
        wall_ms=round(wall_ms, 3),
        channels=channels,
        bins=tuple(bins[b] for b in sorted(bins)),
        hot_keys=_hot_keys(table, answers, sum(a["rows"] for a in answers)),
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
