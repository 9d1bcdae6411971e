"""Direct streams on Spark: every operator against native Spark on the same rows, restarts, moves, bad input."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

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

SCHEMA = "user long, amount double, at timestamp"
STATIC = hg.Routing(policy="static", channels=3, bins=16)


def events(count: int, seed: int, keys: int = 20) -> pa.Table:
    """Rows of few users; amounts are whole, so that sums do not depend on their order."""
    draw = np.random.default_rng(seed)
    at = np.datetime64("2026-01-01T00:00:00", "us") + np.sort(draw.integers(0, 3600_000_000, count)).astype(
        "timedelta64[us]"
    )
    columns = {
        "user": pa.array(draw.zipf(1.5, count) % keys, pa.int64()),
        "amount": pa.array(draw.integers(-5, 100, count).astype(float), pa.float64()),
        "at": pa.array(at, pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


def put(folder: Path, number: int, table: pa.Table, *, row_group: int = 300) -> None:
    """One file, which appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f".{number:04}", row_group_size=row_group)
    os.rename(folder / f".{number:04}", folder / f"{number:04}.parquet")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for number in range(4):
        put(tmp_path / "in", number, events(1000, number))
    return tmp_path / "in"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    """Start a stream on the checkpoint of this test, with all that is there; wait for its end."""

    def start(results: Any, sink: Any = None, **options: Any) -> Any:
        written = results.write(sink if sink is not None else hg.sinks.Memory())
        settings = {"available_now": True, "max_rows": 700, "durable": False, **options}
        query = written.start(checkpoint=str(tmp_path / "ckpt"), **settings)
        query.await_end()
        return query

    return start


def latest(spark: SparkSession, sink: hg.sinks.Parquet, *key: str) -> list[Any]:
    """The last row of each key, without the number of its batch."""
    rows = spark.read.parquet(sink.path)
    newest = rows.groupBy(*key).agg(F.max_by(F.struct(*rows.columns), "batch").alias("row")).select("row.*")
    return sorted(tuple(row) for row in newest.drop("batch").collect())


def native(df: DataFrame) -> list[Any]:
    return sorted(tuple(row) for row in df.collect())


# -- the answers


def test_an_aggregate_equals_sparks_and_stays_columnar(
    spark: SparkSession, files: Path, tmp_path: Path, run: Any
) -> None:
    sink = hg.sinks.Parquet(str(tmp_path / "out"))
    aggregates = {"n": agg.count(), "total": agg.sum("amount"), "top": agg.max("amount")}
    stream = hg.read(spark).files(str(files), schema=SCHEMA).where("amount > 10")
    query = run(stream.key_by("user", routing=STATIC).aggregate(**aggregates), sink)
    rows = spark.read.schema(SCHEMA).parquet(str(files)).where("amount > 10")
    wanted = rows.groupBy("user").agg(F.count("*"), F.sum("amount"), F.max("amount"))
    assert latest(spark, sink, "user") == native(wanted)
    assert "columnar" in query.explain()
    assert "combined in the map tasks" in query.explain()
    assert len(query.progress) > 4, "files are cut into several batches"
    assert query.state == "ended"
    assert sum(p.rows for p in query.progress) == rows.count()


def test_order_within_a_key_is_the_order_of_the_source(spark: SparkSession, files: Path, run: Any) -> None:
    """A law: `first` and `last` by row number, however rows are cut into ranges and channels."""
    numbered = files.parent / "numbered"
    for number in range(3):
        rows = events(1000, number)
        ids = pa.array(range(1000 * number, 1000 * (number + 1)), pa.int64())
        put(numbered, number, rows.append_column("id", ids), row_group=137)
    sink = hg.sinks.Memory()
    stream = hg.read(spark).files(str(numbered), schema=f"{SCHEMA}, id long")
    results = stream.key_by("user").aggregate(first=agg.first("id"), last=agg.last("id"))
    run(results, sink, max_rows=5000)
    table = pq.read_table(numbered)
    users, ids = table.column("user").to_pylist(), table.column("id").to_pylist()
    wanted: dict[int, tuple[int, int]] = {}
    for user, number in sorted(zip(users, ids, strict=True), key=lambda row: row[1]):
        wanted[user] = (wanted.get(user, (number, 0))[0], number)
    assert {k[0]: (r["first"], r["last"]) for k, r in sink.latest("user").items()} == wanted


