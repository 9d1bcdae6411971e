"""What a direct stream refuses before its first batch, and what a query that has ended refuses."""

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType

import headgate as hg
from headgate import agg
from headgate.errors import CheckpointMismatch, ConfigError, MissingColumn
from headgate.spark.session import is_connect
from headgate.streams import sql_repeatable as sql

ROWS = [{"user": i % 3, "x": i} for i in range(30)]


def counted(stream: Any) -> Any:
    return stream.key_by("user").aggregate(n=agg.count())


@pytest.mark.classic
def test_the_names_of_functions_are_those_of_spark(spark: SparkSession) -> None:
    infos = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    groups: dict[str, set[str]] = {}
    for info in infos:
        groups.setdefault(info.getGroup(), set()).add(info.getName())
    assert groups["agg_funcs"] <= sql.AGGREGATES
    assert groups["window_funcs"] <= sql.WINDOWS
    every = set().union(*groups.values())
    for name in sorted((sql.RANDOM | sql.PLACE) & every):
        arguments = {"shuffle": "array(1, 2)", "uniform": "1, 10", "randstr": "5"}.get(name, "")
        plan = spark.range(1).selectExpr(f"{name}({arguments}) AS y")._jdf.queryExecution().analyzed()
        assert not plan.deterministic(), name


@pytest.mark.classic
def test_functions_that_are_not_repeatable(spark: SparkSession, run: Any) -> None:
    rows = hg.read(spark).rows(ROWS)
    with pytest.raises(ConfigError, match="is random, and a batch that is done again"):
        rows.where("rand() > 0.5")
    spark.udf.register("dice", F.udf(lambda: 4.0, DoubleType()).asNondeterministic())
    with pytest.raises(ConfigError, match=r"select\('user', 'dice.*is not deterministic.*done again"):
        run(counted(rows.select("user", "dice() AS d")))
    run(counted(rows.transform(lambda df: df.withColumn("r", F.rand(1))).select("user", "round(r) AS r")))


def test_many_rows_of_one(spark: SparkSession, run: Any) -> None:
    sink = hg.sinks.Memory()
    run(counted(hg.read(spark).rows(ROWS).select("user", "explode(sequence(1, 4)) AS i")), sink, max_rows=7)
    assert {k[0]: r["n"] for k, r in sink.latest("user").items()} == {0: 40, 1: 40, 2: 40}


def test_things_that_cannot_be_sent_to_tasks(spark: SparkSession, run: Any) -> None:
    lock = threading.Lock()

    def locked(table: pa.Table) -> pa.Table:
        with lock:
            return table

    class Locked(hg.sources.Rows):
        def __getstate__(self) -> dict[str, Any]:
            return {"lock": lock}

    rows = hg.read(spark).rows(ROWS)
    with pytest.raises(ConfigError, match=r"map_batches\(locked\) cannot be sent to the tasks.*lock"):
        run(counted(rows.map_batches(locked)))
    with pytest.raises(ConfigError, match=r"map_batches\(locked\) cannot be sent to the tasks.*lock"):
        run(counted(rows.transform(lambda df: df).map_batches(locked)))
    with pytest.raises(ConfigError, match=r"map_batches\(locked\) cannot be sent to the tasks.*lock"):
        run(counted(rows).map_batches(locked))
    # A session of Connect can be sent, and is not found in the task.
    error = hg.errors.TaskFailed if is_connect(spark) else ConfigError
    with pytest.raises(error, match=r"map_batches.*cannot be sent to the tasks|No active Spark session"):
        run(counted(rows.map_batches(lambda table: table.slice(spark is None))))
    with pytest.raises(ConfigError, match=r"Rows\(user, x\) cannot be sent to the tasks.*lock"):
        run(counted(hg.read(spark).source(Locked(ROWS))))


