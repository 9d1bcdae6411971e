"""A recorded run under another policy: what would have happened, batch by batch. Pure.

The rows, busy times and state sizes of the recorded run were measured. The rest is predicted: the
tables of the other policy are applied to the rows that each bin had in each batch, and the load of
a channel is the number of its rows times the cost of a row there, as measured in that batch or in
the last one that had rows. The prediction assumes the same source and the same machines, and moves
that cost bytes but no time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from headgate import policies
from headgate.control import journal
from headgate.control.guard import Guard
from headgate.control.loop import Decision, Loop
from headgate.control.report import BatchReport, BinReport, ChannelReport, HotKey
from headgate.routing.table import Table

ABOUT = (
    "recorded: measured by the stage. replayed: predicted from the recorded rows and row costs of each batch, "
    "assuming the same source, the same machines, and moves that take no time"
)


@dataclass(frozen=True)
class BatchFigures:
    """One batch of a run: its imbalance (busiest over mean), the busiest channel's time, and what
    was moved after it.
    """

    imbalance: float
    busiest_ms: float
    moves: int
    pins: int
    moved_bytes: int


@dataclass(frozen=True)
class ReplayedBatch:
    """One batch, as it was recorded and as it would have been."""

    batch: int
    rows: int
    recorded: BatchFigures
    replayed: BatchFigures


def replay(entries: list[journal.Entry], policy: str, guard: Guard) -> list[ReplayedBatch]:
    """Replay the recorded run under another policy, beginning with the first table of the journal."""
    chosen, first = policies.get(policy), entries[0]
    if first.start is not None:
        loop = Loop.restore({**first.start, "asked": None}, chosen, guard, "act")
    else:
        loop = Loop(chosen, guard, "act", first.decision.base)
    costs: dict[int, float] = {}
    steps = []
    for entry in entries:
        report, decision = entry.report, entry.decision
        costs |= {
            each.channel: each.busy_ms / each.rows for each in report.channels if each.rows and each.busy_ms
        }
        if decision.asked is not None:
            loop.request_channels(decision.asked)
        predicted = under(report, decision.base, loop.table, costs)
        decided = loop.step(predicted)
        steps.append(
            ReplayedBatch(report.batch, report.rows, _figures(report, decision), _figures(predicted, decided))
        )
    return steps


def under(report: BatchReport, recorded: Table, table: Table, costs: dict[int, float]) -> BatchReport:
    """The report that the same rows would have made under another table.

    The rows of a key that is pinned in only one of the two tables go with it. Their number is that
    of its own bin, or the count among the report's hot keys. Law: no row is lost, so the totals are
    those of the report.
    """
    rows, size = Counter[int](), Counter[int]()
    key_of = {pin.bin: pin.hash for pin in recorded.pins}
    pinned_to = {pin.hash: pin.bin for pin in table.pins}
    reported = {each.bin: each for each in report.bins}
    for each in report.bins:
        key = key_of.get(each.bin)
        bin = each.bin if key is None else pinned_to.get(key, table.home_bin(key))
        rows[bin] += each.rows
        size[bin] += each.state_bytes
    for hot in report.hot_keys:
        if hot.hash in pinned_to and hot.hash not in key_of.values():
            share = min(hot.rows, rows[table.home_bin(hot.hash)])
            rows[table.home_bin(hot.hash)] -= share
            rows[pinned_to[hot.hash]] += share
    usual = sum(costs.values()) / len(costs) if costs else 1.0
    cost = [costs.get(channel, usual) for channel in range(table.channels)]
    bins = tuple(
        BinReport(
            bin, rows[bin], rows[bin] * cost[channel], size[bin], bin in reported and reported[bin].on_disk
        )
        for bin, channel in table.items()
    )
    total, held = [0] * table.channels, [0] * table.channels
    for bin, channel in table.items():
        total[channel] += rows[bin]
        held[channel] += size[bin]
    busy = [count * row_ms for count, row_ms in zip(total, cost, strict=True)]
    limit = {channel.channel: channel.memory_limit for channel in report.channels}
    channels = tuple(
        ChannelReport(
            channel, total[channel], busy_ms=ms, idle_ms=max(busy) - ms, state_bytes=held[channel],
            memory_limit=limit.get(channel, 0),
        )
        for channel, ms in enumerate(busy)
    )  # fmt: skip
    at = table.bin_of_hash(np.array([hot.hash for hot in report.hot_keys], np.int64)).tolist()
    hot_keys = tuple(HotKey(h.hash, bin, h.label, h.rows) for h, bin in zip(report.hot_keys, at, strict=True))
    return BatchReport(report.batch, table.version, sum(total), max(busy), channels, bins, hot_keys)


def _figures(report: BatchReport, decision: Decision) -> BatchFigures:
    plan = decision.plan if decision.changed else None
    return BatchFigures(
        imbalance=report.imbalance,
        busiest_ms=max((channel.busy_ms for channel in report.channels), default=0.0),
        moves=len(plan.moves) if plan else 0,
        pins=len(plan.pins) if plan else 0,
        moved_bytes=int(plan.cost) if plan else 0,
    )


def summary(steps: list[ReplayedBatch]) -> dict[str, dict[str, float]]:
    """Totals over the run: the time of the busiest channels, what was moved, and the mean imbalance."""
    runs = {"recorded": [step.recorded for step in steps], "replayed": [step.replayed for step in steps]}
    return {
        name: {
            "busiest_ms": sum(batch.busiest_ms for batch in batches),
            "mean_imbalance": sum(batch.imbalance for batch in batches) / len(batches),
            "moves": sum(batch.moves for batch in batches),
            "pins": sum(batch.pins for batch in batches),
            "moved_bytes": sum(batch.moved_bytes for batch in batches),
        }
        for name, batches in runs.items()
    }
