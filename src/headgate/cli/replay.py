"""`headgate replay`: what another policy would have done with a recorded run. Needs no Spark.

Measured are the rows, the busy times and the sizes of the recorded run. The rest is predicted: the other policy's
tables are applied to the rows that each bin had in each batch, and a channel's load is those rows at what a row cost
on that channel then, or last. It is assumed that the source and the machines would have been the same, and that
moves cost bytes but no time.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table as Grid

from headgate import policies
from headgate.cli.journal import decoded, read
from headgate.control import journal
from headgate.control.guard import Guard
from headgate.control.loop import Decision, Loop
from headgate.control.report import BatchReport, BinReport, ChannelReport, HotKey
from headgate.errors import ConfigError
from headgate.routing.table import Table

WORDS = (
    "recorded: measured by the stage. replayed: predicted from the recorded rows and row costs of each batch; "
    "same source and machines assumed, and moves that take no time"
)


@dataclass(frozen=True)
class Side:
    """Busiest over mean, the busiest channel's ms, and what was decided after the batch."""

    imbalance: float
    busiest_ms: float
    moves: int
    pins: int
    moved_bytes: int


@dataclass(frozen=True)
class Step:
    """One batch, as it was recorded and as it would have been."""

    batch: int
    rows: int
    recorded: Side
    replayed: Side


def entries_of(path: str) -> tuple[list[journal.Entry], str]:
    """The entries of a checkpoint's journal, or of one file of its lines; and a word on a torn last line."""
    if not os.path.isfile(path):
        return read(path)
    lines = [line for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines() if line]
    if not lines:
        raise ConfigError(
            f"{path} is empty: give a journal, or the folder that a stage has as its checkpoint"
        )
    return decoded(lines, f"{path},")


def replay(entries: list[journal.Entry], policy: str, guard: Guard) -> list[Step]:
    """The recorded run under another policy, from the first table of the journal on."""
    chosen, first = policies.get(policy), entries[0]
    if first.start is not None:
        loop = Loop.restore({**first.start, "asked": None}, chosen, guard, "act")
    else:
        loop = Loop(chosen, guard, "act", first.decision.base)
    costs: dict[int, float] = {}
    steps = []
    for entry in entries:
        report, decision = entry.report, entry.decision
        costs |= {one.channel: one.busy_ms / one.rows for one in report.channels if one.rows and one.busy_ms}
        if decision.asked is not None:
            loop.request_channels(decision.asked)
        predicted = under(report, decision.base, loop.table, costs)
        made = loop.step(predicted)
        steps.append(Step(report.batch, report.rows, _side(report, decision), _side(predicted, made)))
    return steps


def under(report: BatchReport, recorded: Table, table: Table, costs: dict[int, float]) -> BatchReport:
    """The report that the same rows would have made under another table.

    A key pinned in one of the two tables takes its rows along: as its own bin had them, or as the report counts
    them among its hot keys. Law: no row is lost, so the totals are those of the report.
    """
    rows, size = Counter[int](), Counter[int]()
    keys = {pin.bin: pin.hash for pin in recorded.pins}
    place = {pin.hash: pin.bin for pin in table.pins}
    kept = {one.bin: one for one in report.bins}
    for one in report.bins:
        key = keys.get(one.bin)
        bin = one.bin if key is None else place.get(key, table.home_bin(key))
        rows[bin] += one.rows
        size[bin] += one.state_bytes
    for hot in report.hot_keys:
        if hot.hash in place and hot.hash not in keys.values():
            share = min(hot.rows, rows[table.home_bin(hot.hash)])
            rows[table.home_bin(hot.hash)] -= share
            rows[place[hot.hash]] += share
    usual = sum(costs.values()) / len(costs) if costs else 1.0
    cost = [costs.get(channel, usual) for channel in range(table.channels)]
    bins = tuple(
        BinReport(bin, rows[bin], rows[bin] * cost[channel], size[bin], bin in kept and kept[bin].on_disk)
        for bin, channel in table.items()
    )
    total, held = [0] * table.channels, [0] * table.channels
    for bin, channel in table.items():
        total[channel] += rows[bin]
        held[channel] += size[bin]
    busy = [count * each for count, each in zip(total, cost, strict=True)]
    limit = {one.channel: one.memory_limit for one in report.channels}
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


def _side(report: BatchReport, decision: Decision) -> Side:
    plan = decision.plan if decision.changed else None
    return Side(
        imbalance=report.imbalance,
        busiest_ms=max((one.busy_ms for one in report.channels), default=0.0),
        moves=len(plan.moves) if plan else 0,
        pins=len(plan.pins) if plan else 0,
        moved_bytes=int(plan.cost) if plan else 0,
    )


def summary(steps: list[Step]) -> dict[str, dict[str, float]]:
    """Sums over the run: the busiest channels' time, what was moved, and the mean imbalance."""
    sides = {"recorded": [step.recorded for step in steps], "replayed": [step.replayed for step in steps]}
    return {
        name: {
            "busiest_ms": sum(one.busiest_ms for one in side),
            "mean_imbalance": sum(one.imbalance for one in side) / len(side),
            "moves": sum(one.moves for one in side),
            "pins": sum(one.pins for one in side),
            "moved_bytes": sum(one.moved_bytes for one in side),
        }
        for name, side in sides.items()
    }


def as_json(path: str, policy: str, steps: list[Step]) -> dict[str, Any]:
    """All batches, the sums, and what is measured and what predicted."""
    batches = [asdict(step) for step in steps]
    return {"journal": path, "policy": policy, "about": WORDS, "batches": batches, "summary": summary(steps)}


def as_table(path: str, recorded: str, policy: str, steps: list[Step]) -> Grid:
    """The two runs side by side."""
    grid = Grid(
        title=f"{path}: recorded with {recorded}, replayed with {policy}", title_justify="left", caption=WORDS
    )
    grid.add_column("batch", justify="right")
    grid.add_column("rows", justify="right")
    for side in ("recorded", "replayed"):
        for head in ("busiest/mean", "busiest ms", "moves", "MB"):
            grid.add_column(f"{side}\n{head}", justify="right", no_wrap=True)
    for step in steps:
        cells = [str(step.batch), f"{step.rows:,}"]
        for one in (step.recorded, step.replayed):
            changed = one.moves + one.pins
            cells += [
                f"{one.imbalance:.2f}",
                f"{one.busiest_ms:,.0f}",
                f"{one.moves}" + (f" +{one.pins} pins" if one.pins else "") if changed else "",
                f"{one.moved_bytes / 1e6:,.2f}" if changed else "",
            ]
        grid.add_row(*cells)
    cells = ["all", f"{sum(step.rows for step in steps):,}"]
    for side_sum in summary(steps).values():
        cells += [
            f"{side_sum['mean_imbalance']:.2f}",
            f"{side_sum['busiest_ms']:,.0f}",
            f"{side_sum['moves']:.0f}",
            f"{side_sum['moved_bytes'] / 1e6:,.2f}",
        ]
    grid.add_section()
    grid.add_row(*cells, style="bold")
    return grid
