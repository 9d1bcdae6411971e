"""State moves in the background, and changes nothing: whatever is read ahead, late, in part or not at all, the answer is
that of one channel, and the batch of the move finds what was read.
"""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate import agg
from headgate.errors import CorruptState
from headgate.policies import Guard
from headgate.stage.stage import KeyedStage
from headgate.storage.bin_cache import BinCache
from headgate.testing import InProcess
from headgate.testing.watches import ModelledTime

BRIEF = 1.0
"""Microseconds that a row takes: so few that even little state takes many batches to read."""
FATES = ["read", "cut short", "in use", "raises", "dies"]


class Flaky(InProcess):
    """Reads ahead as it is told: a table that is in use is skipped, a read may raise, or its task may die in the middle."""

    def __init__(self, fates) -> None:
        super().__init__(watch=ModelledTime(BRIEF))
        self.fates = iter(fates)

    def cache(self, task, channel):
        cache = super().cache(task, channel)

        def warm(b, expected, stored, late):
            fate = next(self.fates, "read")
            if fate == "raises":
                raise CorruptState("damaged")
            if fate == "dies":
                cache.open(b, expected, stored)
                cache.release()
            if fate in ("read", "cut short"):
                return BinCache.warm(cache, b, expected, stored, lambda: fate == "cut short" or late())
            return False

        cache.warm = warm  # type: ignore[method-assign]
        return cache


class World:
    def __init__(self, engine, operator=None, **options) -> None:
        self.engine, self.sink, self.batch = engine, hg.sinks.Memory(), 0
        self.options = {
            "key": "k",
            "operator": operator or hg.Aggregate(n=agg.count(), total=agg.sum("v")),
            "routing": hg.Routing(policy="static", channels=2, bins=8, guard=Guard(notice_batches=3)),
            **options,
        }
        self.restart()

    def restart(self) -> None:
        where = f"{self.engine.folder}/checkpoint"
        self.stage = KeyedStage(
            self.engine, checkpoint=where, sink=self.sink, durable=False, **self.options
        )  # fmt: skip

    def process(self, keys) -> None:
        rows = pa.table(
            {"k": pa.array(keys, pa.int64()), "v": pa.array([self.batch] * len(keys), pa.int64())}
        )
        self.stage.process(rows, self.batch, None)
        self.batch += 1


keys = st.lists(st.integers(0, 20), min_size=1, max_size=12)
steps = st.lists(
    st.tuples(keys, st.sampled_from(["", "", "", "restart", "forget"]), st.none() | st.integers(1, 4)),
    min_size=3,
    max_size=14,
)


@given(steps, st.lists(st.sampled_from(FATES), max_size=30), st.none() | st.integers(1, 4000))
def test_whatever_is_read_ahead_the_answer_is_that_of_one_channel(steps, fates, memory) -> None:
    world = World(Flaky(fates), limits=hg.Limits(memory=memory))
    counts, totals = Counter[int](), Counter[int]()
    for number, (batch, happens, channels) in enumerate(steps):
        if happens == "restart":
            world.restart()
        elif happens == "forget":
            world.engine.lose_memory()
        if channels is not None:
            world.stage.rescale(channels)
        world.process(batch)
        counts.update(batch)
        totals.update(dict.fromkeys(batch, 0) | {k: number * batch.count(k) for k in batch})
    world.stage.drain()
    latest = {key: (row["n"], row["total"]) for (key,), row in world.sink.latest("k").items()}
    assert latest == {k: (counts[k], totals[k]) for k in counts}


def moved(world):
    """Process batches until a rescale has taken effect; the journal's entries."""
    for _ in range(3):
        world.process(range(40))
    world.stage.rescale(3)
    for _ in range(8):
        world.process(range(40))
    return world.stage.journal()


def test_the_batch_of_the_move_finds_what_was_read_ahead() -> None:
    entries = moved(World(InProcess(watch=ModelledTime(BRIEF))))
    (change,) = [entry.decision for entry in entries if entry.decision.changed]
    assert change.notice == 3
    by_batch = {entry.report.batch: entry.report for entry in entries}
    ahead = [sum(c.ahead_bins for c in by_batch[change.batch + 1 + i].channels) for i in range(4)]
    assert ahead[0] > 0
    assert ahead[1:] == [0, 0, 0], "later only what was added is read"
    assert {len(by_batch[change.batch + i].channels) for i in range(4)} == {2}
    after = by_batch[change.table.from_batch].channels
    assert len(after) == 3
    assert sum(c.rebuilt_bins for c in after) == 0


def test_without_notice_the_batch_of_the_move_reads() -> None:
    at_once = hg.Routing(policy="static", channels=2, bins=8, guard=Guard(notice_batches=0))
    entries = moved(World(InProcess(watch=ModelledTime(BRIEF)), routing=at_once))
    (change,) = [entry.decision for entry in entries if entry.decision.changed]
    assert change.notice == 0
    by_batch = {entry.report.batch: entry.report for entry in entries}
    assert sum(c.rebuilt_bins for c in by_batch[change.batch + 1].channels) > 0


def test_on_one_executor_a_move_costs_nothing_and_needs_no_notice() -> None:
    entries = moved(World(InProcess(executors=1, watch=ModelledTime(BRIEF))))
    (change,) = [entry.decision for entry in entries if entry.decision.changed]
    assert change.notice == 0
    assert sum(c.rebuilt_bins for entry in entries for c in entry.report.channels) == 0


def test_a_channel_reads_no_more_ahead_than_its_memory_has_room_for() -> None:
    world = World(InProcess(watch=ModelledTime(BRIEF)), limits=hg.Limits(memory=1))
    entries = moved(world)
    assert sum(c.ahead_bins for entry in entries for c in entry.report.channels) == 0
