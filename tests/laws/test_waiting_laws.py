"""Law 14: nothing waits for ever, whatever else arrives, however short batches are and however late channels.

- A row whose bin is awake (its state in memory, and not on its way) waits for one batch at most, and not even that if it is among the
  first of its channel's rows.
- A bin on disk comes in within `TURN` batches for itself and for each bin that is before it; all of its rows are then processed.
- A bin on its way arrives within a batch for itself and for each bin that is before it.
- With deadlines, the bin that was passed over most often is served in every `PERIOD` batches.
- A channel that gets nothing new has nothing left after as many batches as bins wait for it.

What is driven here is the stage's own flow control and admission, with the tasks' answers made up: state is a number of bytes,
time is what the example says, and a row is the number of the batch in which it came.
"""

import json
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.control import LoadView, fold
from headgate.flow.backlog import Backlog, BacklogEntry
from headgate.flow.rotation import TURN
from headgate.flow.slack import PERIOD, Deadlines
from headgate.operators.admission import Admission
from headgate.operators.event_time import Clock
from headgate.routing.table import Table
from headgate.stage.answer import Answer, TouchedBin
from headgate.stage.flow_control import FlowControl
from headgate.stage.outcome import backlog_after, batch_report, flow_after
from headgate.stage.settings import Limits
from headgate.storage.manifest import Delivery, Manifest
from headgate.storage.state_index import StateIndex

BINS = 6
SLICE = 8
"""Rows between two looks at the clock."""


class Loop:
    """A stage without its operator."""

    def __init__(self, sizes, *, by_bin=None, **settings) -> None:
        self.control = FlowControl(Limits(**settings))
        self.control.deadlines = Deadlines(by_bin or {})  # a hash below the number of bins is in that bin
        self.sizes = dict(enumerate(sizes))
        self.view, self.number = LoadView(), 0
        self.last: Manifest | None = None
        self.files: dict[BacklogEntry, pa.RecordBatch] = {}
        self.waited: list[tuple[int, int]] = []
        """(bin, batches) of every row processed."""

    def batch(self, table, rows, *, wall_ms=100.0, late=True):
        """Process a batch of `rows` by bin; `late` is what a channel finds whenever it looks at the clock."""
        flow = self.control.prepare(table, self.view, self.last)
        answers = [self._channel(c, table, flow, rows, late) for c in range(table.channels)]
        backlog = backlog_after(flow.backlog, {}, answers, self.number)
        state = StateIndex(sizes=self.sizes, keys=dict.fromkeys(self.sizes, 1))
        report = batch_report(self.number, table, answers, state, flow, backlog, wall_ms)
        self.view = fold(self.view, report, table)
        last = Manifest(
            batch=self.number,
            run="r",
            channels=table.channels,
            delivery=Delivery(number=self.number),
            state=state,
            backlog=backlog,
            flow=flow_after(flow, answers, wall_ms),
            table=table,
        )
        self.last = Manifest.from_json(json.loads(json.dumps(last.to_json())))
        self.number += 1
        return flow

    def _channel(self, channel, table, flow, rows, late):
        mine = set(table.bins_of(channel))
        asleep = flow.asleep & mine
        done = dict.fromkeys(sorted(mine), 0)

        def process(some, bins) -> None:
            for came, b in zip(some["came"].to_pylist(), bins.tolist(), strict=True):
                done[b] += 1
                self.waited.append((b, self.number - came))

        taken = flow.backlog.of(mine - asleep)
        for _, entries in groupby(taken, key=lambda one: one.file):
            for one in entries:
                process(self.files[one], np.full(one.rows, one.bin, np.int32))
        room = flow.shares[channel].room_bytes
        admission = Admission(process, asleep=asleep, late=lambda: late, room=room, deadlines=flow.deadlines)
        arrived = {b: count for b, count in rows.items() if b in mine and count}
        bins = np.repeat(np.fromiter(arrived, np.int32), list(arrived.values()))
        for at in range(0, len(bins), SLICE):
            some = bins[at : at + SLICE]
            admission.add(
                pa.RecordBatch.from_pydict({"came": np.full(len(some), self.number, np.int64)}), some
            )
        waiting = []
        for b, parts in admission.left().items():
            whole = pa.concat_batches(parts)
            entry = BacklogEntry(f"{self.number}-{channel}", b, whole.num_rows, whole.nbytes, self.number)
            waiting.append(entry)
            self.files[waiting[-1]] = whole
        count = sum(done.values())
        return Answer(
            channel=channel,
            executor="here",
            came=len(bins),
            rows=count,
            out_rows=count,
            busy_ms=float(count),
            idle_ms=0.0,
            read_ms=0.0,
            rebuilt_bins=0,
            arrived=arrived,
            touched=tuple(TouchedBin(b, rows, self.sizes[b], 1, 0) for b, rows in done.items()),
            taken=Backlog(taken),
            waiting=Backlog(tuple(waiting)),
        )

    @property
    def waiting(self):
        """(bin, batches so far) of every row that waits."""
        return [
            (one.bin, self.number - came)
            for one in (self.last.backlog if self.last else ())
            for came in self.files[one]["came"].to_pylist()
        ]

    def longest(self, bins=range(BINS)):
        return max((batches for b, batches in (*self.waited, *self.waiting) if b in bins), default=0)


