"""What cannot work is refused in words of ours: waves inside of a stage's step, and Spark Connect."""

import functools

import pytest
from pyspark.sql import SparkSession
from tests.spark.stages import stage_of

import headgate as hg
from headgate.errors import ConfigError
from headgate.spark.warm_up import warm_up


def stage(tmp_path, **more):
    return stage_of(
        key="k",
        operator=hg.Aggregate(n=hg.agg.count()),
        checkpoint=str(tmp_path / "state"),
        sink=lambda rows, batch: None,
        channels=2,
        **more,
    )


@pytest.fixture
def rows(spark):
    return spark.createDataFrame([(1,), (2,)], "k long")


@pytest.mark.parametrize("gate", [None, hg.Gate(in_flight=1, batch=10)], ids=["at once", "behind a gate"])
@pytest.mark.parametrize("whole", [True, False], ids=["by partial", "by a function"])
def test_a_step_that_returns_bounded_is_told_to_use_the_stages_gate(rows, tmp_path, gate, whole) -> None:
    def twice(df):
        return df.union(df)

    step = functools.partial(hg.bounded, expand=twice, batch=1) if whole else lambda df: hg.bounded(df, twice)
    made = stage(tmp_path, step=step, gate=gate)
    with pytest.raises(ConfigError, match=r"the step returned the result of hg\.bounded.*gate=hg\.Gate"):
        made(rows, 0)


def test_the_result_of_bounded_is_no_step(rows, tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"the step is the result of hg\.bounded.*gate=hg\.Gate"):
        stage(tmp_path, step=hg.bounded(rows, lambda df: df))


def test_a_step_that_returns_no_dataframe_is_told_what_it_returned(rows, tmp_path) -> None:
    with pytest.raises(ConfigError, match="must return a DataFrame, and returned NoneType"):
        stage(tmp_path, step=lambda df: None)(rows, 0)


class OfConnect:
    """What `SparkSession.builder.remote(...)` makes, as far as its class can be seen."""

    __module__ = "pyspark.sql.connect.session"


def test_spark_connect_is_refused_when_the_stage_is_made(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: OfConnect())
    with pytest.raises(ConfigError, match=r"Spark Connect.*hg\.read.*builder\.master"):
        stage(tmp_path)
    with pytest.raises(ConfigError, match="Spark Connect"):
        warm_up()


def test_spark_connect_is_refused_in_the_first_batch_and_by_bounded(rows, tmp_path, monkeypatch) -> None:
    made = stage(tmp_path)
    monkeypatch.setattr(type(rows), "sparkSession", property(lambda self: OfConnect()))
    with pytest.raises(ConfigError, match="Spark Connect"):
        made(rows, 0)
    with pytest.raises(ConfigError, match="Spark Connect"):
        hg.bounded(rows, lambda df: df)
