"""The loop of a direct stream, without an engine: offsets, sizes, restarts, and what it refuses."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate import agg
from headgate.errors import CheckpointMismatch, ConfigError, SourceFailed
from headgate.operators.aggregate import Aggregate
from headgate.sources.source import Demand, Range, Ranges, Source
from headgate.stage import sinks
from headgate.stage.settings import Routing
from headgate.stage.stage import KeyedStage
from headgate.streams.batch_size import BatchSize
from headgate.streams.drive import Drive
from headgate.streams.planned import Input, InputRange, Planned, split_tasks
from headgate.testing.direct import InProcessDirect


class Numbers(Source):
    """The numbers below `end`, with a key."""

    def __init__(self, end: int, name: str = "numbers") -> None:
        self.end, self.name = end, name

    def schema(self) -> pa.Schema:
        return pa.schema([("k", pa.int64()), ("n", pa.int64())])

    def identity(self) -> dict[str, Any]:
        return {"source": self.name}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        start = offset or 0
        end = min(start + demand.rows, self.end)
        ranges = (Range([start, end], end - start),) if end > start else ()
        return Ranges(ranges, end, more=end < self.end)

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        numbers = list(range(*what))
        yield pa.RecordBatch.from_pydict({"k": [n % 3 for n in numbers], "n": numbers}, schema=self.schema())


def read(planned: Planned) -> pa.Table:
    """Planned rows as the engine in this process takes them."""
    parts = [b for part in planned.ranges for b in planned.inputs[part.input].source.read(part.what)]
    return pa.Table.from_batches(parts, planned.schema)


def drive(engine: InProcessDirect, *sources: Source, sink: Any = None, rows: int = 10) -> Drive[pa.Table]:
    stage = KeyedStage(
        engine,
        key="k",
        operator=Aggregate(n=agg.count(), total=agg.sum("n")),
        checkpoint=f"{engine.folder}/checkpoint",
        sink=sink or sinks.Memory(),
        routing=Routing(policy="static", channels=2, bins=4),
        durable=False,
    )
    inputs = [Input(source) for source in sources]
    return Drive([stage], inputs, read, size=BatchSize(most=rows), tasks=2, now=lambda: 0.0)


def run_all(loop: Drive[pa.Table]) -> list[Any]:
    loop.open()
    out = []
    while (progress := loop.step(0.0)) is not None:
        out.append(progress)
    return out


def test_a_restart_goes_on_after_the_last_commit() -> None:
    engine, sink = InProcessDirect(), sinks.Memory()
    first = run_all(drive(engine, Numbers(25), sink=sink))
    assert [(p.batch, p.rows, p.more) for p in first] == [(0, 10, True), (1, 10, True), (2, 5, False)]
    second = run_all(drive(engine, Numbers(40), sink=sink))
    assert [(p.batch, p.rows) for p in second] == [(3, 10), (4, 5)]
    latest = sink.latest("k")
    assert {k[0]: (r["n"], r["total"]) for k, r in latest.items()} == {
        k: (len(range(k, 40, 3)), sum(range(k, 40, 3))) for k in range(3)
    }


def test_a_batch_that_failed_is_planned_anew() -> None:
    engine, sink = InProcessDirect(), sinks.Memory()
    loop = drive(engine, Numbers(20), sink=sink)
    loop.open()
    loop.step(0.0)

    def die(step: str) -> None:
        if step == "decide":
            raise OSError("the machine is tired")

    loop.first.on_step = die
    with pytest.raises(OSError, match="tired"):
        loop.step(0.0)
    assert [(p.batch, p.rows) for p in run_all(drive(engine, Numbers(20), sink=sink))] == [(1, 10)]
    assert sum(r["n"] for r in sink.latest("k").values()) == 20


def test_two_inputs_have_offsets_of_their_own() -> None:
    engine, sink = InProcessDirect(), sinks.Memory()
    run_all(drive(engine, Numbers(7), Numbers(25, "others"), sink=sink))
    assert sum(r["n"] for r in sink.latest("k").values()) == 32
    again = run_all(drive(engine, Numbers(8), Numbers(25, "others"), sink=sink))
    assert [p.rows for p in again] == [1]


@pytest.mark.parametrize("sources", [[Numbers(30, "renamed")], [Numbers(30), Numbers(30)]])
def test_other_sources_are_refused(sources: list[Source]) -> None:
    engine = InProcessDirect()
    run_all(drive(engine, Numbers(20)))
    with pytest.raises(CheckpointMismatch, match="checkpoint of its own"):
        drive(engine, *sources).open()


def test_an_error_of_a_source_is_named() -> None:
    class Broken(Numbers):
        def plan(self, offset: Any, demand: Demand) -> Ranges:
            raise ConnectionError("nobody answers")

    loop = drive(InProcessDirect(), Broken(5))
    loop.open()
    with pytest.raises(SourceFailed, match="nobody answers"):
        loop.step(0.0)


def test_numbers_of_rows_that_make_no_sense_are_named() -> None:
    class Method(Numbers):
        def rows_read_again(self) -> int:  # type: ignore[override]
            return 5

    with pytest.raises(ConfigError, match=r"rows_read_again=<bound method .*: make it a property"):
        drive(InProcessDirect(), Method(5)).open()

    class Negative(Numbers):
        def plan(self, offset: Any, demand: Demand) -> Ranges:
            planned = super().plan(offset, demand)
            return Ranges(tuple(Range(part.what, -3) for part in planned.ranges), planned.offset)

    loop = drive(InProcessDirect(), Negative(5))
    loop.open()
    with pytest.raises(SourceFailed, match=r"rows=-3.* cannot be below 0"):
        loop.step(0.0)


class Dated(Numbers):
    """Its offset is a pair, and so is a part of its identity."""

    def __init__(self, end: int, offset: Any = (), identity: Any = ("a", 1)) -> None:
        super().__init__(end)
        self.wrong, self.pair = offset, identity

    def identity(self) -> dict[str, Any]:
        return {"source": "dated", "pair": self.pair}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        assert offset is None or isinstance(offset, list), "as it is after a restart"
        planned = super().plan(offset and offset[0], demand)
        return Ranges(planned.ranges, self.wrong or (planned.offset, "x"), planned.more)


def test_an_offset_or_identity_that_json_cannot_hold_is_named() -> None:
    loop = drive(InProcessDirect(), Dated(5, identity=datetime(2026, 1, 1)))
    with pytest.raises(ConfigError, match=r"the identity of .* JSON cannot hold \(Object of type datetime"):
        loop.open()
    loop = drive(InProcessDirect(), Dated(5, offset=datetime(2026, 1, 1)))
    loop.open()
    with pytest.raises(SourceFailed, match=r"the offset of .* JSON cannot hold .*moment\.isoformat"):
        loop.step(0.0)
    assert loop.first.opened is not None
    assert loop.first.opened.checkpoint.last is None, "nothing was committed"


def test_a_pair_is_a_list_before_and_after_a_restart() -> None:
    engine = InProcessDirect()
    assert [p.rows for p in run_all(drive(engine, Dated(25)))] == [10, 10, 5]
    assert [p.rows for p in run_all(drive(engine, Dated(30)))] == [5]


def test_a_checkpoint_of_a_foreach_batch_query_gives_advice_for_direct_streams() -> None:
    engine = InProcessDirect()
    first = drive(engine, Numbers(10)).first
    first.process(read(Planned.of([Input(Numbers(10))], [[Range([0, 10], 10)]])), 0, "4be35ea6")
    with pytest.raises(CheckpointMismatch, match=r"query 4be35ea6.* a direct stream .*of its own") as caught:
        drive(engine, Numbers(20)).open()
    assert "continues" not in str(caught.value)
    assert "checkpointLocation" not in str(caught.value)


@pytest.mark.parametrize("rows", [10, 25], ids=["one batch", "three batches"])
def test_another_output_folder(rows: int, tmp_path: Path) -> None:
    engine, newest = InProcessDirect(), (rows - 1) // 10
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    run_all(drive(engine, Numbers(rows), sink=sinks.Parquet(old)))
    with pytest.raises(CheckpointMismatch, match=rf"new has no batch.*first_batch={newest + 1}"):
        drive(engine, Numbers(40), sink=sinks.Parquet(new)).open()
    run_all(drive(engine, Numbers(40), sink=sinks.Parquet(new, first_batch=newest + 1)))
    assert sinks.Parquet(old).batches() == list(range(newest + 1))
    assert sinks.Parquet(new).batches()[0] == newest + 1


def test_the_size_of_a_batch_follows_the_latency() -> None:
    size = BatchSize(most=1_000_000, seconds=0.5)
    for _ in range(20):
        size = size.after(size.rows, 0.05 + 2e-6 * size.rows)
    assert 0.8 * 225_000 < size.rows < 1.2 * 225_000
    for _ in range(20):  # ten times slower
        size = size.after(size.rows, 0.05 + 20e-6 * size.rows)
    assert 0.8 * 22_500 < size.rows < 1.2 * 22_500
    assert BatchSize(most=500).after(500, 9.0).rows == 500, "without a target only the limit counts"


def test_ranges_are_shared_among_tasks_in_order() -> None:
    parts = [InputRange(0, n, rows) for n, rows in enumerate([90_000, 1, 0, 50_000, 60_000, 3])]
    tasks = split_tasks(parts, 3)
    assert [number for task in tasks for number, _ in task] == list(range(6))
    assert len(tasks) == 3
    assert split_tasks([], 3) == []
    assert len(split_tasks([InputRange(0, n, 10) for n in range(50)], 8)) == 1
