"""What a user of Spark writes from habit: it works, or it is refused at the call with what to write instead."""

import inspect
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate import agg
from headgate.errors import ConfigError


def test_columns_by_name_or_as_columns(spark: Any, make_stage: Any, feed: Any) -> None:
    frame = spark.createDataFrame([(1, 2)], "k long, v long")
    operator = hg.Aggregate(total=agg.sum(F.col("v")), mean=agg.avg(frame["v"]), n=agg.count())
    stage = make_stage(operator, key=F.col("k"))
    feed(stage, [[(1, 2), (1, 4)]])
    assert stage.sink.batches[0].to_pylist() == [{"k": 1, "total": 6, "mean": 3.0, "n": 2}]
    assert make_stage(operator, key=[F.col("k"), "v"]).key == ("k", "v")
    assert hg.TopK(2, by=F.col("v")).by == "v"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda make_stage: make_stage(hg.Aggregate(n=agg.count()), key=F.col("k") + 1),
            "compute it before the stage",
        ),
        (lambda make_stage: agg.sum(F.upper("v")), "compute it before the stage"),
        (lambda make_stage: agg.count_distinct("v"), "hg.Dedup"),
        (lambda make_stage: hg.Aggregate(agg.count()), r"write Aggregate\(n=agg\.count\(\)\)"),
        (lambda make_stage: make_stage(hg.Aggregate(n=agg.count()), key=3), "not the name of a column"),
    ],
)
def test_what_cannot_work_is_refused_at_the_call(make: Any, said: str, make_stage: Any, spark: Any) -> None:
    with pytest.raises(ConfigError, match=said):
        make(make_stage)


def test_a_pipeline_has_all_that_a_stage_has(tmp_path: Any, spark: Any) -> None:
    def public(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}

    inner = {
        "process",
        "resume",
        "committed",
        "compaction",
        "check_channels",
        "channels_of",
    }  # what the parts of a stage call
    assert public(hg.Stage) - inner <= public(hg.Pipeline)


def test_a_pipeline_passes_on_what_it_is_told(make_stage: Any, feed: Any, tmp_path: Any, spark: Any) -> None:
    names = spark.createDataFrame([(1, "one")], "k long, name string")
    first = make_stage(hg.HashJoin(build=names), sink=None, checkpoint=str(tmp_path / "1"), memory="1MB")
    second = make_stage(hg.Aggregate(n=agg.count()), checkpoint=str(tmp_path / "2"))
    pipeline = hg.Pipeline(first, second)
    feed(pipeline, [[(1, 1), (2, 2)]])
    pipeline.rescale(2, stage=1)
    pipeline.grant("1MB", stage=0)
    pipeline.reclaim("1MB", 0, stage=0)
    pipeline.refresh(spark.createDataFrame([(2, "two")], "k long, name string"))
    feed(pipeline, [[(1, 1), (2, 2)], [(2, 3)]], start=1)
    assert [status.table.channels for status in pipeline.status() if status.table] == [3, 2]
    assert [len(journal) for journal in pipeline.journal()] == [3, 3]
    assert second.sink.latest("k")[(2,)]["n"] == 2
    assert "Aggregate" in pipeline.explain()
    assert pipeline.takes(1) is None
    with pytest.raises(ConfigError, match="there is no stage 2"):
        pipeline.rescale(2, stage=2)
    with pytest.raises(ConfigError, match="no stage has a build side"):
        pipeline.refresh(names, stage=1)
