"""Direct streams with bad input: named, nothing lost, and a restart goes on where it was."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.spark.direct.events import SCHEMA, events, native, put

import headgate as hg
from headgate import agg
from headgate.errors import (
    CheckpointMismatch,
    ConfigError,
    MissingColumn,
    SourceFailed,
    StepFailed,
    TaskFailed,
)


def test_everything_that_can_be_known_is_checked_before_the_first_batch(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    rows = hg.read(spark).files(str(files), schema=SCHEMA)
    sink, at = hg.sinks.Memory(), str(tmp_path / "ckpt")
    with pytest.raises(MissingColumn, match="usr"):
        rows.key_by("usr").aggregate(n=agg.count()).write(sink).start(at)
    with pytest.raises(MissingColumn, match="price"):
        rows.where("price > 0").key_by("user").aggregate(n=agg.count()).write(sink).start(at)
    with pytest.raises(MissingColumn, match="price"):
        rows.key_by("user").aggregate(s=agg.sum("price")).write(sink).start(at)
    with pytest.raises(ConfigError, match="not boolean"):
        rows.where("amount + 1").key_by("user").aggregate(n=agg.count()).write(sink).start(at)
    with pytest.raises(ConfigError, match="amount >"):
        rows.where("amount >").key_by("user").aggregate(n=agg.count()).write(sink).start(at)
    with pytest.raises(ConfigError, match="schema="):
        hg.read(spark).files(str(files), schema="user lung")
    with pytest.raises(ConfigError, match="nowhere"):
        hg.read(spark).files(str(tmp_path / "nowhere"), schema=SCHEMA).key_by("user").aggregate(
            n=agg.count()
        ).write(sink).start(at)
    with pytest.raises(ConfigError, match="every"):
        rows.key_by("user").aggregate(n=agg.count()).write(sink).start(at, every="soon")
    with pytest.raises(ConfigError, match="exclude"):
        rows.key_by("user").aggregate(n=agg.count()).write(sink).start(at, every="1 s", available_now=True)
    with pytest.raises(ConfigError, match="SparkSession"):
        hg.read("local[2]")
    with pytest.raises(ConfigError, match="text"):
        rows.where(F.col("amount") > 0)
    assert not (tmp_path / "ckpt" / "log").exists(), "nothing was written"


@pytest.mark.classic
def test_a_checkpoint_of_another_query_is_refused(
    spark: SparkSession, files: Path, tmp_path: Path, run: Any
) -> None:
    stream = hg.read(spark).files(str(files), schema=SCHEMA)
    run(stream.key_by("user").aggregate(n=agg.count()), hg.sinks.Memory())
    with pytest.raises(CheckpointMismatch):
        run(stream.key_by("user").aggregate(n=agg.max("amount")))
    (tmp_path / "other").mkdir()
    other = hg.read(spark).files(str(tmp_path / "other"), schema=SCHEMA)
    with pytest.raises(CheckpointMismatch, match="other"):
        run(other.key_by("user").aggregate(n=agg.count()))
    stage = hg.Stage(
        key="user",
        operator=hg.Aggregate(n=agg.count()),
        checkpoint=str(tmp_path / "stage"),
        sink=hg.sinks.Memory(),
    )
    stage(spark.read.schema(SCHEMA).parquet(str(files)), 0)
    with pytest.raises(CheckpointMismatch, match="direct"):
        stream.key_by("user").aggregate(n=agg.count()).write(hg.sinks.Memory()).start(str(tmp_path / "stage"))


def failing(
    spark: SparkSession, files: Path, run: Any, sink: Any, stream: Any, kind: Any, match: str
) -> None:
    """Check that the query raises this error, without Py4J's words around it."""
    with pytest.raises(kind, match=match) as caught:
        run(stream.key_by("user").aggregate(n=agg.count()), sink)
    assert "Py4J" not in str(caught.value)