def test_windows_dedup_top_and_history_equal_the_stage(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    """The same operators behind `foreachBatch` on the same batches give the same rows."""
    operators = {
        "tumbling": hg.Windows(hg.tumbling("10 minutes"), on="at", delay="1 minute", n=agg.count(), s=agg.sum("amount")),
        "hopping": hg.Windows(hg.hopping("10 minutes", "5 minutes"), on="at", delay="1 minute", n=agg.count()),
        "session": hg.Windows(hg.session("30 seconds"), on="at", delay="1 minute", n=agg.count()),
        "dedup": hg.Dedup(),
        "top": hg.TopK(3, by="amount", keep=["at", "amount"]),
        "history": hg.HistoryWindow(5, ["mean", "max"], of="amount", keep=["at", "amount"]),
    }  # fmt: skip
    for name, operator in operators.items():
        direct, staged = hg.sinks.Memory(), hg.sinks.Memory()
        rows = hg.read(spark).files(str(files), schema=SCHEMA).key_by("user", routing=STATIC)
        query = (
            rows.apply(operator)
            .write(direct)
            .start(str(tmp_path / name), available_now=True, max_rows=1000, durable=False)
        )
        query.await_end()
        query.finish()
        stage = hg.Stage(
            key="user", operator=operator, checkpoint=str(tmp_path / f"{name}-stage"), sink=staged,
            routing=STATIC, durable=False,
        )  # fmt: skip
        for number, file in enumerate(sorted(files.iterdir())):
            stage(spark.read.schema(SCHEMA).parquet(str(file)), number)
        stage.drain()
        stage.finish()
        got, wanted = direct.table(), staged.table()
        order = [(column, "ascending") for column in wanted.column_names]
        assert got.num_rows > 0, name
        assert got.sort_by(order).equals(wanted.sort_by(order)), name


def test_a_kernel_and_two_keys_make_a_pipeline(spark: SparkSession, files: Path, run: Any) -> None:
    @hg.kernel(state={"seen": int}, output={"bucket": int, "seen": int})
    def counted(state: Any, row: Any) -> Any:
        state.seen += 1
        return int(row.amount) % 7, state.seen

    sink = hg.sinks.Memory()
    first = hg.read(spark).files(str(files), schema=SCHEMA).key_by("user", routing=STATIC).apply(counted)
    query = run(first.where("seen > 1").key_by("bucket").aggregate(n=agg.count(), top=agg.max("seen")), sink)
    assert len(query.stages) == 2
    table = pq.read_table(files)
    seen: dict[int, int] = {}
    wanted: dict[int, list[int]] = {}
    for user, amount in zip(
        table.column("user").to_pylist(), table.column("amount").to_pylist(), strict=True
    ):
        seen[user] = seen.get(user, 0) + 1
        if seen[user] > 1:
            wanted.setdefault(int(amount) % 7, []).append(seen[user])
    got = {k[0]: (r["n"], r["top"]) for k, r in sink.latest("bucket").items()}
    assert got == {bucket: (len(values), max(values)) for bucket, values in wanted.items()}


def test_two_streams_join_without_two_streams(spark: SparkSession, tmp_path: Path, run: Any) -> None:
    at = [np.datetime64("2026-01-01T00:00:00", "us") + np.timedelta64(i, "s") for i in range(200)]
    times = pa.array(np.array(at), pa.timestamp("us", "UTC"))
    put(
        tmp_path / "l",
        0,
        pa.table({"k": pa.array([i % 7 for i in range(200)]), "at": times, "x": pa.array(range(200))}),
    )
    put(
        tmp_path / "r",
        0,
        pa.table({"k": pa.array([i % 11 for i in range(200)]), "at": times, "y": pa.array(range(200))}),
    )
    left = hg.read(spark).files(str(tmp_path / "l"), schema="k long, at timestamp, x long")
    right = hg.read(spark).files(str(tmp_path / "r"), schema="k long, at timestamp, y long")
    sink = hg.sinks.Memory()
    joined = (
        left.where("x % 2 = 0")
        .key_by("k")
        .join(right.key_by("k"), time="at", before="5 s", after="5 s", delay="1 minute")
    )
    run(joined, sink).finish()
    ls = spark.read.parquet(str(tmp_path / "l")).where("x % 2 = 0").alias("l")
    rs = spark.read.parquet(str(tmp_path / "r")).alias("r")
    condition = "l.k = r.k AND r.at BETWEEN l.at - INTERVAL 5 SECONDS AND l.at + INTERVAL 5 SECONDS"
    wanted = ls.join(rs, F.expr(condition)).select("l.x", "r.y")
    got = sink.table().select(["left_x", "right_y"])
    assert sorted(zip(*(c.to_pylist() for c in got.columns), strict=True)) == native(wanted)


def test_a_join_with_a_table_and_its_refresh(spark: SparkSession, tmp_path: Path) -> None:
    names = spark.createDataFrame([(1, "ann"), (2, "bob")], "user long, name string")
    source, sink = hg.sources.Rows(schema=pa.schema([("user", pa.int64())])), hg.sinks.Memory()
    results = hg.read(spark).source(source).key_by("user").join(names, how="left")
    with results.write(sink).start(str(tmp_path / "ckpt"), durable=False) as query:
        source.add([(1,), (3,)])
        query.process_all_available()
        query.refresh(spark.createDataFrame([(3, "cay")], "user long, name string"), "append")
        source.add([(3,)])
        query.process_all_available()
    assert [(r["user"], r["name"]) for r in sink.table().to_pylist()] == [(1, "ann"), (3, None), (3, "cay")]


def test_late_rows_go_aside(spark: SparkSession, tmp_path: Path) -> None:
    source = hg.sources.Rows(schema=pa.schema([("k", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
    sink, aside = hg.sinks.Memory(), hg.sinks.Memory()
    rows = hg.read(spark).source(source).key_by("k", aside=aside)
    results = rows.windows(hg.tumbling("1 minute"), on="at", delay="0 s", n=agg.count())
    hour = 3_600_000_000
    with results.write(sink).start(str(tmp_path / "ckpt"), durable=False) as query:
        for at in (0, 2 * hour, 2 * hour + 1, 5, None):
            source.add(pa.table({"k": [1], "at": pa.array([at], pa.timestamp("us", "UTC"))}))
            query.process_all_available()
    assert [r["reason"] for r in aside.table().to_pylist()] == ["late", "no event time"]
    assert sink.table().num_rows == 1


def test_steps_after_the_last_operator(spark: SparkSession, files: Path, run: Any) -> None:
    sink = hg.sinks.Memory()
    counted = hg.read(spark).files(str(files), schema=SCHEMA).key_by("user").aggregate(n=agg.count())
    run(counted.where("n > 50").select("user", "n * 2 AS twice"), sink, max_rows=10_000)
    rows = spark.read.parquet(str(files)).groupBy("user").count().where("count > 50")
    assert sink.table().column_names == ["user", "twice"]
    assert sorted((r["user"], r["twice"]) for r in sink.table().to_pylist()) == native(
        rows.selectExpr("user", "count * 2")
    )
    with pytest.raises(ConfigError, match="only columnar steps"):
        run(counted.transform(lambda df: df.limit(1)))
    with pytest.raises(ConfigError, match="needs a key"):
        hg.read(spark).files(str(files), schema=SCHEMA).write(sink)


# -- the row path


def test_what_only_spark_can_do_takes_the_row_path(spark: SparkSession, files: Path, run: Any) -> None:
    sink = hg.sinks.Memory()
    stream = (
        hg.read(spark)
        .files(str(files), schema=SCHEMA)
        .transform(lambda df: df.withColumn("bucket", F.abs(F.hash("user")) % 3))
    )
    query = run(
        stream.where("amount > 0").key_by("bucket").aggregate(n=agg.count(), s=agg.sum("amount")), sink
    )
    assert "row path" in query.explain()
    rows = spark.read.parquet(str(files)).withColumn("bucket", F.abs(F.hash("user")) % 3).where("amount > 0")
    wanted = native(rows.groupBy("bucket").agg(F.count("*"), F.sum("amount")))
    assert sorted((k[0], r["n"], r["s"]) for k, r in sink.latest("bucket").items()) == wanted


def test_an_expression_that_is_not_proven_goes_to_spark(spark: SparkSession, files: Path, run: Any) -> None:
    sink = hg.sinks.Memory()
    stream = (
        hg.read(spark).files(str(files), schema=SCHEMA).select("user", "sha2(cast(user AS string), 256) AS h")
    )
    query = run(stream.key_by("h").aggregate(n=agg.count()), sink)
    assert "by Spark" in query.explain()
    rows = spark.read.parquet(str(files)).selectExpr("sha2(cast(user AS string), 256) AS h")
    assert sorted((k[0], r["n"]) for k, r in sink.latest("h").items()) == native(rows.groupBy("h").count())


def test_an_expansion_behind_a_gate(spark: SparkSession, files: Path, run: Any) -> None:
    sink = hg.sinks.Memory()
    stream = (
        hg.read(spark)
        .files(str(files), schema=SCHEMA)
        .expand(
            lambda df: df.select("user", F.explode(F.sequence(F.lit(1), F.lit(5))).alias("i")),
            gate=hg.Gate(in_flight=2, batch=400),
        )
    )
    run(stream.key_by("user").aggregate(n=agg.count(), s=agg.sum("i")), sink, max_rows=1000)
    wanted = native(spark.read.parquet(str(files)).groupBy("user").agg(F.count("*") * 5, F.count("*") * 15))
    assert sorted((k[0], r["n"], r["s"]) for k, r in sink.latest("user").items()) == wanted


def test_any_reader_of_spark_by_two_functions(spark: SparkSession, run: Any) -> None:
    def plan(offset: Any, demand: hg.sources.Demand) -> hg.sources.Ranges:
        start = offset or 0
        end = min(start + 40, 100)
        ranges = (hg.sources.Range([start, end], end - start),) if end > start else ()
        return hg.sources.Ranges(ranges, end, more=end < 100)

    sink = hg.sinks.Memory()
    stream = hg.read(spark).reader(plan, lambda s, what: s.range(*what), schema="id long", name="numbers")
    run(stream.select("id % 3 AS k", "id").key_by("k").aggregate(n=agg.count(), s=agg.sum("id")), sink)
    assert {k[0]: r["s"] for k, r in sink.latest("k").items()} == {k: sum(range(k, 100, 3)) for k in range(3)}


# -- life


def test_a_restart_goes_on_where_it_was(spark: SparkSession, files: Path, tmp_path: Path, run: Any) -> None:
    sink = hg.sinks.Parquet(str(tmp_path / "out"))

    def results() -> Any:
        return hg.read(spark).files(str(files), schema=SCHEMA).key_by("user").aggregate(n=agg.count())

    first = run(results(), sink)
    put(files, 9, events(500, 9))
    second = run(results(), sink)
    assert sum(p.rows for p in first.progress) == 4000
    assert sum(p.rows for p in second.progress) == 500
    assert second.progress[0].batch == first.progress[-1].batch + 1
    wanted = native(spark.read.parquet(str(files)).groupBy("user").count())
    assert latest(spark, sink, "user") == wanted


def test_moves_pins_and_a_rescale_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    source, sink = (
        hg.sources.Rows(schema=pa.schema([("k", pa.int64()), ("v", pa.int64())])),
        hg.sinks.Memory(),
    )
    routing = hg.Routing(
        policy="rebuild", channels=3, bins=16, guard=hg.policies.Guard(min_gain=0, cool_down_batches=0)
    )
    operator = hg.Aggregate(n=agg.count(), last=agg.last("v"))  # not combined: skew shows
    results = hg.read(spark).source(source).key_by("k", routing=routing).apply(operator)
    draw, total, last = np.random.default_rng(3), {}, {}
    with results.write(sink).start(str(tmp_path / "ckpt"), durable=False) as query:
        for number in range(8):
            keys = (draw.zipf(1.2, 2000) % 50).tolist()
            for v, k in enumerate(keys):
                total[k], last[k] = total.get(k, 0) + 1, number * 2000 + v
            source.add(pa.table({"k": keys, "v": list(range(number * 2000, number * 2000 + 2000))}))
            query.process_all_available()
            if number == 3:
                query.rescale(5)
        tables = {entry.report.table_version for entry in query.journal()[0]}
        assert query.status().stages[0].table.channels == 5
    assert len(tables) > 2, "the table has changed"
    got = {k[0]: (r["n"], r["last"]) for k, r in sink.latest("k").items()}
    assert got == {k: (total[k], last[k]) for k in total}


def test_a_stopped_query_has_finished_its_batch(spark: SparkSession, tmp_path: Path) -> None:
    sink = hg.sinks.Memory()
    stream = hg.read(spark).rate(rows_per_second=2000).select("value % 5 AS k", "value")
    query = (
        stream.key_by("k")
        .aggregate(n=agg.count(), top=agg.max("value"))
        .write(sink)
        .start(str(tmp_path / "ckpt"), every="100 ms", durable=False)
    )
    while not query.progress:
        time.sleep(0.05)
    query.stop()
    query.stop()
    assert query.state == "stopped"
    assert query.await_end(1)
    counted = {k[0]: (r["n"], r["top"]) for k, r in sink.latest("k").items()}
    rows = sum(p.rows for p in query.progress)
    assert sum(n for n, _ in counted.values()) == rows
    assert max(top for _, top in counted.values()) == rows - 1


def test_an_interrupt_stops_the_query_in_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = hg.read(spark).rate(rows_per_second=100).select("value % 5 AS k")
    query = (
        stream.key_by("k")
        .aggregate(n=agg.count())
        .write(hg.sinks.Memory())
        .start(str(tmp_path / "ckpt"), durable=False)
    )

    def interrupted(*_: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(query, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            query.await_end()
    assert query.state == "stopped"


# -- errors, before the first batch


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
    with pytest.raises(ConfigError, match="PARSE|cannot be read|parse"):
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
        hg.read("local[2]")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="text"):
        rows.where(F.col("amount") > 0)  # type: ignore[arg-type]
    assert not (tmp_path / "ckpt" / "log").exists(), "nothing was written"


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


# -- errors while it runs, and the way on


def failing(
    spark: SparkSession, files: Path, run: Any, sink: Any, stream: Any, kind: Any, match: str
) -> None:
    """The query fails by name; nothing of its batch is there."""
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
    with pytest.raises(SourceFailed, match="0006.parquet.*amount"):
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
