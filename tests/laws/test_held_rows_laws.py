"""Rows that wait at the producer: the answer is that of one channel, in order, and the buffer is never exceeded."""

from collections import defaultdict

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate import agg
from headgate.stage.stage import KeyedStage
from headgate.testing.direct import InProcessDirect
from headgate.testing.watches import ModelledTime

SLOW = {0: 1000.0, 1: 100.0, 2: 100.0}
"""Microseconds that a row takes, by channel."""


class World:
    def __init__(self, **limits) -> None:
        self.engine, self.sink, self.batch = InProcessDirect(watch=ModelledTime(SLOW)), hg.sinks.Memory(), 0
        self.seen: dict[int, list[int]] = defaultdict(list)
        self.stage = KeyedStage(
            self.engine,
            key="k",
            operator=hg.Aggregate(n=agg.count(), first=agg.first("v"), last=agg.last("v")),
            checkpoint=f"{self.engine.folder}/checkpoint",
            sink=self.sink,
            routing=hg.Routing(policy="static", channels=3, bins=12),
            limits=hg.Limits(**limits),
            durable=False,
        )

    def process(self, keys, cuts=()) -> None:
        numbers = range(1000 * self.batch, 1000 * self.batch + len(keys))
        self.engine.chunks = cuts
        rows = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(numbers, pa.int64())})
        self.stage.process(rows, self.batch, None)
        self.batch += 1
        for key, number in zip(keys, numbers, strict=True):
            self.seen[key].append(number)

    @property
    def backlog(self):
        assert self.stage.opened is not None
        assert self.stage.opened.checkpoint.last is not None
        return self.stage.opened.checkpoint.last.backlog

    def check(self) -> None:
        """Once nothing waits, every key has all of its rows, the first and the last as they came."""
        self.stage.drain()
        found = {k: (row["n"], row["first"], row["last"]) for (k,), row in self.sink.latest("k").items()}
        assert found == {k: (len(rows), rows[0], rows[-1]) for k, rows in self.seen.items()}


steps = st.lists(
    st.tuples(
        st.lists(st.integers(0, 30), min_size=1, max_size=80),
        st.lists(st.integers(1, 79), max_size=3),
        st.none() | st.integers(1, 4),
    ),
    min_size=2,
    max_size=10,
)


@given(steps, st.integers(1, 4000))
def test_rows_of_late_channels_wait_within_the_buffer_and_in_order(steps, buffer) -> None:
    world = World(buffer=buffer)
    for keys, cuts, channels in steps:
        if channels is not None:
            world.stage.rescale(channels)
        world.process(keys, cuts)
        assert sum(world.backlog.bytes.values()) <= buffer
    world.check()


@given(steps, st.integers(1, 3000))
def test_rows_of_bins_on_disk_or_on_their_way_wait_at_the_producer(steps, memory) -> None:
    world = World(memory=memory, arrivals=memory, turn_ms=0)
    for keys, cuts, channels in steps:
        if channels is not None:
            world.stage.rescale(channels)
        world.process(keys, cuts)
        assert all("-p" in name for name in world.backlog.files), "no channel has spooled anything"
    world.check()


def test_a_late_channel_gets_fewer_rows_and_spools_none() -> None:
    world = World(buffer="1MB")
    keys = [*range(60)] * 2
    world.process(keys)
    assert len(world.backlog) == 0, "nobody knows yet that a channel is late"
    world.process(keys, cuts=(40, 80))
    held = world.backlog
    assert held.files, "now it is known"
    assert all("-p" in name for name in held.files), "and the producer has the rows"
    assert world.stage.opened is not None
    table = world.stage.opened.loop.table
    assert {table.channel_of[b] for b in held.rows} == {0}
    slow = world.engine.answers[0]
    assert slow.rows + sum(held.rows.values()) == sum(slow.arrived.values())
    world.process(keys)
    assert not set(held) & set(world.backlog), "a row waits for one batch"
    world.check()
