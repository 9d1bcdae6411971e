"""No column vanishes: every operator that emits rows carries every type that Spark has. The few that cannot be carried raise an error."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.testing.objects import PythonOnlyPoint, PythonOnlyUDT
from tests.spark.test_pins import OPEN
from tests.spark.test_random_flow import Whim
from tests.spark.typed_rows import COLUMNS, typed_rows

import headgate as hg
from headgate import agg
from headgate.spark.types import arrow_schema
from headgate.spark.versions import reads_times_of_day
from headgate.state.payload import check_carried


@pytest.fixture(scope="module")
def frame(spark: Any) -> DataFrame:
    return typed_rows(spark)


def kinds(frame: DataFrame) -> dict[str, str]:
    return {f.name: f.dataType.simpleString() for f in frame.schema}


def shown(frame: DataFrame, *names: str) -> list[str]:
    """Rows as text, every value spelled out in the same way whoever made it."""
    columns = [
        F.expr(f"to_json(`{n}`)") if kinds(frame)[n] == "variant" else F.col(n).cast("string").alias(n)
        for n in (names or frame.columns)
    ]
    return sorted(json.dumps(list(row)) for row in frame.select(*columns).collect())


class Taken:
    """A sink that keeps what it is given, as Spark shows it."""

    def __init__(self) -> None:
        self.frames: list[DataFrame] = []

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.frames.append(rows.localCheckpoint())


def test_dedup_passes_every_type_as_native_spark_does(frame: DataFrame, make_stage: Any) -> None:
    taken = Taken()
    stage = make_stage(hg.Dedup(), sink=taken)
    stage(frame, 0)
    stage(frame, 1)
    first, again = taken.frames
    native = frame.where("i < 4")  # what dropDuplicates keeps of one ordered partition
    assert kinds(first) == kinds(frame)
    assert shown(first) == shown(native)
    assert again.count() == 0
    assert kinds(again) == kinds(frame)


def test_native_spark_keeps_the_same_columns(frame: DataFrame) -> None:
    assert kinds(frame.dropDuplicates(["k"])) == kinds(frame)


def test_a_parquet_sink_is_read_back_with_the_stream_s_own_types(
    spark: Any, frame: DataFrame, make_stage: Any, tmp_path: Path
) -> None:
    stage = make_stage(hg.Dedup(), sink=hg.sinks.Parquet(str(tmp_path / "out")))
    stage(frame, 0)
    back = spark.read.parquet(str(tmp_path / "out")).drop("batch")
    assert kinds(back) == kinds(frame)
    assert shown(back) == shown(frame.where("i < 4"))


def test_a_memory_sink_has_arrow_s_types(frame: DataFrame, make_stage: Any) -> None:
    stage = make_stage(hg.Dedup(keep=["tags", "pos", "attrs", "gap", "nothing"]))
    stage(frame, 0)
    table = stage.sink.table().sort_by("k")
    assert table.schema.field("tags").type == pa.list_(pa.field("element", pa.string()))
    assert table.column("tags").to_pylist() == [None, [], ["a", None], ["b", "c"]]
    assert table.column("attrs").to_pylist()[1] == [("k", 1), ("j1", None)]
    assert table.column("pos").to_pylist()[0] == {"x": 0.0, "label": None}
    assert table.column("gap").to_pylist()[1] == dt.timedelta(hours=1)
    assert table.column("nothing").null_count == 4


def test_state_keeps_every_type_over_a_restart(frame: DataFrame, make_stage: Any) -> None:
    """TopK's lists are state: what it emits in the second batch was kept through the restart."""
    taken = Taken()
    stage = make_stage(hg.TopK(2, by="i"), sink=taken)
    stage(frame.where("i < 8"), 0)
    stage = make_stage(hg.TopK(2, by="i"), sink=taken)
    stage(frame.where("i >= 8"), 1)
    assert shown(taken.frames[1].drop("rank")) == shown(frame.where("i >= 4"))
    assert kinds(taken.frames[1].drop("rank")) == kinds(frame)


