"""Operators that go by event time beside native Spark on the same files, one file a batch: same rows, watermark and late rows included."""

import datetime as dt
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.spark.test_random_flow import SETTINGS, Whim

import headgate as hg
from headgate import agg

NOON = dt.datetime(2024, 3, 1, 12)
SCHEMA = "k string, t timestamp, i long"
KINDS = pa.schema([("k", pa.string()), ("t", pa.timestamp("us", tz="UTC")), ("i", pa.int64())])
END = "end"


def write(folder: Path, batches: list[list[tuple[Any, ...]]]) -> None:
    folder.mkdir()
    for b, rows in enumerate(batches):
        columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), KINDS, strict=True)]
        path = folder / f"{b:03d}.parquet"
        pq.write_table(pa.Table.from_arrays(columns, schema=KINDS), path)
        os.utime(path, (1_700_000_000 + b, 1_700_000_000 + b))


def batches_of(seed: int, count: int = 3, rows: int = 40, start: int = 0) -> list[list[tuple[Any, ...]]]:
    """Minutes that wander on, some an hour late; at last two rows of a key of their own, which close what is open."""
    draw = random.Random(seed)
    found = []
    for b in range(count):
        minutes = [20 * b + draw.choice([draw.randint(0, 30), draw.randint(-60, 0)]) for _ in range(rows)]
        found.append(
            [
                (draw.choice("abcd"), NOON + dt.timedelta(minutes=m), start + 100 * b + i)
                for i, m in enumerate(minutes)
            ]
        )
    return [*found, *([(END, NOON + dt.timedelta(hours=h), start + 9000 + h)] for h in (12, 20))]


@pytest.fixture
def streamed(spark: Any, tmp_path: Path) -> Callable[..., Any]:
    """A stream over files, one a batch."""

    def read(name: str, batches: list[list[tuple[Any, ...]]] | None = None) -> Any:
        if batches is not None:
            write(tmp_path / name, batches)
        return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / name))

    return read


def run(frame: Any, sink: Any, tmp_path: Path, name: str, mode: str = "append") -> None:
    writer = frame.writeStream.foreachBatch(sink).outputMode(mode)
    writer = writer.option("checkpointLocation", str(tmp_path / f"{name}-spark"))
    writer.trigger(availableNow=True).start().awaitTermination()


def drained(stage: Any) -> list[tuple[Any, ...]]:
    """What the stage has emitted once nothing waits any more."""
    stage.drain()
    return ours(stage)


def natively(frame: Any, tmp_path: Path, mode: str = "append") -> list[tuple[Any, ...]]:
    """All rows that a native query emits, but those of the last key."""
    out: list[tuple[Any, ...]] = []
    run(frame, lambda batch, _: out.extend(map(tuple, batch.collect())), tmp_path, "native", mode)
    return sorted((row for row in out if row[0] != END), key=repr)


def ours(stage: Any) -> list[tuple[Any, ...]]:
    rows = [tuple(_plain(v) for v in row.values()) for row in stage.sink.table().to_pylist()]
    return sorted((row for row in rows if row[0] != END), key=repr)


def _plain(value: Any) -> Any:
    return value.astimezone().replace(tzinfo=None) if isinstance(value, dt.datetime) else value


WINDOWS: dict[str, tuple[Any, Any, Literal["append", "update"]]] = {
    "tumbling": (hg.tumbling("10 minutes"), lambda t: F.window(t, "10 minutes"), "append"),
    "hopping, updated": (
        hg.hopping("10 minutes", every="4 minutes"),
        lambda t: F.window(t, "10 minutes", "4 minutes"),
        "update",
    ),
    "session": (hg.session("5 minutes"), lambda t: F.session_window(t, "5 minutes"), "append"),
}