def table_of(assignment, version=0, channels=2):
    return Table(
        version=version, from_batch=0, channels=channels, hash_bins=BINS, assignment=tuple(assignment)
    )


EVEN = table_of([0, 0, 0, 1, 1, 1])
sizes = st.lists(st.integers(1, 30), min_size=BINS, max_size=BINS)
rows = st.dictionaries(st.integers(0, BINS - 1), st.integers(0, 12), max_size=BINS)
walls = st.sampled_from([0.01, 1.0, 100.0, 5000.0])
settings = st.fixed_dictionaries(
    {},
    optional={
        "memory": st.integers(1, 60),
        "turn_ms": st.sampled_from([0.0, 50.0, 1000.0, 1e9]),
        "buffer": st.integers(1, 2000),
        "arrivals": st.integers(1, 60),
    },
)
batches = st.tuples(rows, walls, st.booleans())
assignments = st.lists(st.integers(0, 1), min_size=BINS, max_size=BINS)
LONG = 30


def memory_changes(loop, change) -> None:
    """Grant or reclaim, where that is possible."""
    if loop.control.memory is not None and change:
        amount = abs(change)
        if change > 0 or min(loop.control.limit(channel) for channel in (0, 1)) > amount:
            loop.control.change(amount, [0, 1], sign=1 if change > 0 else -1)


# A lone key on disk beside near-empty batches, memory and buffer: its rows once waited for ever.
@example([10] * BINS, {"memory": 10, "buffer": 1000, "turn_ms": 1e9}, [({3: 1}, 0.01, True)], [0])
# Empty batches: a channel that is given no time is late before it begins.
@example([10] * BINS, {"buffer": 1000}, [({}, 100.0, True)], [0])
# Small bins that fit in beside the one that is out longest went out again for it, unseen.
@example(
    [30, 10, 10] * 2, {"memory": 40, "turn_ms": 0.0}, [(dict.fromkeys(range(BINS), 1), 100.0, True)], [0]
)
@given(
    sizes,
    settings,
    st.lists(batches, min_size=1, max_size=5),
    st.lists(st.integers(-20, 20), min_size=1, max_size=3),
)
def test_under_one_table_a_row_waits_for_the_turns_of_the_bins_of_its_channel_and_no_longer(
    sizes, settings, cycle, changes
) -> None:
    loop = Loop(sizes, **settings)
    loop.batch(EVEN, {})
    loop.batch(EVEN, dict.fromkeys(range(BINS), 9))
    for at in range(LONG):
        came, wall, late = cycle[at % len(cycle)]
        memory_changes(loop, changes[at % len(changes)])
        loop.batch(EVEN, came, wall_ms=wall, late=late)
    on_channel = BINS // 2
    bound = 1 + TURN * on_channel if "memory" in settings else 1
    assert loop.longest() <= bound


# A cold bin is on its way while hotter ones come in every batch.
@example(
    [10] * BINS,
    {"arrivals": 1},
    [(dict.fromkeys(range(1, BINS), 9), 100.0, True)],
    [[0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]],
)
# All bins come to another channel in every batch, and there is memory for one.
@example(
    [10] * BINS,
    {"memory": 10, "turn_ms": 1e9},
    [(dict.fromkeys(range(BINS), 1), 100.0, True)],
    [[1] * BINS, [0] * BINS],
)
@given(
    sizes, settings, st.lists(batches, min_size=1, max_size=5), st.lists(assignments, min_size=1, max_size=4)
)
def test_moves_hold_up_no_row_for_ever(sizes, settings, cycle, tables) -> None:
    loop = Loop(sizes, **settings)
    loop.batch(table_of(tables[-1]), dict.fromkeys(range(1, BINS), 9))
    for at in range(3 * LONG):
        came, wall, late = cycle[at % len(cycle)]
        came = {**came, 0: came.get(0, 0) + 1} if at == 0 else came
        loop.batch(table_of(tables[at % len(tables)], at + 1), came, wall_ms=wall, late=late)
    assert loop.longest() <= 1 + BINS + ((TURN + 1) * BINS if "memory" in settings else 0)


