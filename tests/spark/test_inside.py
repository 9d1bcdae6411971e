"""Each interface of Spark's inside is taken away, and the fallback does what `headgate.spark.inside` says."""

import importlib.util
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate import agg
from headgate.errors import CheckpointMismatch
from headgate.spark import inside, session
from headgate.spark.anchor import executors
from headgate.spark.direct.step_checks import check_deterministic, check_pickles, check_rounding
from headgate.spark.groups import by_groups
from headgate.spark.shuffle import Carried, carried
from headgate.streams.planned import Input
from headgate.streams.sql_step import NotColumnar

STATIC = hg.Routing(policy="static", channels=3, bins=16)
ROWS = [{"user": i % 3, "amount": float(i)} for i in range(30)]
TOTALS = {0: (10, 135.0), 1: (10, 145.0), 2: (10, 155.0)}


class Without:
    """An object without some attributes."""

    def __init__(self, real: Any, *names: str) -> None:
        self.real, self.names = real, names

    def __getattr__(self, name: str) -> Any:
        if name in self.names:
            raise AttributeError(name)
        return getattr(self.real, name)


@pytest.mark.classic
def test_without_the_status_tracker_there_is_one_executor(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(spark.sparkContext, "_jsc")
    monkeypatch.setattr(type(spark.sparkContext), "_jsc", property(_gone), raising=False)
    assert executors(spark) == 1
    assert carried(spark, "group") == Carried(0, 0)


def _gone(_: Any) -> Any:
    raise AttributeError("_jsc")


@pytest.mark.classic
def test_a_method_that_the_jvm_lacks_is_a_missing_interface(spark: Any) -> None:
    java = spark.sparkContext._jsc.sc()
    assert inside._or_none(lambda: java.noSuchMethod()) is None
    with pytest.raises(Exception, match="Illegal Capacity"):  # the interface is there, and failed
        inside._or_none(lambda: spark._jvm.java.util.ArrayList(-1))


@pytest.mark.classic
def test_what_spark_counts_is_told(spark: Any) -> None:
    spark.sparkContext.setJobGroup("counted", "a test")
    try:
        spark.range(0, 100, 1, 2).repartition(3).collect()
        written = inside.shuffle_writes(spark, "counted")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert written is not None
    assert written[0] > 0
    assert written[1] == 100
    assert carried(spark, "no such group") == Carried(0, 0)


@pytest.mark.classic
def test_without_the_plan_a_function_counts_as_repeatable(spark: Any) -> None:
    random = spark.range(3).selectExpr("rand() AS r")
    assert inside.is_deterministic(random) is False
    with pytest.raises(hg.errors.ConfigError, match="not deterministic"):
        check_deterministic(random, "step")
    blind: Any = Without(random, "_jdf")
    assert inside.is_deterministic(blind) is None
    check_deterministic(blind, "step")
    with pytest.raises(hg.errors.ConfigError, match="is random"):
        hg.read(spark).rows(ROWS).where("rand() > 0.5")


@pytest.mark.classic
def test_without_the_listener_of_event_logs_the_settings_are_named(spark: Any, tmp_path: Path) -> None:
    blind: Any = Without(spark, "_jvm")
    with pytest.raises(
        hg.errors.ConfigError, match=r"start the application with spark\.eventLog\.enabled=true"
    ):
        inside.add_event_log(blind, tmp_path)


@pytest.mark.classic
def test_without_call_sites_stages_keep_sparks_names(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import traceback_utils

    monkeypatch.delattr(traceback_utils, "SCCallSiteSync")
    with inside.stage_name(spark, "a name", building=True):
        assert spark.range(3).count() == 3


@pytest.mark.classic
def test_the_range_of_rounding_is_asked_for_once(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Session:
        def __init__(self, raises: bool) -> None:
            self.raises = raises

        def sql(self, text: str) -> Any:
            asked.append(text)
            return spark.sql("SELECT 1 / 0 AS f" if self.raises else "SELECT 1 AS f")

    for raises in (True, False):
        session = Session(raises)
        assert inside.checks_rounding(session) is raises
        assert inside.checks_rounding(session) is raises
        if not raises:
            with pytest.raises(NotColumnar, match="does not check the range"):
                check_rounding(session, ["Ceil (x) AS y"])
        check_rounding(session, ["x + 1"])
    assert len(asked) == 2


def test_without_a_gateway_of_its_own_the_session_starts_the_jvm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from pyspark import SparkContext

    monkeypatch.delattr(SparkContext, "_ensure_initialized")
    with caplog.at_level(logging.INFO, "headgate.stage"):
        inside.start_jvm({}, tmp_path / "log")
    assert "no way to send the output" in caplog.text
    assert not (tmp_path / "log").exists()


def test_without_a_daemon_module_the_setting_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert inside.WORKER_DAEMON in session.wanted_settings()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert set(session.SETTINGS) - set(session.wanted_settings()) == {inside.WORKER_DAEMON}


def test_without_its_function_the_daemon_runs_as_a_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "pyspark" / "daemon.py").write_text("if __name__ == '__main__':\n    print('a daemon')\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    inside.run_worker_daemon()
    assert capsys.readouterr().out == "a daemon\n"
    for name in ("pyspark", "pyspark.daemon"):
        sys.modules.pop(name, None)


def test_without_sparks_pickle_nothing_is_checked_before_the_first_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyspark import cloudpickle

    class Locked(hg.sources.Rows):
        def __getstate__(self) -> Any:
            return self.__dict__  # with the lock

    source = Locked(ROWS)
    with pytest.raises(hg.errors.ConfigError, match="cannot be pickled"):
        check_pickles(Input(source))
    monkeypatch.delattr(cloudpickle, "dumps")
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    assert inside.pickled(len) is None
    check_pickles(Input(source))


@pytest.mark.classic
def test_without_the_querys_id_a_stage_goes_on_by_hand_and_refuses_a_checkpoint_with_one(
    spark: Any, make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.createDataFrame([(1, 2)], "k long, v long")
    spark.sparkContext.setLocalProperty(inside._QUERY_ID, "query-1")
    try:
        make_stage(hg.Aggregate(n=agg.count()))(rows, 0)
        monkeypatch.setattr(inside, "_QUERY_ID", "another.name")
        with pytest.raises(CheckpointMismatch, match="query-1"):
            make_stage(hg.Aggregate(n=agg.count()))(rows, 1)
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)


def test_without_a_task_context_an_attempt_has_a_name_of_its_own() -> None:
    (nowhere, one), (_, other) = inside.task_attempt(), inside.task_attempt()
    assert nowhere is None
    assert one != other


@pytest.mark.classic
@pytest.mark.parametrize("way", ["columnar", "row path"])
def test_without_partitions_by_number_channels_are_groups(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    from headgate.spark import job
    from headgate.spark.direct import job as direct_job

    monkeypatch.setattr(direct_job, "executors", lambda _: 2)  # the way of DataFrames, as with Connect
    monkeypatch.setitem(inside._places, spark, False)
    grouped: list[int] = []

    def seen(*given: Any) -> Any:
        grouped.append(1)
        return by_groups(*given)

    for module in (job, direct_job):
        monkeypatch.setattr(module, "by_groups", seen)
    monkeypatch.setattr(direct_job.DirectJob, "run_alone", _with_an_exchange)
    stream = hg.read(spark).rows(ROWS)
    if way == "row path":
        stream = stream.transform(
            lambda df: df.withColumnRenamed("amount", "a").withColumnRenamed("a", "amount")
        )
    sink = hg.sinks.Memory()
    results = (
        stream.key_by("user", routing=STATIC).aggregate(n=agg.count(), total=agg.sum("amount")).write(sink)
    )
    results.start(str(tmp_path / "c"), available_now=True, durable=False, max_rows=15).await_end()
    assert {key[0]: (row["n"], row["total"]) for key, row in sink.latest("user").items()} == TOTALS
    assert len(grouped) >= 2, "each batch"


def _with_an_exchange(self: Any, map_task: Any, ranges: Any, task: Any, watch: Any) -> Any:
    return self.run(map_task, [[(number, part)] for number, part in enumerate(ranges)], task, watch)


@pytest.mark.classic
def test_an_engine_that_refuses_partitions_by_number_is_asked_once(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import UnsupportedOperationException

    from headgate.spark.anchor import Anchor
    from headgate.spark.job import reports

    monkeypatch.delitem(inside._places, spark, raising=False)
    tried: list[int] = []

    def refuse(*_: Any) -> Any:
        tried.append(1)
        raise UnsupportedOperationException("direct shuffle partition ID expression")

    monkeypatch.setattr(type(spark.range(1)), "repartitionById", refuse)

    def answer() -> Any:
        return spark.createDataFrame([(json.dumps({"channel": 0}),)], "report string")

    def placed(_: Any) -> Any:
        return spark.range(1).repartitionById(1, "id")

    for _ in range(2):
        assert reports(spark, Anchor(), 1, placed, batch=0, grouped=answer) == [{"channel": 0}]
    assert len(tried) == 2, "the job, and the question"
    with pytest.raises(hg.errors.TaskFailed, match="direct shuffle partition ID"):
        reports(spark, Anchor(), 1, placed, batch=0)
    del inside._places[spark]


@pytest.mark.classic
def test_without_the_call_site_stages_are_named_by_lines_of_code(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside, "_found", lambda module, name: None)
    with inside.stage_name(spark, "read and route", building=True):
        pairs = spark.sparkContext.parallelize([(0, "a"), (1, "b")], 2).partitionBy(2)
    assert sorted(pairs.collect()) == [(0, "a"), (1, "b")]


@pytest.mark.classic
def test_placed_rows_are_partitioned_as_the_pattern_and_need_no_job(spark: Any) -> None:
    apart = spark.newSession()
    apart.conf.set("spark.sql.adaptive.enabled", "false")
    pattern = apart.range(3).selectExpr("CAST(id AS INT) AS c").repartitionById(3, "c")
    placed = inside.placed_rows(apart, pattern, ["executor_h_0", "executor_h_1", "executor_h_0"])
    assert placed is not None, "this Spark has the interface"
    assert sorted(row.c for row in placed.collect()) == [0, 1, 2]
    assert placed.rdd.glom().map(len).collect() == [1, 1, 1]
    rows = apart.range(0, 30, 1, 2).selectExpr("CAST(id % 3 AS INT) AS c").repartitionById(3, "c")
    joined = rows.join(placed.hint("shuffle_hash"), "c")
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange") == 1, plan
    assert joined.count() == 30


@pytest.mark.classic
def test_without_the_interface_no_rows_are_placed(spark: Any) -> None:
    assert inside.placed_rows(object(), spark.range(1), ["executor_h_0"]) is None
    assert inside.executor_ids(object()) == ()
    assert inside.executor_locations(object(), ["0"]) == ()
