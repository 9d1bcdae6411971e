"""The end of the input: what the watermark allows is emitted, nothing waits, and all that is open is closed where the user says so."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.spark import stages
from tests.spark.streams import run_query, write_file

import headgate as hg
from headgate import agg

START = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
SCHEMA = "k long, at timestamp"


def rows_of(number: int) -> pa.Table:
    """An hour of rows, one a minute."""
    times = [START + dt.timedelta(hours=number, minutes=m) for m in range(60)]
    return pa.table(
        {
            "k": pa.array([m % 3 for m in range(60)], pa.int64()),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def windows() -> Any:
    return hg.Windows(hg.tumbling("10 minutes"), on="at", delay="5 minutes", n=agg.count())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for number in range(3):
        write_file(tmp_path / "in", number, rows_of(number))
    return tmp_path / "in"


@pytest.fixture
def stage_of(tmp_path: Path) -> Callable[..., Any]:
    def make(**options: Any) -> Any:
        settings = {
            "key": "k",
            "operator": windows(),
            "channels": 2,
            "bins": 8,
            "checkpoint": str(tmp_path / "ckpt"),
            "sink": hg.sinks.Parquet(str(tmp_path / "out")),
            "durable": False,
        }
        return stages.stage_of(**{**settings, **options})

    return make


def emitted(spark: Any, folder: Path) -> list[tuple[Any, ...]]:
    rows = spark.read.parquet(str(folder)).collect()
    return sorted((row.k, row.window_start, row.n) for row in rows)


def native(spark: Any, source: Path, tmp_path: Path) -> list[tuple[Any, ...]]:
    """The same windows by Spark alone, which adds a batch without rows at the end."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    counted = (
        rows.withWatermark("at", "5 minutes")
        .groupBy("k", F.window("at", "10 minutes"))
        .agg(F.count("*").alias("n"))
        .select("k", F.col("window.start").alias("window_start"), "n")
    )
    query = (
        counted.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "native"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "native-out"))
    )
    query.awaitTermination()
    return emitted(spark, tmp_path / "native-out")


def test_what_the_watermark_allows_is_emitted_as_native_does(
    spark: Any, source: Path, stage_of: Any, tmp_path: Path
) -> None:
    stage = stage_of()
    run_query(spark, source, SCHEMA, stage, tmp_path / "spark")
    wanted = native(spark, source, tmp_path)
    assert len(emitted(spark, tmp_path / "out")) < len(wanted), (
        "the last batch's watermark closes nothing yet"
    )
    stage.drain()
    assert emitted(spark, tmp_path / "out") == wanted
    stage.drain()
    assert emitted(spark, tmp_path / "out") == wanted


def test_a_drained_stage_goes_on_with_the_next_rows(
    spark: Any, source: Path, stage_of: Any, tmp_path: Path
) -> None:
    for number in (3, 4):
        stage = stage_of()
        run_query(spark, source, SCHEMA, stage, tmp_path / "spark")
        stage.drain()
        write_file(source, number, rows_of(number))
    again = stage_of()
    run_query(spark, source, SCHEMA, again, tmp_path / "spark")
    again.finish()
    every = [(k, START + dt.timedelta(minutes=10 * w)) for k in range(3) for w in range(30)]
    found = emitted(spark, tmp_path / "out")
    assert [(k, at.astimezone(dt.UTC)) for k, at, _ in found] == every
    assert sum(n for _, _, n in found) == 300


def test_draining_needs_no_batch_in_this_process(
    spark: Any, source: Path, stage_of: Any, tmp_path: Path
) -> None:
    run_query(spark, source, SCHEMA, stage_of(), tmp_path / "spark")
    before = len(emitted(spark, tmp_path / "out"))
    stage_of().drain()
    assert len(emitted(spark, tmp_path / "out")) > before
    stage_of(checkpoint=str(tmp_path / "new"), sink=hg.sinks.Memory()).drain()  # nothing has happened there


