"""`on_complete` is called for each batch of the source, in order, as soon as all of its rows are in the published output and
not before, whatever made them wait: gates, memory, buffers. After a crash it may be called again, with the same number.
"""

from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.flow.backlog import Backlog, BacklogEntry
from headgate.stage.completion import completed
from headgate.stage.stage import KeyedStage
from headgate.storage.manifest import Delivery
from headgate.testing import InProcess


class Killed(Exception):
    """A driver that stops at a step."""


class World:
    """A stage whose output shows each row, and what was told of it."""

    def __init__(self, kills=(), **settings: Any) -> None:
        self.engine, self.sink, self.settings = InProcess(), hg.sinks.Memory(), settings
        self.kills, self.steps = kills, 0
        self.told: list[int] = []
        self.came: list[set[int]] = []
        """The rows of each batch of the source."""
        self.stage = self.driver()

    def driver(self) -> KeyedStage[pa.Table]:
        stage: KeyedStage[pa.Table] = KeyedStage(
            self.engine,
            key="k",
            operator=hg.HistoryWindow(1, "mean", of="v"),
            checkpoint=f"{self.engine.folder}/checkpoint",
            sink=self.sink,
            routing=hg.Routing(policy="static", channels=2, bins=8),
            durable=False,
            on_complete=self.complete,
            **self.settings,
        )
        stage.on_step = self.stepped
        return stage

    def out(self) -> set[int]:
        return set(self.sink.table().column("v").to_pylist()) if self.sink.batches else set()

    def complete(self, one: hg.Completed) -> None:
        assert set().union(*self.came[: one.source_batch + 1]) <= self.out()
        if self.told[-1:] != [one.source_batch]:  # it may be told again after a crash
            assert one.source_batch == len(self.told)
            self.told.append(one.source_batch)

    def stepped(self, name: str) -> None:
        self.steps += 1
        if name == "publish":
            last = self.stage.opened.checkpoint.last  # type: ignore[union-attr]
            assert last is not None
            whole = last.delivery.number if last.delivery.rest else last.delivery.number + 1
            rows = self.came[:whole]
            done = next((n for n, batch in enumerate(rows) if not batch <= self.out()), len(rows))
            assert len(self.told) >= done
        if self.steps in self.kills:
            raise Killed

    def feed(self, batches) -> None:
        numbers = iter(range(10**6))
        for number, keys in enumerate(batches):
            values = [next(numbers) for _ in keys]
            self.came.append(set(values))
            rows = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64())})
            self.survived(lambda rows=rows, number=number: self.stage.process(rows, number, None))
        self.survived(lambda: self.stage.drain())
        assert self.told == list(range(len(self.came)))

    def survived(self, work) -> None:
        while True:
            try:
                return work()
            except Killed:
                self.stage = self.driver()


waits = st.fixed_dictionaries(
    {},
    optional={
        "limits": st.sampled_from(
            [hg.Limits(memory=1, turn_ms=1e9), hg.Limits(memory=300), hg.Limits(buffer=200), hg.Limits()]
        ),
        "expansion": st.builds(
            lambda n, size: hg.Expansion(gate=hg.Gate(in_flight=n, batch=size)),
            st.integers(1, 2),
            st.integers(1, 6),
        ),
    },
)
batches = st.lists(st.lists(st.integers(0, 20), max_size=12), min_size=1, max_size=5)


@settings(max_examples=50)
@given(waits, batches, st.sets(st.integers(1, 50), max_size=3))
@example({"limits": hg.Limits(memory=1, turn_ms=1e9)}, [list(range(20))] * 4, set())
@example({"expansion": hg.Expansion(gate=hg.Gate(batch=2))}, [[1, 2, 3], [], [4]], {7, 9, 14})
def test_a_batch_is_complete_when_its_last_row_is_out_and_not_before(waits, data, kills) -> None:
    World(kills, **waits).feed(data)


def test_a_batch_that_waits_holds_up_those_after_it_and_waves_are_one_batch() -> None:
    waiting = Backlog((BacklogEntry("f", 0, 1, 8, batch=4),))
    assert completed(None, Delivery(number=0), 3, Backlog()) == ((0,), ())
    assert completed(None, Delivery(number=0), 4, waiting) == ((), ((0, 4),))
    assert completed(None, Delivery(number=0), 5, waiting) == ((), ((0, 5),))
    assert completed(None, Delivery(number=0, extra=True), 5, Backlog()) == ((), ())
    unknown = Backlog((BacklogEntry("f", 0, 1, 8),))
    assert completed(None, Delivery(number=9), 12, unknown) == ((), ((9, 12),))