@pytest.mark.parametrize(
    "kind", [pytest.param("tumbling", marks=pytest.mark.full), "hopping, updated", "session"]
)
def test_windows_are_those_of_native(kind: str, streamed: Any, make_stage: Any, tmp_path: Path) -> None:
    window, native, mode = WINDOWS[kind]
    frame = streamed("in", batches_of(1))
    operator = hg.Windows(window, on="t", delay="15 minutes", emit=mode, n=agg.count(), total=agg.sum("i"))
    aside = hg.sinks.Memory()
    stage = make_stage(operator, policy=Whim(1, splits=False), aside=aside, **SETTINGS)
    run(frame, stage, tmp_path, "ours")
    grouped = frame.withWatermark("t", "15 minutes").groupBy("k", native(F.col("t")).alias("w"))
    wanted = grouped.agg(F.count("*").alias("n"), F.sum("i").alias("total"))
    found = natively(wanted.select("k", "w.start", "w.end", "n", "total"), tmp_path, mode)
    late = [row for batch in aside.batches.values() for row in batch.to_pylist()]
    assert late
    assert {row["reason"] for row in late} == {"late"}
    assert f"{len(late)} rows late" in str(stage.status())
    if mode == "update":  # rows that wait are emitted with the batch that takes them up
        assert _newest(drained(stage)) == _newest(found)
    else:
        assert drained(stage) == found


def _newest(rows: list[tuple[Any, ...]]) -> dict[Any, Any]:
    largest: dict[Any, Any] = {}
    for k, start, end, n, total in rows:
        largest[k, start] = max(largest.get((k, start), (0, 0, end)), (n, total, end))
    return largest


def test_dedup_is_that_of_native(streamed: Any, make_stage: Any, tmp_path: Path) -> None:
    frame = streamed("in", batches_of(2, rows=12))
    stage = make_stage(hg.Dedup(on="t", delay="15 minutes"))
    run(frame, stage, tmp_path, "ours")
    native = frame.withWatermark("t", "15 minutes").dropDuplicatesWithinWatermark(["k"])
    found = natively(native, tmp_path)
    assert [row[:2] for row in ours(stage)] == [row[:2] for row in found]


NATIVE_JOINS = {"semi": "inner", "anti": "left_outer"}
"""Spark has no anti join of two streams: the oracle is the left rows for which an outer join has nothing. Its semi join leaves out left
rows whose bound has passed when they come, though its inner join has their pairs: the oracle is the inner join's left rows.
"""


@pytest.mark.parametrize(
    "how",
    ["left", *(pytest.param(h, marks=pytest.mark.full) for h in ("inner", "right", "full", "semi", "anti"))],
)
def test_joins_are_those_of_native(how: Any, streamed: Any, make_stage: Any, tmp_path: Path) -> None:
    left, right = (
        streamed("left", batches_of(3, rows=20)),
        streamed("right", batches_of(4, rows=20, start=50000)),
    )
    operator = hg.Join(how, before="2 minutes", after="10 minutes", delay=("15 minutes", "5 minutes"))
    both = hg.two_streams(left, right, key="k", time="t")
    stage = make_stage(operator, policy=Whim(2, splits=False), **SETTINGS)
    run(both, stage, tmp_path, "ours")
    a = left.withWatermark("t", "15 minutes").selectExpr("k", "t", "i")
    b = right.withWatermark("t", "5 minutes").selectExpr("k as rk", "t as rt", "i as ri")
    near = "k = rk and rt >= t - interval 2 minutes and rt <= t + interval 10 minutes"
    joined = a.join(b, F.expr(near), NATIVE_JOINS.get(how, how))
    found = natively(joined.selectExpr("coalesce(k, rk)", "t", "i", "rt", "ri"), tmp_path)
    if how in NATIVE_JOINS:
        lonely = how == "anti"
        found = sorted({row[:3] for row in found if (row[4] is None) == lonely}, key=repr)
    assert found
    assert drained(stage) == found