def test_finish_closes_what_is_open_and_takes_no_more(
    spark: Any, source: Path, stage_of: Any, tmp_path: Path
) -> None:
    stage = stage_of()
    run_query(spark, source, SCHEMA, stage, tmp_path / "spark")
    stage.finish()
    found = emitted(spark, tmp_path / "out")
    assert sum(n for _, _, n in found) == 180
    assert "input complete" in str(stage.status())
    stage.finish()
    stage_of().finish()
    assert emitted(spark, tmp_path / "out") == found
    write_file(source, 9, rows_of(9))
    with pytest.raises(Exception, match=r"was said to be complete \(finish\).*call drain\(\) instead"):
        run_query(spark, source, SCHEMA, stage_of(), tmp_path / "spark")


def test_a_crash_between_an_added_batch_and_its_publishing_loses_nothing(
    spark: Any, source: Path, stage_of: Any, tmp_path: Path
) -> None:
    stage = stage_of()
    run_query(spark, source, SCHEMA, stage, tmp_path / "spark")

    def stop(step: str) -> None:
        if step == "commit":
            raise RuntimeError("stopped")

    stage.on_step = stop
    with pytest.raises(RuntimeError, match="stopped"):
        stage.drain()
    write_file(source, 3, rows_of(3))
    again = stage_of()
    run_query(spark, source, SCHEMA, again, tmp_path / "spark")
    again.finish()
    assert sum(n for _, _, n in emitted(spark, tmp_path / "out")) == 240


def test_the_backlog_is_empty_after_draining(spark: Any, make_stage: Any, feed: Any) -> None:
    stage = make_stage(hg.HistoryWindow(4, "mean", of="v"), memory="2kB", turn_ms=0)
    feed(stage, [[(k, b) for k in range(200)] for b in range(4)])
    assert sum(one.backlog_rows for one in stage.journal()[-1].report.channels), "rows wait"
    stage.drain()
    assert stage.sink.table().num_rows == 800
    assert not sum(one.backlog_rows for one in stage.journal()[-1].report.channels)


def test_windows_whose_state_is_on_disk_are_emitted_too(
    spark: Any, source: Path, stage_of: Any, tmp_path: Path
) -> None:
    stage = stage_of(memory="1kB", turn_ms=0)
    run_query(spark, source, SCHEMA, stage, tmp_path / "spark")
    stage.finish()
    assert sum(n for _, _, n in emitted(spark, tmp_path / "out")) == 180


def test_a_pipeline_is_drained_stage_by_stage(
    spark: Any, source: Path, stage_of: Any, tmp_path: Path
) -> None:
    def pipeline() -> hg.Pipeline:
        first = stage_of(sink=None)
        second = stage_of(
            operator=hg.Aggregate(total=agg.sum("n")),
            checkpoint=str(tmp_path / "second"),
            sink=hg.sinks.Parquet(str(tmp_path / "sums")),
        )
        return hg.Pipeline(first, second)

    stages = pipeline()
    run_query(spark, source, SCHEMA, stages, tmp_path / "spark")
    stages.finish()
    rows = spark.read.parquet(str(tmp_path / "sums")).collect()
    newest = {row.k: row.total for row in sorted(rows, key=lambda row: row.batch)}
    assert newest == {0: 60, 1: 60, 2: 60}


def test_a_timer_that_sets_itself_again_is_met_once_at_the_end(
    spark: Any, source: Path, stage_of: Any
) -> None:
    @hg.kernel(state={"n": int}, output={"n": int, "ring": bool}, on="at", delay="5 minutes")
    def ringing(state, row):
        state.n += 1
        state.wake_at(row.at + dt.timedelta(hours=9))
        return state.n, False

    @ringing.on_timer
    def ring(state, now):
        state.wake_at(now + dt.timedelta(hours=9))
        return state.n, True

    stage = stage_of(operator=ringing, sink=hg.sinks.Memory())
    run_query(spark, source, SCHEMA, stage, Path(stage.store.path("spark")))
    stage.finish()
    rings = [row["n"] for row in stage.sink.table().to_pylist() if row["ring"]]
    assert rings == [60, 60, 60]
