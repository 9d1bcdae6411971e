"""The skew buffer: how long each channel works in a batch, and how many of its rows may then wait.

A batch lasts as long as its busiest channel. With a buffer, a channel that would hold up the
others stops once it has worked as long as a channel should; it leaves the rest of its rows in
the backlog, and the next batch begins. The backlog counts as work of the next batches, so it
raises the time that channels work in them, and channels with time to spare process it. When the
buffer is full, a channel processes its rows although it is late: the batch takes longer, and
that holds back the source.

Law: the channels together get the room that the buffer has left, so the backlog
never exceeds the buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from headgate.control.view import LoadView
from headgate.flow.backlog import Backlog
from headgate.routing.table import Table


@dataclass(frozen=True)
class WorkBudget:
    """What one channel may do in a batch: work for so long, then leave so many bytes of
    rows in the backlog.
    """

    work_ms: float
    room_bytes: int


def work_budgets(
    view: LoadView, table: Table, backlog: Backlog, buffer: int, *, slack: float = 0.02
) -> list[WorkBudget]:
    """The budget of every channel for the next batch. Before the first report no
    channel may defer rows.

    A channel should work as long as the channel with the median load needs for its new rows, plus
    an even part of the work in the backlog. The median is used because one channel that was slow
    for a moment changes the mean, but not the median. `slack` is a fraction of the time of a batch.
    It keeps small random differences from deferring many rows, and near-empty batches from
    deferring rows that cost no time. Half of the room is divided by how far each channel exceeds
    that time, and the other half evenly.
    """
    if view.reports == 0:
        return [WorkBudget(float("inf"), 0)] * table.channels
    new_ms = list(view.under(table).channel_load)
    row_ms = median(view.measured_cost_ms(channel) for channel in range(table.channels))
    backlog_ms = [0.0] * table.channels
    for bin, rows in backlog.rows.items():
        if bin in table.channel_of:
            backlog_ms[table.channel_of[bin]] += rows * row_ms
    needed = median(new_ms) + sum(backlog_ms) / len(backlog_ms)
    work_ms = needed + slack * max(needed, view.period_ms)
    room = max(0, buffer - sum(backlog.bytes.values()))
    excess = [max(0.0, new + old - work_ms) for new, old in zip(new_ms, backlog_ms, strict=True)]
    total = sum(excess)
    even = 0.5 / len(excess)  # this half goes to all channels: a burst that nobody expected needs room too
    parts = [(over / total / 2 if total > 0 else even) + even for over in excess]
    return [WorkBudget(work_ms, int(room * part)) for part in parts]