def test_columns_that_have_one_name(spark: SparkSession, tmp_path: Path, run: Any) -> None:
    rows = hg.read(spark).rows(ROWS)
    with pytest.raises(ConfigError, match=r"transform\(.*\) returns the column 'user' 2 times.*drop one"):
        run(counted(rows.transform(lambda df: df.select("user", "x", "user"))))
    with pytest.raises(ConfigError, match=r"expand\(.*\) returns the column 'x' 2 times"):
        run(counted(rows.expand(lambda df: df.select("user", "x", "x"))))
    clash = rows.key_by("user").aggregate(User=agg.count())
    for sink in (hg.sinks.Parquet(str(tmp_path / "out")), lambda df, batch: None):
        with pytest.raises(ConfigError, match="'user' and 'User', which differ only in case"):
            run(clash, sink)
        with pytest.raises(ConfigError, match="'n' and 'N', which differ only in case"):
            run(counted(rows).key_by("n").aggregate(N=agg.count()), sink)
    run(clash, hg.sinks.Memory())


def test_a_table_without_the_key(spark: SparkSession, run: Any) -> None:
    rows = hg.read(spark).rows(ROWS)
    names = spark.createDataFrame([(1, "ann")], "id long, name string")
    with pytest.raises(MissingColumn, match=r"the table has no key column 'user'; it has 'id', 'name'.*on="):
        run(rows.key_by("user").join(names))
    sink = hg.sinks.Memory()
    run(rows.key_by("user").join(names, on="id"), sink)
    assert sink.table().num_rows == 10


def test_arguments_that_are_missing_or_of_another_type(spark: SparkSession) -> None:
    rows = hg.read(spark).rows(ROWS)
    keyed = rows.key_by("user")
    with pytest.raises(ConfigError, match=r"top.*missing a required.*'by'; write top\(3, by='amount'"):
        keyed.top(2)
    with pytest.raises(ConfigError, match=r"windows.*missing a required.*write windows\(hg.tumbling"):
        keyed.windows(hg.tumbling("1 minute"))
    with pytest.raises(ConfigError, match=r"history.*'of'; write history"):
        keyed.history(2, "mean")
    with pytest.raises(ConfigError, match=r"dedup.*unexpected.*'by'; write dedup"):
        keyed.dedup(by="x")
    with pytest.raises(ConfigError, match=r"join.*unexpected.*'side'; write join"):
        keyed.join(spark.range(1), side="left")
    with pytest.raises(ConfigError, match="time=7: name one column"):
        keyed.join(rows.key_by("user"), time=7)
    with pytest.raises(ConfigError, match=r"reader\(None"):
        hg.read(spark).reader(None, None, schema="id long", name="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"names no folder"):
        hg.read(spark).files(None)  # type: ignore[arg-type]


def test_a_query_that_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    query = counted(hg.read(spark).rows(ROWS)).write(hg.sinks.Memory()).start(str(tmp_path / "ckpt"))
    with pytest.raises(ConfigError, match=r"await_end\('1 s'\) takes a number of seconds"):
        query.await_end("1 s")
    query.process_all_available()
    query.stop()
    for change in (lambda: query.rescale(2), lambda: query.grant("1MB"), lambda: query.reclaim("1MB")):
        with pytest.raises(ConfigError, match=r"does not run any more \(stopped\): start it again"):
            change()
    with pytest.raises(ConfigError, match="was stopped, so rows may be left: start it again"):
        query.process_all_available()
    assert query.status().state == "stopped"


def test_other_keys_or_another_output_on_the_same_checkpoint(
    spark: SparkSession, tmp_path: Path, run: Any
) -> None:
    rows, out = hg.read(spark).rows(ROWS), hg.sinks.Parquet(str(tmp_path / "out"))
    two = counted(rows).key_by("n").aggregate(users=agg.count())
    three = two.key_by("users").aggregate(times=agg.count())
    run(two, out)
    with pytest.raises(CheckpointMismatch, match="a query with 2 keys, and this one has 3"):
        run(three, out)
    with pytest.raises(CheckpointMismatch, match=r"lies in .*/out, and this query names .*/other"):
        run(two, hg.sinks.Parquet(str(tmp_path / "other")))
    run(two, out)
    done = three.write(hg.sinks.Memory()).start(str(tmp_path / "three"), available_now=True)
    done.await_end()
    with pytest.raises(CheckpointMismatch, match=r"a query with (3|more) keys, and this one has 2"):
        two.write(hg.sinks.Memory()).start(str(tmp_path / "three"))
