"""A stage in foreachBatch that is watched, beside what Spark's own listeners see."""

import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener
from tests.observe.test_samples import read

import headgate as hg
from headgate import agg
from headgate.observe import Event, QueryEvent
from headgate.observe.export.port import Port

pytestmark = pytest.mark.classic


class Heard(StreamingQueryListener):
    def __init__(self) -> None:
        self.progress = list[Any]()

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        self.progress.append(event.progress)

    def onQueryTerminated(self, event: Any) -> None:
        pass


def test_a_stage_tells_its_listeners_and_a_port(make_stage: Any, feed: Any) -> None:
    heard, port = list[QueryEvent](), Port(0, host="127.0.0.1")
    stage = make_stage(hg.Aggregate(n=agg.count()), name="drop-in", listeners=[heard.append, port])
    feed(stage, [[(1, 1), (2, 2)], [(1, 3)]])
    assert [(event.event, event.batch, event.query) for event in heard] == [
        (Event.batch, 0, "drop-in"),
        (Event.batch, 1, "drop-in"),
    ]
    with urllib.request.urlopen(f"http://127.0.0.1:{port.port}") as answer:
        metrics = read(answer.read().decode())
    port.close()
    assert metrics["headgate_rows_total", "query=drop-in", "stage=0"] == 3
    assert ("headgate_last_look_timestamp_seconds", "query=drop-in") not in metrics


def test_a_batch_that_fails_is_told(make_stage: Any, feed: Any) -> None:
    heard = list[QueryEvent]()
    stage = make_stage(hg.Aggregate(n=agg.count()), listeners=[heard.append])
    feed(stage, [[(1, 1)]])
    with pytest.raises(hg.errors.BatchOrder):
        feed(stage, [[(1, 1)]], start=7)
    assert [event.event for event in heard] == [Event.batch, Event.failed]


def test_a_listener_of_spark_sees_what_is_observed_before_the_stage(
    spark: Any, make_stage: Any, tmp_path: Path
) -> None:
    """Spark reports metrics of the streaming plan, and none of the jobs that `foreachBatch` starts."""
    spark.range(100).selectExpr("id % 7 AS k", "id AS v").write.parquet(str(tmp_path / "in"))
    heard = Heard()
    spark.streams.addListener(heard)
    try:
        events = spark.readStream.schema("k long, v long").parquet(str(tmp_path / "in"))
        seen = events.observe("arriving", F.count("*").alias("rows"), F.max("v").alias("newest"))
        stage = make_stage(hg.Aggregate(n=agg.count()))
        query = seen.writeStream.foreachBatch(stage).trigger(availableNow=True).start()
        query.awaitTermination()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(10_000)
    finally:
        spark.streams.removeListener(heard)
    metrics = [p.observedMetrics["arriving"] for p in heard.progress if "arriving" in p.observedMetrics]
    assert [(row.rows, row.newest) for row in metrics if row.rows] == [(100, 99)]