def test_bad_files_are_named_and_the_query_goes_on(
    spark: SparkSession, files: Path, tmp_path: Path, run: Any
) -> None:
    sink = hg.sinks.Memory()

    def stream(**options: Any) -> Any:
        return hg.read(spark).files(str(files), schema=SCHEMA, **options)

    run(stream().key_by("user").aggregate(n=agg.count()), sink)
    counted = sum(r["n"] for r in sink.latest("user").values())
    (files / "0005.parquet").write_bytes((files / "0000.parquet").read_bytes()[:-100])
    failing(spark, files, run, sink, stream(), SourceFailed, "0005.parquet")
    wrong = events(10, 1).set_column(1, "amount", pa.array(["x"] * 10))
    os.remove(files / "0005.parquet")
    put(files, 6, wrong)
    put(files, 7, events(10, 1).drop_columns(["at"]))
    put(files, 8, events(10, 1).append_column("more", pa.array(range(10))))
    bad = ("0005.parquet",)
    amounts = stream(ignore=bad).key_by("user").aggregate(n=agg.count(), s=agg.sum("amount"))
    with pytest.raises(CheckpointMismatch):
        run(amounts, sink)
    results = stream(ignore=bad).where("amount > -100").key_by("user").aggregate(n=agg.count())
    with pytest.raises(SourceFailed, match=r"0006\.parquet.*amount"):
        run(results, sink)
    results = stream(ignore=(*bad, "0006.parquet")).key_by("user").aggregate(n=agg.count())
    run(results, sink)
    assert sum(r["n"] for r in sink.latest("user").values()) == counted + 20


