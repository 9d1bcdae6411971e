"""A direct stream that is watched: events, metrics, names in Spark's UI."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.observe.test_samples import read
from tests.spark.direct.events import SCHEMA, STATIC, events, put

import headgate as hg
from headgate import agg
from headgate.errors import TaskFailed
from headgate.observe import Event, QueryEvent
from headgate.observe.export import port as ports


@pytest.fixture(autouse=True)
def closed_ports() -> Iterator[None]:
    yield
    for server in set(ports._servers.values()):
        server.shutdown()
        server.server_close()
    ports._servers.clear()


def counts(spark: SparkSession, files: Path) -> Any:
    source = hg.read(spark).files(str(files), schema=SCHEMA)
    return source.key_by("user", routing=STATIC).aggregate(n=agg.count())


def scraped(query: Any) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{query.metrics_port}/metrics") as answer:
        return read(answer.read().decode())


def test_listeners_and_metrics_say_what_progress_says(spark: SparkSession, files: Path, run: Any) -> None:
    heard = list[QueryEvent]()
    query = run(counts(spark, files), name="users", metrics_port=0, listeners=[heard.append])
    batches = [event for event in heard if event.event is Event.batch]
    assert [event.event for event in heard if event not in batches] == [
        Event.started,
        Event.idle,
        Event.ended,
    ]
    assert [event.progress for event in batches] == query.progress
    assert [event.rows for event in batches] == [p.rows for p in query.progress]
    metrics = scraped(query)
    assert metrics["headgate_rows_total", "query=users", "stage=0"] == 4000
    assert metrics["headgate_batches_total", "query=users", "stage=0"] == len(batches)
    assert metrics["headgate_batch_seconds_count", "query=users", "stage=0"] == len(batches)
    by_channel = [v for name, v in metrics.items() if name[0] == "headgate_channel_rows_total"]
    combined = sum(event.stages[0].report.rows for event in batches)
    assert (len(by_channel), sum(by_channel)) == (3, combined)
    assert ("headgate_query_up", "query=users") not in metrics
    assert query.name == "users"
    query.finish()
    assert [event.event for event in heard[-2:]] == [Event.batch, Event.ended]
    assert scraped(query)["headgate_batches_total", "query=users", "stage=0"] == len(batches) + 1


def test_a_query_that_runs_is_up_and_one_that_failed_is_not(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    def fail(df: Any, batch: int) -> None:
        if batch == 2:
            raise ValueError("the database is down")

    source = hg.read(spark).files(str(files), schema=SCHEMA)
    stream = source.key_by("user", routing=STATIC).aggregate(n=agg.count()).write(fail)
    heard = list[QueryEvent]()
    query = stream.start(
        str(tmp_path / "ckpt"), max_rows=1000, durable=False, metrics_port=0, listeners=[heard.append]
    )
    with pytest.raises((TaskFailed, hg.errors.SinkFailed)):
        query.await_end()
    metrics, mine = scraped(query), f"query={query.name}"
    assert len(query.name) == 8
    assert heard[-1].event is Event.failed
    assert metrics["headgate_query_up", mine] == 0
    assert metrics["headgate_failures_total", "error=SinkFailed", mine] == 1


def test_listeners_may_come_and_go_and_raise(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", 0, events(100, 0))
    heard = list[QueryEvent]()

    def raises(event: QueryEvent) -> None:
        raise RuntimeError("a listener's own trouble")

    stream = counts(spark, tmp_path / "in").write(hg.sinks.Memory())
    with stream.start(str(tmp_path / "ckpt"), durable=False, listeners=[raises]) as query:
        query.process_all_available()
        query.listeners.append(heard.append)
        put(tmp_path / "in", 1, events(50, 1))
        query.process_all_available()
        query.listeners.remove(heard.append)
        put(tmp_path / "in", 2, events(50, 2))
        query.process_all_available()
    assert [event.progress.rows for event in heard if event.progress] == [50]
    assert sum(p.rows for p in query.progress) == 200


def test_each_stage_of_a_query_has_its_number(spark: SparkSession, files: Path, run: Any) -> None:
    heard = list[QueryEvent]()
    first = counts(spark, files)
    run(first.key_by("n", routing=STATIC).aggregate(users=agg.count()), name="two", listeners=[heard.append])
    batches = [event for event in heard if event.event is Event.batch and event.report]
    assert {tuple(facts.stage for facts in event.stages) for event in batches} == {(0, 1)}


@pytest.mark.classic
def test_jobs_and_stages_have_names_that_a_person_understands(
    spark: SparkSession, tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.streams.planned.PARTS_READ_AGAIN", 0)  # so that there are map tasks
    for number in range(2):
        put(tmp_path / "in", number, events(60_000, number), row_group=10_000)
    query = run(counts(spark, tmp_path / "in"), name="clicks", max_rows=60_000)
    assert len(query.progress) == 2
    context: Any = spark.sparkContext
    tracker = context.statusTracker()
    jobs = sorted(tracker.getJobIdsForGroup("headgate-clicks"))
    store = context._jsc.sc().statusStore()
    said = [store.job(job).description().get() for job in jobs]
    assert said == [
        f"clicks: batch {batch}, 60,000 rows, aggregate by user on 3 channels" for batch in range(2)
    ]
    stages = [tracker.getStageInfo(stage).name for stage in sorted(tracker.getJobInfo(jobs[1]).stageIds)]
    assert stages == [
        "clicks batch 1: read in 2 tasks and route",
        "clicks batch 1: aggregate on channels 0 to 2, task = channel",
    ]


@pytest.mark.classic
def test_jobs_of_the_row_path_have_names_too(spark: SparkSession, files: Path, run: Any) -> None:
    source = hg.read(spark).files(str(files), schema=SCHEMA).transform(lambda df: df.where("user > 1"))
    run(source.key_by("user", routing=STATIC).aggregate(n=agg.count()), name="rows", max_rows=4000)
    context: Any = spark.sparkContext
    jobs = sorted(context.statusTracker().getJobIdsForGroup("headgate-rows"))
    said = {context._jsc.sc().statusStore().job(job).description().get() for job in jobs}
    assert "rows: batch 0, aggregate by user on 3 channels" in said


@pytest.mark.connect
def test_through_connect_jobs_have_tags(spark: SparkSession, files: Path, run: Any) -> None:
    tags = list[set[str]]()
    run(counts(spark, files), name="clicks", listeners=[lambda event: tags.append({*spark.getTags()})])
    assert {"headgate-clicks", "headgate-clicks-batch-0"} in tags