def test_a_pipeline_is_exactly_once_whatever_crashes_between_its_commits(
    make_stage: Any, feed: Any, tmp_path: Path
) -> None:
    """Rows by key, then keys by how many rows they have; the second stage fails once in every batch."""
    data = [[(i % 7, i) for i in range(20 * b, 20 * b + 20)] for b in range(4)]
    sink = hg.sinks.Memory()

    def make(fails: bool) -> tuple[Any, Any]:
        first = make_stage(hg.HistoryWindow(3, "max", of="v"), checkpoint=str(tmp_path / "first"), sink=None)
        second = make_stage(
            hg.Aggregate(n=agg.count(), top=agg.sum("max")),
            checkpoint=str(tmp_path / "second"),
            sink=sink,
            channels=2,
        )
        if fails:
            second.on_step = _die_at("compute")
        return hg.Pipeline(first, second), second

    for b, rows in enumerate(data):
        pipeline, _ = make(fails=True)
        with pytest.raises(hg.errors.SinkFailed, match="killed at compute"):
            feed(pipeline, [rows], start=b)
        pipeline, second = make(fails=False)
        feed(pipeline, [rows], start=b)
        feed(pipeline, [rows], start=b)  # delivered once more
    latest = second.sink.latest("k")
    for key in range(7):
        mine = [v for rows in data for k, v in rows if k == key]
        assert (latest[key,]["n"], latest[key,]["top"]) == (len(mine), sum(mine))
    assert [status.operator.split("(")[0] for status in pipeline.status()] == ["HistoryWindow", "Aggregate"]


def _die_at(step: str) -> Callable[[str], None]:
    def reached(name: str) -> None:
        if name == step:
            raise RuntimeError(f"killed at {step}")

    return reached


def test_misuse_is_named(make_stage: Any, feed: Any, spark: Any, tmp_path: Path) -> None:
    operator = hg.Aggregate(n=agg.count())
    lone = make_stage(operator, sink=None)
    with pytest.raises(hg.errors.ConfigError, match=r"no sink; give it one, or put it into hg\.Pipeline"):
        feed(lone, [[(1, 1)]])
    with pytest.raises(hg.errors.ConfigError, match="no sink"):
        hg.Pipeline(make_stage(operator, checkpoint=str(tmp_path / "a")), lone)
    with pytest.raises(hg.errors.ConfigError, match="only the last stage has one"):
        hg.Pipeline(make_stage(operator, checkpoint=str(tmp_path / "a")), make_stage(operator))
    with pytest.raises(hg.errors.ConfigError, match="share the checkpoint"):
        hg.Pipeline(make_stage(operator, sink=None), make_stage(operator))
    with pytest.raises(hg.errors.ConfigError, match="not a stage"):
        hg.Pipeline(operator)  # type: ignore[arg-type]
    with pytest.raises(hg.errors.MissingColumn, match=r"give the stage hg\.two_streams\(left, right"):
        feed(make_stage(hg.Join(delay="1 s")), [[(1, 1)]])
    frame = spark.createDataFrame([(1, NOON)], "k long, t timestamp")
    with pytest.raises(hg.errors.MissingColumn, match="the right stream has no column 'when'"):
        hg.two_streams(frame, frame, key="k", time=("t", "when"))
    with pytest.raises(
        hg.errors.ConfigError, match="key column 'k' is bigint on the left and string on the right"
    ):
        hg.two_streams(frame, frame.selectExpr("string(k) as k", "t"), key="k", time="t")


def test_a_changed_operator_is_refused_by_name(make_stage: Any, spark: Any) -> None:
    rows = spark.createDataFrame([(1, NOON)], "k long, t timestamp")
    make_stage(hg.Windows(hg.tumbling("10 minutes"), on="t", delay="5 minutes", n=agg.count()))(rows, 0)
    with pytest.raises(
        hg.errors.CheckpointMismatch, match=r"was made with operator = .*10 minutes.*20 minutes"
    ):
        make_stage(hg.Windows(hg.tumbling("20 minutes"), on="t", delay="5 minutes", n=agg.count()))(rows, 1)
