"""Every operator of a direct stream against native Spark, or against the stage, on the same rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark.direct.events import SCHEMA, STATIC, events, latest, native, put

import headgate as hg
from headgate import agg
from headgate.errors import (
    ConfigError,
)
from headgate.spark.session import is_connect
from headgate.stage.stage import KeyedStage
from headgate.testing.engine import InProcess


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
        settings: Any = {
            "operator": operator, "checkpoint": str(tmp_path / f"{name}-stage"), "sink": staged,
            "routing": STATIC, "durable": False,
        }  # fmt: skip
        stage: Any
        if is_connect(spark):  # no stage runs there
            stage = KeyedStage(InProcess(), key=("user",), **settings)
            for number, file in enumerate(sorted(files.iterdir())):
                stage.process(pq.read_table(file), number, None)
        else:
            stage = hg.Stage(key="user", **settings)
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


def test_a_number_that_no_long_can_hold_is_rounded_as_spark_does(spark: SparkSession, run: Any) -> None:
    sink, rows = hg.sinks.Memory(), [{"user": 1, "amount": 1e30}]
    results = (
        hg.read(spark)
        .rows(rows)
        .select("user", "floor(amount) AS whole")
        .key_by("user")
        .aggregate(top=agg.max("whole"))
    )
    try:
        wanted = spark.createDataFrame([(1, 1e30)], "user long, amount double").selectExpr("floor(amount)")
        found = wanted.collect()[0][0]
    except Exception:
        with pytest.raises(hg.errors.HeadgateError, match=r"(?i)overflow|range|no bigint"):
            run(results, sink)
    else:
        run(results, sink)
        assert sink.table().column("top").to_pylist() == [found]


@pytest.mark.classic
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


@pytest.mark.classic
def test_expansions_inside_each_other(spark: SparkSession, files: Path, run: Any) -> None:
    sink = hg.sinks.Memory()

    def twice(row: dict[str, Any]) -> Any:
        yield from ((row["user"], n) for n in (1, 2))

    stream = (
        hg.read(spark)
        .files(str(files), schema=SCHEMA)
        .expand(explode=twice, schema="user long, n long", gate=hg.Gate(in_flight=2, batch=900))
        .expand(
            lambda df: df.select("user", F.explode(F.sequence(F.lit(1), F.col("n"))).alias("i")),
            gate=hg.Gate(in_flight=2, batch=500),
            fan_out="n",
        )
    )
    told: list[hg.Completed] = []
    results = stream.key_by("user", on_complete=told.append).aggregate(n=agg.count(), s=agg.sum("i"))
    assert "behind a gate inside that one" in results.write(sink).explain()
    run(results, sink, max_rows=1000)
    assert [one.source_batch for one in told] == list(range(len(told)))
    assert told[-1].batch == max(sink.batches) > len(told)  # a batch of the source has several waves
    wanted = native(spark.read.parquet(str(files)).groupBy("user").agg(F.count("*") * 3, F.count("*") * 4))
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