def test_first_and_last_and_count_take_any_type(frame: DataFrame, make_stage: Any) -> None:
    taken = Taken()
    aggregates = {f"f_{n}": agg.first(n) for n in COLUMNS} | {f"l_{n}": agg.last(n) for n in COLUMNS}
    counts = {f"n_{n}": agg.count(n) for n in COLUMNS}
    stage = make_stage(hg.Aggregate(**aggregates, **counts), sink=taken)
    stage(frame.where("i < 6"), 0)
    stage(frame.where("i >= 6"), 1)
    (got,) = [taken.frames[1]]
    native = frame.groupBy("k").agg(*(F.count(n).alias(f"n_{n}") for n in COLUMNS))
    assert shown(got, "k", *(f"n_{n}" for n in COLUMNS)) == shown(native)
    firsts = got.select("k", *(F.col(f"f_{n}").alias(n) for n in COLUMNS))
    lasts = got.select("k", *(F.col(f"l_{n}").alias(n) for n in COLUMNS))
    assert shown(firsts) == shown(frame.where("i < 4").select("k", *COLUMNS))
    assert shown(lasts) == shown(frame.where("i >= 8").select("k", *COLUMNS))
    assert {n: k for n, k in kinds(firsts).items() if n != "k"} == {n: kinds(frame)[n] for n in COLUMNS}


def test_both_sides_of_a_hash_join_keep_their_columns(frame: DataFrame, make_stage: Any) -> None:
    build = frame.where("i < 4").select("k", *(F.col(n).alias(f"b_{n}") for n in COLUMNS))
    taken = Taken()
    stage = make_stage(hg.HashJoin(build, how="left"), sink=taken)
    probe = frame.where("i < 3").unionAll(frame.where("i = 3").withColumn("k", F.lit(99).cast("long")))
    stage(probe, 0)
    native = probe.join(build, "k", "left")
    assert kinds(taken.frames[0]) == kinds(native)
    assert shown(taken.frames[0]) == shown(native)
    stage.refresh(build.where("k = 1").withColumn("b_tags", F.array(F.lit("new"))))
    stage(frame.where("i = 1"), 1)
    (row,) = taken.frames[1].select("b_tags", "b_attrs").collect()
    assert (row.b_tags, row.b_attrs) == (["new"], {"k": 1, "j1": None})


def test_a_stream_join_keeps_the_columns_of_rows_that_waited(frame: DataFrame, make_stage: Any) -> None:
    left, right = (
        frame.where("i < 4"),
        frame.where("i >= 8").withColumn("t", F.expr("t - interval 8 minutes")),
    )
    taken = Taken()
    stage = make_stage(hg.Join(after="1 hour", delay="1 day"), sink=taken)
    both = hg.two_streams(left, right, key="k", time="t")
    stage(both.where("side = 0"), 0)
    stage(both.where("side = 1"), 1)
    native = left.select("k", *(F.col(n).alias(f"left_{n}") for n in left.columns if n != "k")).join(
        right.select("k", *(F.col(n).alias(f"right_{n}") for n in right.columns if n != "k")), "k"
    )
    assert kinds(taken.frames[1]) == kinds(native)
    assert shown(taken.frames[1]) == shown(native)


@hg.kernel(state={"n": int}, output={"nth": int}, keep=list(COLUMNS))
def nth(state, row):
    state.n += 1
    return state.n


@hg.kernel(state={"span": dt.timedelta}, output={"longest": float}, keep=["tags"], on="t", delay="0 s")
def longest(state, row):
    state.span = max(state.span, row.gap)
    return state.span.total_seconds()


def test_a_kernel_keeps_every_type(frame: DataFrame, make_stage: Any) -> None:
    taken = Taken()
    make_stage(nth, sink=taken)(frame, 0)
    got = taken.frames[0]
    assert shown(got.drop("nth")) == shown(frame.select("k", *COLUMNS))
    assert kinds(got.drop("nth")) == kinds(frame.select("k", *COLUMNS))


def test_a_kernel_reads_day_time_intervals(frame: DataFrame, make_stage: Any) -> None:
    stage = make_stage(longest)
    stage(frame, 0)
    assert max(stage.sink.table().column("longest").to_pylist()) == 11 * 3600


