"""A stage without Spark: redelivery, waves, the end of the input, build sides, policies, all on real files."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate import agg
from headgate.control import LoadView, Move, Pin, Plan
from headgate.errors import BatchOrder, CheckpointMismatch, ConfigError
from headgate.routing.table import Table
from headgate.stage.stage import KeyedStage
from headgate.state.keys import KeySpec
from headgate.testing import InProcess
from headgate.testing.engine import key_hashes

STEPS = ["prepare", "compute", "decide", "commit", "journal", "retire", "publish"]


def rows_of(*keys: Any) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(range(len(keys)), pa.int64())})


class Killed(Exception):
    """A driver that stops at a step."""


class World:
    """A checkpoint, an engine, and as many drivers as a test wants."""

    def __init__(self, **options: Any) -> None:
        self.engine, self.sink, self.options = InProcess(), hg.sinks.Memory(), options
        self.stage = self.driver()

    def driver(self, **options: Any) -> KeyedStage[pa.Table]:
        settings = {
            "key": "k",
            "operator": hg.Aggregate(n=agg.count()),
            "checkpoint": f"{self.engine.folder}/checkpoint",
            "sink": self.sink,
            "routing": hg.Routing(policy="static", channels=2, bins=8),
            "durable": False,
            **self.options,
            **options,
        }
        return KeyedStage(self.engine, **settings)

    def counts(self) -> dict[int, int]:
        return {key: row["n"] for (key,), row in self.sink.latest("k").items()}


def test_the_steps_come_in_their_order() -> None:
    world = World()
    seen: list[str] = []
    world.stage.on_step = seen.append
    world.stage.process(rows_of(1, 2), 0, None)
    world.stage.process(rows_of(1), 1, None)
    assert seen == ["open", *STEPS, *STEPS]


@pytest.mark.parametrize("step", ["open", *STEPS])
@pytest.mark.parametrize("batch", [0, 1])
def test_a_driver_that_dies_at_any_step_loses_and_repeats_nothing(step: str, batch: int) -> None:
    world, expected = World(), Counter[int]()
    data = [(1, 2, 1), (2, 3), (1, 1, 4)]
    for number, keys in enumerate(data):
        if number == batch:

            def die(name: str) -> None:
                if name == step:
                    raise Killed

            doomed = world.driver()
            doomed.on_step = die
            with pytest.raises(Killed):
                doomed.process(rows_of(*keys), number, None)
            world.stage = world.driver()
            world.engine.lose_memory()
        world.stage.process(rows_of(*keys), number, None)
        world.stage.process(rows_of(*keys), number, None)  # delivered twice
        expected.update(keys)
        assert world.counts() == expected


def test_a_batch_that_comes_again_with_other_rows_is_refused() -> None:
    world = World()
    world.stage.process(rows_of(1, 2), 0, None)
    with pytest.raises(BatchOrder, match="again with 3 rows, but 2 were committed"):
        world.stage.process(rows_of(1, 2, 3), 0, None)
    with pytest.raises(BatchOrder, match="committed only up to batch 0"):
        world.stage.process(rows_of(1), 2, None)
    with pytest.raises(CheckpointMismatch, match="no streaming query"):
        world.stage.process(rows_of(1), 1, "another query")


def test_waves_are_committed_one_by_one_and_go_on_after_a_crash() -> None:
    step = lambda table: pa.concat_tables([table, table])  # noqa: E731
    gate = hg.Gate(in_flight=2, batch=3)
    world = World(expansion=hg.Expansion(step=step, gate=gate))

    def die(name: str) -> None:
        if name == "commit" and world.stage.opened and world.stage.opened.checkpoint.last.batch == 1:  # type: ignore[union-attr]
            raise Killed

    world.stage.on_step = die
    with pytest.raises(Killed):
        world.stage.process(rows_of(1, 1, 2, 2, 3, 3, 4), 0, None)
    world.stage = world.driver()
    world.stage.process(rows_of(1, 1, 2, 2, 3, 3, 4), 0, None)
    assert world.counts() == {1: 4, 2: 4, 3: 4, 4: 2}
    last = world.stage.opened.checkpoint.last  # type: ignore[union-attr]
    assert last is not None
    assert (last.batch, last.delivery.number, last.delivery.rest) == (2, 0, ())
    assert world.stage.store.names("waves") == []


def test_a_batch_without_rows_behind_a_gate_is_committed() -> None:
    world = World(expansion=hg.Expansion(gate=hg.Gate(in_flight=1, batch=3)))
    world.stage.process(rows_of(), 0, None)
    world.stage.process(rows_of(5), 1, None)
    assert world.counts() == {5: 1}


def test_what_waits_is_processed_when_the_input_ends() -> None:
    world = World(limits=hg.Limits(memory=1, turn_ms=1e9))
    for number in range(3):
        world.stage.process(rows_of(*range(40)), number, None)
    assert sum(world.stage.opened.checkpoint.last.backlog.rows.values()) > 0  # type: ignore[union-attr]
    world.stage.drain()
    assert world.counts() == dict.fromkeys(range(40), 3)
    world.stage.finish()
    with pytest.raises(BatchOrder, match="said to be complete"):
        world.stage.process(rows_of(1), 3, None)


@pytest.mark.parametrize("refreshed", range(6))
def test_rows_that_wait_for_a_join_meet_the_pins_and_the_refresh_of_their_batch(refreshed: int) -> None:
    """Build rows come in the batch in which pins change, while stream rows wait: each still finds its own."""
    build = pa.table({"k": pa.array(range(12), pa.int64()), "name": [f"old {k}" for k in range(12)]})
    world = World(
        operator=hg.HashJoin(build=build),
        limits=hg.Limits(memory=1, turn_ms=1e9),
        routing=hg.Routing(
            policy=_Pins(), channels=2, bins=4, guard=hg.policies.Guard(min_gain=0, cool_down_batches=0)
        ),
    )
    expected = Counter[tuple[int, int]]()
    for number in range(8):
        keys = [*range(12)] * 2
        world.stage.process(rows_of(*keys), number, None)
        expected.update((k, v) for v, k in enumerate(keys))
        if number == refreshed:
            world.stage.refresh(pa.table({"k": pa.array([0, 1], pa.int64()), "name": ["new 0", "new 1"]}))
    world.stage.drain()
    out = world.sink.table().to_pylist()
    assert Counter((row["k"], row["v"]) for row in out) == expected
    assert {row["name"] for row in out if row["k"] == 7} == {"old 7"}
    assert {row["name"] for row in out if row["k"] == 0} <= {"old 0", "new 0"}


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("append", {"old", "new"}), ("replace", {"new"}), ("delete", set())],
)
def test_a_build_side_is_refreshed(mode: str, wanted: set[str]) -> None:
    build = pa.table({"k": pa.array([1, 2, None], pa.int64()), "name": ["old", "two", "nobody"]})
    world = World(operator=hg.HashJoin(build=build))
    world.stage.process(rows_of(1, 2, 3), 0, None)
    rows = pa.table({"k": pa.array([1], pa.int64()), "name": ["new"]})
    world.stage.refresh(rows.select(["k"]) if mode == "delete" else rows, mode)
    world.stage.process(rows_of(1, 2), 1, None)
    names = {(row["k"], row["name"]) for row in world.sink.batches[1].to_pylist()}
    assert names == {(2, "two"), *((1, name) for name in wanted)}
    assert world.stage.store.names("refresh") == []


def test_a_stage_without_a_build_side_has_none_to_refresh() -> None:
    with pytest.raises(ConfigError, match="no build side to refresh"):
        World().stage.refresh(rows_of(1))


def test_a_policy_may_be_assigned_while_it_runs() -> None:
    world = World()
    world.stage.process(rows_of(1, 2), 0, None)
    world.stage.policy = "rebuild"
    world.stage.process(rows_of(1, 2), 1, None)
    assert world.stage.policy.name == "rebuild"
    assert world.counts() == {1: 2, 2: 2}
    with pytest.raises(ConfigError, match="unknown policy"):
        world.stage.policy = "none"


def test_a_policy_that_is_assigned_while_a_batch_decides_waits_for_the_next() -> None:
    world = World()
    world.stage.process(rows_of(1, 2), 0, None)
    loop = world.stage.opened.loop  # type: ignore[union-attr]

    def assign(step: str) -> None:
        if step == "compute":
            world.stage.policy = "rebuild"
            assert world.stage.opened is not None
            assert world.stage.opened.loop is loop, "the batch decides with the loop that it began with"

    world.stage.on_step = assign
    world.stage.process(rows_of(1, 2), 1, None)
    world.stage.on_step = lambda step: None
    world.stage.process(rows_of(1, 2), 2, None)
    assert world.stage.opened is not None
    assert world.stage.opened.loop.policy.name == "rebuild"


def test_bins_with_rows_that_wait_and_windows_that_are_due_come_in() -> None:
    """Both reasons at once put a bin that had just moved into two queues, where it slept for ever."""

    def at(*times):
        return pa.table(
            {"k": pa.array(range(len(times)), pa.int64()), "t": pa.array(times, pa.timestamp("us"))}
        )

    operator = hg.Windows(hg.tumbling("10 us"), on="t", delay="1 us", n=agg.count())
    world = World(
        operator=operator,
        limits=hg.Limits(memory=150, turn_ms=0),
        routing=hg.Routing(policy="static", channels=1, bins=4),
    )
    for number in range(6):
        world.stage.process(at(*[20 * number + k % 7 for k in range(24)]), number, None)
        if number == 2:
            world.stage.rescale(4)
    world.stage.finish()
    assert sum(row["n"] for row in world.sink.table().to_pylist()) == 6 * 24


def test_the_journal_prints_as_a_table() -> None:
    world = World()
    assert str(world.stage.journal()) == "no batch has been processed yet"
    world.stage.process(rows_of(1, 2), 0, None)
    journal = world.driver().journal()
    assert len(journal) == 1
    assert "busiest/mean" in str(journal)
    assert "<table>" in journal._repr_html_()
    assert journal[0].report.rows == 2


class _Pins(hg.policies.Policy):
    """Pins two keys for two batches of every four."""

    @property
    def name(self) -> str:
        return "pins"

    def propose(self, view: LoadView, table: Table) -> Plan | None:
        old = tuple(pin.bin for pin in table.pins)
        keys = key_hashes(rows_of(0, 7), KeySpec(("k",), (pa.int64(),))).tolist()
        first = max(table.bins) + 1
        if bool(old) == (view.reports % 4 in (1, 2)):
            return None
        new = () if old else tuple(Pin(key, first + at, "hot") for at, key in enumerate(keys))
        moves = tuple(Move(pin.bin, table.channel_of[table.home_bin(pin.hash)], 1) for pin in new)
        moves = tuple(move for move in moves if move.source != move.target)
        return Plan(
            policy=self.name,
            from_version=table.version,
            unpins=old,
            pins=new,
            moves=moves,
            gain=1.0,
            reason="in turn",
        )


def test_a_hook_that_fails_is_called_again_and_stops_the_query() -> None:
    told: list[int] = []

    def hook(one: hg.Completed) -> None:
        told.append(one.source_batch)
        if len(told) == 1:
            raise OSError("not now")

    world = World(on_complete=hook)
    with pytest.raises(
        hg.errors.SinkFailed, match="on_complete raised OSError for batch 0 of the source: not now"
    ):
        world.stage.process(rows_of(1), 0, None)
    world.stage = world.driver()
    world.stage.process(rows_of(1), 0, None)
    world.stage.process(rows_of(2), 1, None)
    assert told == [0, 0, 1]
    assert world.counts() == {1: 1, 2: 1}
    with pytest.raises(ConfigError, match="must be a function"):
        world.driver(on_complete=3)
