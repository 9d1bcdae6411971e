"""The transient-skew buffer: who may let rows wait, for how long a batch, and how much.

A batch lasts as long as its busiest channel. With a buffer, a channel whose rows would hold up the others leaves the rest of
them in the backlog once it has worked as long as a channel should, and the next batch begins. What waits is counted in
the time that channels need, so a backlog raises what a channel should work, and is worked off by channels that have time.
When the buffer is full its rows are processed after all: the batch takes as long as it takes, and that holds the source back.

Law: the room given to all channels together is what the buffer has left, so it is never passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from headgate.control.view import LoadView
from headgate.flow.backlog import Backlog
from headgate.routing.table import Table


@dataclass(frozen=True)
class Share:
    """What one channel may do in a batch: work so long, then let so many bytes of rows wait."""

    work_ms: float
    room_bytes: int


def shares(
    view: LoadView, table: Table, backlog: Backlog, buffer: int, *, slack: float = 0.02
) -> list[Share]:
    """Each channel's share of the next batch; without any report yet, nobody lets rows wait.

    A channel should work as long as the channel with the median load has new work, and in addition for its part of what waits. The
    median is used since a channel that was slow for a moment changes the mean of all channels, but not their median. `slack`, a part
    of the time that a batch takes, keeps chance from deferring many rows, and keeps near-empty batches from deferring rows that cost
    no time. Room is divided by how much more than that each channel has to do, and evenly where no channel has more to do.
    """
    if view.reports == 0:
        return [Share(float("inf"), 0)] * table.channels
    due = list(view.under(table).channel_load)
    row_ms = median(view.measured_cost_ms(channel) for channel in range(table.channels))
    waiting = [0.0] * table.channels
    for bin, rows in backlog.rows.items():
        if bin in table.channel_of:
            waiting[table.channel_of[bin]] += rows * row_ms
    needed = median(due) + sum(waiting) / len(waiting)
    work_ms = needed + slack * max(needed, view.period_ms)
    room = max(0, buffer - sum(backlog.bytes.values()))
    excess = [max(0.0, new + old - work_ms) for new, old in zip(due, waiting, strict=True)]
    total = sum(excess)
    # half by need and half to all: a burst that is not foreseen needs room too
    parts = [(one / total / 2 if total > 0 else 0.5 / len(due)) + 0.5 / len(due) for one in excess]
    return [Share(work_ms, int(room * part)) for part in parts]