@given(
    sizes, settings, st.lists(batches, min_size=1, max_size=5), st.lists(assignments, min_size=1, max_size=20)
)
def test_a_channel_that_gets_nothing_new_does_all_that_waits(sizes, settings, cycle, tables) -> None:
    loop = Loop(sizes, **settings)
    for at, assignment in enumerate(tables):
        came, wall, late = cycle[at % len(cycle)]
        loop.batch(table_of(assignment, at), came, wall_ms=wall, late=late)
    loop.batch(table_of(tables[-1], len(tables)), {}, wall_ms=0.01)  # after this one it is known to be idle
    for _ in range(BINS):
        waiting = {b for b, _ in loop.waiting}
        loop.batch(table_of(tables[-1], len(tables)), {}, wall_ms=0.01)
        left = {b for b, _ in loop.waiting}
        assert left < waiting or not waiting
    assert not loop.waiting


@given(sizes, st.integers(1, 2000), rows, st.booleans())
def test_a_near_empty_batch_is_done_at_once(sizes, buffer, came, late) -> None:
    loop = Loop(sizes, buffer=buffer)
    for _ in range(4):
        loop.batch(EVEN, dict.fromkeys(came, 1), late=late)
        assert not loop.waiting


def test_a_bin_on_disk_comes_in_for_work_that_is_due() -> None:
    loop = Loop([10] * BINS, memory=10, turn_ms=0.0)
    for _ in range(3):
        flow = loop.batch(EVEN, {})
    away = sorted(flow.on_disk)[0]
    now = Clock((0,), watermark=100)
    assert loop.last is not None
    seen = replace(loop.last, state=replace(loop.last.state, due={away: 90}), clock=now)
    assert away not in loop.control.prepare(EVEN, loop.view, seen).on_disk
    later = replace(loop.last, state=replace(loop.last.state, due={away: 101}), clock=now)
    assert away in loop.control.prepare(EVEN, loop.view, later).on_disk


deadlines = st.dictionaries(st.integers(0, BINS - 1), st.sampled_from([0.0, 1.0, 100.0, 1e6]), min_size=1)


# Rows of urgent bins in every batch, and memory for one of them.
@example(
    [10] * BINS,
    {"memory": 10, "turn_ms": 0.0},
    [(dict.fromkeys(range(BINS), 1), 0.01, True)],
    {0: 0.0, 1: 1.0},
    [[0, 0, 0, 1, 1, 1]],
)
@given(
    sizes,
    settings,
    st.lists(batches, min_size=1, max_size=5),
    deadlines,
    st.lists(assignments, min_size=1, max_size=3),
)
def test_deadlines_hold_up_no_row_for_ever(sizes, settings, cycle, deadlines, tables) -> None:
    loop = Loop(sizes, by_bin=deadlines, **settings)
    loop.batch(table_of(tables[-1]), dict.fromkeys(range(1, BINS), 9))
    for at in range(BINS * PERIOD + LONG):
        came, wall, late = cycle[at % len(cycle)]
        came = {**came, 0: came.get(0, 0) + 1} if at == 0 else came
        loop.batch(table_of(tables[at % len(tables)], at + 1), came, wall_ms=wall, late=late)
    assert loop.longest() <= 1 + BINS + (PERIOD * BINS if "memory" in settings else 0)


@given(st.integers(0, BINS - 1), st.sampled_from([1.0, 100.0]), st.integers(1, 9))
def test_an_urgent_bin_waits_for_no_other(urgent, wall, rows) -> None:
    """There is memory for one bin of three on each channel, and rows for all of them in every batch."""
    waits = []
    for by_bin in ({}, {urgent: 0.0}):
        loop = Loop([10] * BINS, memory=10, turn_ms=0.0, by_bin=by_bin)
        for _ in range(LONG):
            loop.batch(EVEN, dict.fromkeys(range(BINS), rows), wall_ms=wall)
        waits.append([batches for b, batches in loop.waited if b == urgent])
    assert np.mean(waits[1]) < np.mean(waits[0])
    assert max(waits[1]) <= 1 + BINS // 2
