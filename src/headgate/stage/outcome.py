"""Combines the answers of a batch's tasks: the live state, the rows that wait, and
the report for the control loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from headgate.control.report import BatchReport, BinReport, ChannelReport, HotKey
from headgate.flow.backlog import Backlog
from headgate.flow.flow_state import FlowState
from headgate.routing.reshape import BinPart
from headgate.routing.table import Table
from headgate.stage.answer import HOT_ROWS, Answer
from headgate.stage.flow_control import Flow
from headgate.state.index import FOREVER
from headgate.storage.state_index import StateFile, StateIndex, live_files

HOT_SHARE = 0.01
"""A key matters for balance if it has at least this share of the rows that a channel
would have under perfect balance.
"""


def state_after(
    state: StateIndex, batch: int, table: Table, answers: Sequence[Answer], credit: int
) -> StateIndex:
    """The files that make up each bin after this batch: those before it, and the files of its tasks."""
    bases, sizes, keys, due = dict(state.bases), dict(state.sizes), dict(state.keys), dict(state.due)
    for answer in answers:
        for b in answer.changed:
            bases.setdefault(b, batch)
        bases.update(dict.fromkeys(answer.snapshots, batch))
        for touched in answer.touched:
            sizes[touched.bin], keys[touched.bin] = touched.state_bytes, touched.keys
            due[touched.bin] = touched.due
    for dropped in bases.keys() - set(table.bins):
        del bases[dropped]
        for known in (sizes, keys, due):
            known.pop(dropped, None)
    written = [StateFile(a.state_file, batch, frozenset(a.changed)) for a in answers if a.state_file]
    earned = sum(answer.delta_bytes for answer in answers)
    return StateIndex(
        files=live_files((*state.files, *written), bases),
        bases=bases,
        sizes=sizes,
        keys=keys,
        due={b: time for b, time in due.items() if time < FOREVER},
        credit=credit + earned,
        earned=earned,
    )


def backlog_after(
    backlog: Backlog, reshaped: Mapping[int, tuple[BinPart, ...]], answers: Sequence[Answer], batch: int
) -> Backlog:
    """The rows that wait after a batch. Waiting rows of reshaped bins were all read again and processed, so
    those that wait anew came in this batch.
    """
    sources = {source.bin for sources in reshaped.values() for source in sources}
    taken = backlog.of(sources) + tuple(entry for a in answers for entry in a.taken)
    return backlog.after(taken, (replace(entry, batch=batch) for a in answers for entry in a.waiting))


def flow_after(flow: Flow, answers: Sequence[Answer], wall_ms: float) -> FlowState:
    """What flow control must remember for the next batch."""
    return FlowState(
        rotation=flow.rotation,
        in_flight=flow.in_flight,
        idle=tuple(a.channel for a in answers if not a.arrived),
        wall_ms=wall_ms,
        read_ms=tuple(a.read_ms / a.rebuilt_bins if a.rebuilt_bins else 0.0 for a in answers),
        executors=tuple(a.executor for a in answers),
        waited={
            bin: (ms + wall_ms, batches + 1)
            for bin, (ms, batches) in flow.waited.items()
            if bin in flow.asleep
        },
    )


def batch_report(
    batch: int,
    table: Table,
    answers: Sequence[Answer],
    state: StateIndex,
    flow: Flow,
    backlog: Backlog,
    wall_ms: float,
) -> BatchReport:
    """The report of a batch, by channel and by bin; `state` and `backlog` are those after the batch.

    The rows of a channel are those that it processed; the rows of a bin are those that arrived for it.
    """
    came: dict[int, int] = {}
    for answer in answers:
        came.update(answer.arrived)
    per_row = [a.busy_ms / a.rows if a.rows else 0.0 for a in answers]
    bins = [
        BinReport(
            bin=b,
            rows=came.get(b, 0),
            busy_ms=round(per_row[table.channel_of[b]] * came.get(b, 0), 3),
            state_bytes=state.sizes.get(b, 0),
            keys=state.keys.get(b, 0),
            on_disk=b in flow.on_disk,
            backlog_rows=backlog.rows.get(b, 0),
            backlog_bytes=backlog.bytes.get(b, 0),
        )
        for b in sorted(state.sizes.keys() | came.keys() | backlog.rows.keys())
        if b in table.channel_of
    ]
    held: list[list[BinReport]] = [[] for _ in answers]
    for report in bins:
        held[table.channel_of[report.bin]].append(report)
    return BatchReport(
        batch=batch,
        table_version=table.version,
        rows=sum(came.values()),
        wall_ms=round(wall_ms, 3),
        channels=tuple(_channel_report(a, mine, flow) for a, mine in zip(answers, held, strict=True)),
        bins=tuple(bins),
        hot_keys=_hot_keys(table, answers),
    )


def _channel_report(answer: Answer, bins: Sequence[BinReport], flow: Flow) -> ChannelReport:
    return ChannelReport(
        channel=answer.channel,
        rows=answer.rows,
        out_rows=answer.out_rows,
        busy_ms=round(answer.busy_ms, 3),
        idle_ms=round(answer.idle_ms, 3),
        state_bytes=sum(b.state_bytes for b in bins),
        state_keys=sum(b.keys for b in bins),
        delta_bytes=answer.state_bytes,
        rebuilt_bins=answer.rebuilt_bins,
        executor=answer.executor,
        read_ms=round(answer.read_ms, 3),
        ahead_bins=answer.ahead_bins,
        ahead_ms=round(answer.ahead_ms, 3),
        memory_limit=flow.limits.get(answer.channel, 0),
        resident_bytes=sum(b.state_bytes for b in bins if not b.on_disk),
        disk_bytes=sum(b.state_bytes for b in bins if b.on_disk),
        backlog_rows=sum(b.backlog_rows for b in bins),
        backlog_bytes=sum(b.backlog_bytes for b in bins),
    )


def _hot_keys(table: Table, answers: Sequence[Answer]) -> tuple[HotKey, ...]:
    """Keys that matter for balance, the most frequent first.

    Each channel's counts are exact. A split key is on several channels, so its counts are added up.
    """
    counts: Counter[int] = Counter()
    labels: dict[int, str] = {}
    for key in (key for answer in answers for key in answer.frequent):
        counts[key.hash] += key.rows
        labels[key.hash] = key.label
    least = max(HOT_ROWS, HOT_SHARE * sum(answer.rows for answer in answers) / table.channels)
    hot = sorted(((-n, h) for h, n in counts.items() if n >= least))
    bins = table.bin_of_hash(np.array([h for _, h in hot], np.int64)).tolist()
    return tuple(HotKey(hash=h, bin=b, label=labels[h], rows=-n) for (n, h), b in zip(hot, bins, strict=True))