class Flaky(hg.sources.Source):
    """Numbers from 0 to 9; fails once when it is read, if a file says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def schema(self) -> pa.Schema:
        return pa.schema([("user", pa.int64())])

    def identity(self) -> dict[str, Any]:
        return {"source": "flaky"}

    def plan(self, offset: Any, demand: hg.sources.Demand) -> hg.sources.Ranges:
        if (self.folder / "plan").exists():
            raise OSError("no connection")
        start = offset or 0
        ranges = (hg.sources.Range(start, 1),) if start < 10 else ()
        return hg.sources.Ranges(ranges, min(10, start + 1), more=start < 9)

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        if what == 4 and (self.folder / "fail").exists():
            os.remove(self.folder / "fail")
            raise OSError("the line is dead")
        yield pa.RecordBatch.from_pydict({"user": [what]}, schema=self.schema())


def test_a_source_that_raises_once(spark: SparkSession, tmp_path: Path, run: Any) -> None:
    (tmp_path / "fail").touch()
    sink = hg.sinks.Memory()
    results = hg.read(spark).source(Flaky(tmp_path)).key_by("user").aggregate(n=agg.count())
    with pytest.raises(SourceFailed, match="the line is dead"):
        run(results, sink)
    assert len(sink.latest("user")) == 4
    run(results, sink)
    assert {k[0]: r["n"] for k, r in sink.latest("user").items()} == dict.fromkeys(range(10), 1)
    (tmp_path / "plan").touch()
    with pytest.raises(SourceFailed, match="no connection"):
        run(results, sink)


def test_steps_that_fail_or_return_other_columns(spark: SparkSession, tmp_path: Path, run: Any) -> None:
    source = hg.sources.Rows([{"user": i} for i in range(10)])
    rows = hg.read(spark).source(source)

    def fails(table: pa.Table) -> pa.Table:
        if table.num_rows:
            raise ValueError("a row is odd")
        return table

    def other(table: pa.Table) -> pa.Table:
        return table.append_column("x", pa.array([1] * table.num_rows)) if table.num_rows else table

    with pytest.raises(StepFailed, match="a row is odd"):
        run(rows.map_batches(fails).key_by("user").aggregate(n=agg.count()))
    with pytest.raises(StepFailed, match="returned user int64, x int64"):
        run(rows.map_batches(other).key_by("user").aggregate(n=agg.count()))
    with pytest.raises(StepFailed, match="not a pyarrow"):
        run(rows.map_batches(lambda table: None).key_by("user").aggregate(n=agg.count()))
    with pytest.raises((StepFailed, TaskFailed, ConfigError), match="overflow"):
        run(rows.select("user + 9223372036854775807 AS user").key_by("user").aggregate(n=agg.count()))
    sink = hg.sinks.Memory()
    run(rows.map_batches(lambda table: table.slice(0, 3)).key_by("user").aggregate(n=agg.count()), sink)
    assert len(sink.latest("user")) == 3


def test_a_failed_sink_publishes_the_batch_after_a_restart(
    spark: SparkSession, tmp_path: Path, run: Any
) -> None:
    seen: list[tuple[int, int]] = []
    broken = threading.Event()
    broken.set()

    def sink(df: DataFrame, batch: int) -> None:
        if broken.is_set() and batch == 1:
            raise OSError("the database is away")
        seen.append((batch, sum(row.n for row in df.collect())))

    source = hg.sources.Rows([{"user": i} for i in range(30)])
    results = hg.read(spark).source(source).key_by("user").aggregate(n=agg.count())
    with pytest.raises(hg.errors.SinkFailed, match="the database is away"):
        run(results, sink, max_rows=10)
    broken.clear()
    run(results, sink, max_rows=10)
    assert seen == [(0, 10), (1, 10), (2, 10)]


@pytest.mark.classic
def test_a_failure_between_two_waves_of_a_gate(
    spark: SparkSession, files: Path, tmp_path: Path, run: Any
) -> None:
    """Waves are committed one by one: after a restart the rest of them follows, from the rows that were put aside."""
    sink = hg.sinks.Memory()

    def expand(df: DataFrame) -> DataFrame:
        if len(sink.batches) == 2 and (tmp_path / "fail").exists():
            raise OSError("the third wave failed")
        return df.select("user", F.explode(F.sequence(F.lit(1), F.lit(4))).alias("i"))

    stream = hg.read(spark).files(str(files), schema=SCHEMA).expand(expand, gate=hg.Gate(batch=300))
    results = stream.key_by("user").aggregate(n=agg.count())
    (tmp_path / "fail").touch()
    with pytest.raises((hg.errors.HeadgateError), match="the third wave failed"):
        run(results, sink, max_rows=4000)
    (tmp_path / "fail").unlink()
    assert sink.batches, "some waves were committed"
    run(results, sink, max_rows=4000)
    wanted = native(spark.read.parquet(str(files)).groupBy("user").agg(F.count("*") * 4))
    assert sorted((k[0], r["n"]) for k, r in sink.latest("user").items()) == wanted


def test_a_pipeline_whose_second_stage_is_behind(spark: SparkSession, tmp_path: Path, run: Any) -> None:
    """The first stage has committed a batch that the second has not: a restart hands it over again."""
    sink = hg.sinks.Memory()

    def odd(table: pa.Table) -> pa.Table:
        if table.num_rows and broken_file.exists():
            raise ValueError("not now")
        return table

    broken_file = tmp_path / "broken"
    source = hg.sources.Rows([{"user": i % 5, "x": i} for i in range(30)])
    first = hg.read(spark).source(source).key_by("user").aggregate(n=agg.count(), top=agg.max("x"))
    results = first.map_batches(odd).select("n", "user").key_by("n").aggregate(users=agg.count())
    run(results, sink, max_rows=10)
    source.add([{"user": 7, "x": 1}])
    broken_file.touch()
    with pytest.raises(StepFailed, match="not now"):
        run(results, sink, max_rows=10)
    broken_file.unlink()
    run(results, sink, max_rows=10)
    assert {k[0]: r["users"] for k, r in sink.latest("n").items()} == {2: 5, 4: 5, 6: 5, 1: 1}


def test_an_empty_folder_and_many_tiny_files(spark: SparkSession, tmp_path: Path, run: Any) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    sink = hg.sinks.Memory()
    results = (
        hg.read(spark)
        .files(str(folder), schema="user long", format="json")
        .key_by("user")
        .aggregate(n=agg.count())
    )
    query = run(results, sink)
    assert query.progress == []
    for number in range(500):
        (folder / f"{number:04}.json").write_text(f'{{"user": {number % 10}}}\n')
    query = run(results, sink, max_rows=1_000_000)
    assert {k[0]: r["n"] for k, r in sink.latest("user").items()} == dict.fromkeys(range(10), 50)
    assert len(query.progress) < 10


def test_a_checkpoint_of_a_query_with_other_keys_is_refused(
    spark: SparkSession, files: Path, tmp_path: Path, run: Any
) -> None:
    one = hg.read(spark).files(str(files), schema=SCHEMA).key_by("user").aggregate(n=agg.count())
    run(one)
    with pytest.raises(CheckpointMismatch, match="one key"):
        run(one.key_by("n").aggregate(users=agg.count()))
    two = one.key_by("n").aggregate(users=agg.count())
    two.write(hg.sinks.Memory()).start(str(tmp_path / "two"), available_now=True).await_end()
    with pytest.raises(CheckpointMismatch, match="several keys"):
        one.write(hg.sinks.Memory()).start(str(tmp_path / "two"))


def test_folders_within_the_input_are_refused(spark: SparkSession, files: Path, run: Any) -> None:
    counts = hg.read(spark).files(str(files), schema=SCHEMA).key_by("user").aggregate(n=agg.count())
    with pytest.raises(ConfigError, match=r"output .* lies in the input"):
        run(counts, hg.sinks.Parquet(str(files / "out")))
    with pytest.raises(ConfigError, match=r"checkpoint .* lies in the input"):
        counts.write(hg.sinks.Memory()).start(str(files / "checkpoint"))


@pytest.mark.parametrize("checkpoint", ["", None, 3])
def test_what_is_no_checkpoint_is_refused(spark: SparkSession, checkpoint: Any) -> None:
    counts = hg.read(spark).rows([{"user": 1}]).key_by("user").aggregate(n=agg.count())
    with pytest.raises(ConfigError, match="checkpoint="):
        counts.write(hg.sinks.Memory()).start(checkpoint)


def test_slips_of_a_newcomer_are_named(spark: SparkSession, tmp_path: Path) -> None:
    rows = hg.read(spark).rows([{"user": 1, "v": 2.0}])
    at = str(tmp_path / "ckpt")
    with pytest.raises(ConfigError, match="needs an operator"):
        rows.key_by("user").write(hg.sinks.Memory())
    with pytest.raises(ConfigError, match="before start"):
        rows.key_by("user").aggregate(n=agg.count()).start(at)
    with pytest.raises(ConfigError, match="key on both sides"):
        rows.key_by("user").join(rows, time="at", delay="1 s")
    with pytest.raises(ConfigError, match="max_rows='5'"):
        rows.key_by("user").aggregate(n=agg.count()).write(hg.sinks.Memory()).start(at, max_rows="5")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs a column"):
        agg.sum(None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not a whole number"):
        hg.sources.Rows([{"user": 1.5}], pa.schema([("user", pa.int64())]))
    with pytest.raises(ConfigError, match="Rows"):
        hg.read(spark).rows(None)


def test_a_source_whose_offset_stands_still_is_refused(spark: SparkSession, tmp_path: Path, run: Any) -> None:
    class Stuck(Flaky):
        def plan(self, offset: Any, demand: hg.sources.Demand) -> hg.sources.Ranges:
            return hg.sources.Ranges((hg.sources.Range(1, 1),), offset)

    with pytest.raises(SourceFailed, match="left the offset"):
        run(hg.read(spark).source(Stuck(tmp_path)).key_by("user").aggregate(n=agg.count()))


def test_a_line_that_is_null_and_a_worker_that_dies_are_named(
    spark: SparkSession, tmp_path: Path, run: Any
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('null\n{"user": 1}\n')
    rows = hg.read(spark).files(str(tmp_path / "in"), schema="user long")
    with pytest.raises(SourceFailed, match=r"a\.json"):
        run(rows.key_by("user").aggregate(n=agg.count()))

    def dies(table: pa.Table) -> pa.Table:
        if table.num_rows:
            os._exit(1)
        return table

    source = hg.read(spark).rows([{"user": 1}]).map_batches(dies)
    written = source.key_by("user").aggregate(n=agg.count()).write(hg.sinks.Memory())
    with pytest.raises(TaskFailed, match="Python worker exited"):
        written.start(str(tmp_path / "dies"), available_now=True).await_end()
