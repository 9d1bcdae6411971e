"""The skew buffer: how long each channel works in a batch, and how many of its rows may then wait.

A batch lasts as long as its busiest channel. With a buffer, a channel that would hold up the
others stops once it has worked as long as a channel should; it leaves the rest of its rows in
the backlog, and the next batch begins. The backlog counts as work of the next batches, so it
raises the time that channels work in them, and channels with time to spare process it. When the
buffer is full, a channel processes its rows although it is late: the batch takes longer, and
that holds back the source.

Where map tasks read the rows, those that a channel is expected to be late with stay at the producer
(`held_back`, `streams.held_rows`); the channel's own clock decides about all others. That is Flux's
transient-skew buffer in its place, before the exchange (section 4): its room is shared by all
channels, and it is keyed by bin.

Law: the channels together get the room that the buffer has left, so the backlog
never exceeds the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from headgate.control.view import LoadView
from headgate.flow.backlog import Backlog
from headgate.ids import Bin
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
    backlog_ms = _backlog_ms(view, table, backlog)
    needed = median(new_ms) + sum(backlog_ms) / len(backlog_ms)
    work_ms = needed + slack * max(needed, view.period_ms)
    room = max(0, buffer - sum(backlog.bytes.values()))
    excess = [max(0.0, new + old - work_ms) for new, old in zip(new_ms, backlog_ms, strict=True)]
    total = sum(excess)
    even = 0.5 / len(excess)  # this half goes to all channels: a burst that nobody expected needs room too
    parts = [(over / total / 2 if total > 0 else even) + even for over in excess]
    return [WorkBudget(work_ms, int(room * part)) for part in parts]


def held_back(
    view: LoadView, table: Table, backlog: Backlog, budgets: Sequence[WorkBudget]
) -> frozenset[Bin]:
    """The bins whose rows producers do not send in the next batch, because their channel will be late (FLUX-7).

    A channel is expected to be late if its new rows and its backlog take longer than its budget. Of its
    bins those are held that fit into the excess, the largest first. A bin with rows that wait already is
    not among them, so that no row waits for more than one batch. Pieces of split keys are left out.
    """
    if view.reports == 0:
        return frozenset()
    loads, waiting = view.under(table).bin_loads(table), _backlog_ms(view, table, backlog)
    pieces = {pin.bin for pins in table.splits.values() for pin in pins}
    held: set[Bin] = set()
    for channel, budget in enumerate(budgets):
        if budget.room_bytes <= 0 or budget.work_ms <= 0:
            continue
        mine = table.bins_of(channel)
        excess = sum(loads[bin] for bin in mine) + waiting[channel] - budget.work_ms
        for bin in sorted(mine, key=lambda bin: (-loads[bin], bin)):
            if 0 < loads[bin] <= excess and bin not in pieces and not backlog.rows.get(bin):
                held.add(bin)
                excess -= loads[bin]
    return frozenset(held)


def _backlog_ms(view: LoadView, table: Table, backlog: Backlog) -> list[float]:
    """The time that the waiting rows of each channel take, at the median cost of a row."""
    row_ms = median(view.measured_cost_ms(channel) for channel in range(table.channels))
    times = [0.0] * table.channels
    for bin, rows in backlog.rows.items():
        if bin in table.channel_of:
            times[table.channel_of[bin]] += rows * row_ms
    return times