def test_rows_that_wait_in_files_keep_every_type(frame: DataFrame, make_stage: Any) -> None:
    taken = Taken()
    stage = make_stage(
        hg.HistoryWindow(2, "mean", of="i", keep=list(COLUMNS)), sink=taken, channels=1, memory=1, turn_ms=0
    )
    stage(frame.where("i < 4"), 0)
    stage(frame.where("i >= 4"), 1)
    waiting = [sum(one.backlog_rows for one in stage.journal()[-1].report.channels)]
    for batch in range(2, 20):
        if not waiting[-1]:
            break
        stage(frame.where("i < 0"), batch)
        waiting.append(sum(one.backlog_rows for one in stage.journal()[-1].report.channels))
    assert waiting[0] > 0, "bins take turns, so some rows were to wait"
    assert waiting[-1] == 0
    rows = taken.frames[0]
    for more in taken.frames[1:]:
        rows = rows.unionAll(more)
    assert shown(rows.drop("mean")) == shown(frame.select("k", *COLUMNS))


def test_rows_put_aside_keep_every_type(frame: DataFrame, make_stage: Any) -> None:
    aside = Taken()
    stage = make_stage(hg.Dedup(on="t", delay="0 s"), aside=aside)
    stage(frame.where("i >= 8"), 0)
    stage(frame.where("i = 11"), 1)
    stage(frame.where("i < 2"), 2)
    late = aside.frames[2].drop("reason")
    assert kinds(late) == kinds(frame.select(*late.columns))
    assert set(late.columns) == set(frame.columns)
    assert shown(late) == shown(frame.where("i < 2").select(*late.columns))


def test_a_split_key_is_counted_whatever_its_rows_carry(frame: DataFrame, make_stage: Any) -> None:
    """Rows are spread by a hash of all their columns but those that Spark cannot hash."""
    stage = make_stage(
        hg.Aggregate(n=agg.count("tags"), m=agg.count("attrs"), most=agg.max("gap")),
        policy=Whim(1, splits=True),
        guard=OPEN,
    )
    split = False
    for batch in range(6):
        stage(frame, batch)
        split |= bool(stage.opened.loop.table.splits)
    assert split
    rows = {key[0]: (row["n"], row["m"], row["most"]) for key, row in stage.sink.latest("k").items()}
    hours = [dt.timedelta(hours=8 + k) for k in range(4)]
    assert rows == {
        0: (0, 12, hours[0]),
        1: (18, 12, hours[1]),
        2: (18, 12, hours[2]),
        3: (18, 18, hours[3]),
    }


def test_windows_keep_first_values(frame: DataFrame, make_stage: Any) -> None:
    stage = make_stage(
        hg.Windows(
            hg.tumbling("1 day"),
            on="t",
            delay="0 s",
            emit="update",
            tags=agg.first("tags"),
            n=agg.count("pos"),
        )
    )
    stage(frame, 0)
    rows = {r["k"]: (r["tags"], r["n"]) for r in stage.sink.table().to_pylist()}
    assert rows == {0: (None, 3), 1: ([], 3), 2: (["a", None], 3), 3: (["b", "c"], 3)}


def test_a_function_over_tables_is_given_arrow_s_own_types(frame: DataFrame, make_stage: Any) -> None:
    kind = pa.list_(pa.field("element", pa.string()))

    def last_tags(state: pa.Table, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        assert rows.schema.field("tags").type == kind
        newest = {row["k"]: row["tags"] for row in rows.to_pylist()}
        kept = pa.table({"k": pa.array(newest, pa.int64()), "tags": pa.array(newest.values(), kind)})
        return kept, state.select(["k", "tags"])

    stage = make_stage(
        hg.Vectorised(
            last_tags, state={"tags": kind}, output={"k": pa.int64(), "tags": kind}, reads=["tags", "pos"]
        )
    )
    stage(frame.where("i >= 4 and i < 8"), 0)
    stage(frame.where("i >= 8"), 1)
    before = stage.sink.batches[1].sort_by("k").to_pylist()
    assert [(r["k"], r["tags"]) for r in before] == [(0, None), (1, []), (2, ["a", None]), (3, ["b", "c"])]


def test_a_pipeline_hands_types_on(frame: DataFrame, make_stage: Any, tmp_path: Path) -> None:
    taken = Taken()
    first = hg.Stage(
        key="k", operator=nth, checkpoint=str(tmp_path / "one"), routing=hg.Routing(channels=2), durable=False
    )
    second = make_stage(hg.TopK(1, by="nth"), sink=taken)
    hg.Pipeline(first, second)(frame, 0)
    assert shown(taken.frames[0].drop("rank", "nth")) == shown(frame.where("i >= 8").select("k", *COLUMNS))
    assert kinds(taken.frames[0].drop("rank", "nth")) == kinds(frame.select("k", *COLUMNS))


def test_moves_and_waves_keep_types(frame: DataFrame, make_stage: Any) -> None:
    names = ["tags", "pos", "attrs", "deep", "doc", "name", "gap"]
    taken = Taken()
    stage = make_stage(hg.TopK(2, by="i", keep=["i", *names]), sink=taken, gate=hg.Gate(in_flight=1, batch=5))
    stage(frame.where("i < 8"), 0)
    stage.rescale(2)
    stage(frame.where("i < 0"), 1)
    before = len(taken.frames)
    stage(frame.where("i >= 8"), 2)
    last: dict[int, list[Any]] = {}
    for some in taken.frames[before:]:
        by_key: dict[int, list[Any]] = {}
        for row in some.select("k", "i", *names[:4]).collect():
            by_key.setdefault(row.k, []).append(row)
        last |= by_key
    wanted = frame.where("i >= 4").select("k", "i", *names[:4]).collect()
    assert sorted(repr(row) for rows in last.values() for row in rows) == sorted(map(repr, wanted))


def test_types_of_users_are_carried(spark: Any, make_stage: Any) -> None:
    schema = T.StructType([
        T.StructField("k", T.LongType()),
        T.StructField("i", T.IntegerType()),
        T.StructField("p", PythonOnlyUDT()),
        T.StructField("ps", T.ArrayType(PythonOnlyUDT())),
    ])  # fmt: skip
    a, b = PythonOnlyPoint(1.0, 2.0), PythonOnlyPoint(3.0, 4.0)
    frame = spark.createDataFrame([(1, 1, a, [a, b]), (2, 2, None, None)], schema)
    taken = Taken()
    stage = make_stage(hg.TopK(3, by="i"), sink=taken)
    stage(frame, 0)
    stage(frame.where("k = 1"), 1)
    rows = taken.frames[1].collect()
    assert [(r.p, r.ps) for r in rows] == [(a, [a, b]), (a, [a, b])]
    assert taken.frames[1].schema["p"].dataType == PythonOnlyUDT()


def test_vectors_of_ml_are_carried(spark: Any, make_stage: Any) -> None:
    rows = [(1, Vectors.dense([1.0, 2.0])), (2, Vectors.sparse(3, [1], [5.0]))]
    taken = Taken()
    make_stage(hg.Dedup(), sink=taken)(spark.createDataFrame(rows, ["k", "v"]), 0)
    assert sorted((r.k, r.v) for r in taken.frames[0].collect()) == rows


def test_time_of_day_is_refused_where_spark_reads_it_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = T.StructType(
        [T.StructField("k", T.LongType()), T.StructField("ats", T.ArrayType(T.TimeType(3)))]
    )
    monkeypatch.setattr(pyspark, "__version__", "4.2.1")
    with pytest.raises(
        hg.errors.UnsupportedType, match=r"'ats' has type array<time\(3\)>, and in it time\(3\)"
    ):
        check_carried(arrow_schema(schema, key=("k",)).field("ats").type)
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    check_carried(arrow_schema(schema, key=("k",)).field("ats").type)


@pytest.mark.skipif(not reads_times_of_day(), reason="this Spark reads times of day wrongly")
def test_time_of_day_is_carried_where_spark_has_it(spark: Any, make_stage: Any) -> None:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        frame = spark.sql(
            "select 1L as k, time'12:34:56.789' as at, array(cast('01:02:03.004' as time(3))) as ats"
        )
        taken = Taken()
        make_stage(hg.Aggregate(at=agg.last("at"), ats=agg.last("ats")), sink=taken)(frame, 0)
        assert kinds(taken.frames[0]) == kinds(frame)
        assert shown(taken.frames[0]) == shown(frame)
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")


def test_day_time_intervals_can_be_keys(frame: DataFrame, make_stage: Any) -> None:
    stage = make_stage(hg.Aggregate(n=agg.count(), most=agg.max("gap")), key="gap")
    stage(frame.withColumn("gap", F.expr("make_dt_interval(0, i % 3)")), 0)
    assert sorted(stage.sink.table().to_pylist(), key=lambda r: r["gap"]) == [
        {"gap": dt.timedelta(hours=h), "n": 4, "most": dt.timedelta(hours=h)} for h in range(3)
    ]
