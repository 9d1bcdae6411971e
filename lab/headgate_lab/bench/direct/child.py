"""The process that runs tasks: one session for all of them, and the times of their batches as answers."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.errors import HeadgateError
from headgate.spark.local import failure_of, local_spark
from headgate_lab.bench.direct import streams
from headgate_lab.bench.direct.task import Task
from headgate_lab.bench.job import CORES, serve
from headgate_lab.bench.nexmark.queries import QUERIES, REFUSED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[dict[str, Any]], None]
LOOK_S, CLOSE_LOOK_S = 0.5, 0.005


def measure(spark: SparkSession, task: Task, say: Say) -> list[float]:
    """Times in ms: of each batch, or of all from now to the first commit."""
    if task.system == "direct":
        with _added(task):
            times = _direct(spark, task, say)
    elif task.system == "native" and task.operator in REFUSED:
        _refused(spark, task)
        return []
    else:
        times = _structured(spark, task, say)
    wanted = task.batches - task.closing
    if len(times) < wanted:
        raise HeadgateError(f"{task.name}: {wanted} batches were to run, and {len(times)} did")
    return times[:wanted]


@contextmanager
def _added(task: Task) -> Iterator[None]:
    """The files that a task adds are in its source while it runs."""
    added = {
        file: Path(task.source) / f"{Path(task.adds).name}-{file.name}"
        for file in Path(task.adds or "-").glob("*.parquet")
    }
    for file, place in added.items():
        file.rename(place)
    yield
    for file, place in added.items():
        place.rename(file)


def _direct(spark: SparkSession, task: Task, say: Say) -> list[float]:
    began = time.perf_counter()
    query = streams.start(spark, task)
    seen: dict[int, Any] = {}
    over = False
    while not over:
        over = query.await_end(0.0 if task.first else LOOK_S)
        new = [p for p in query.progress if p.rows and p.batch not in seen]
        if new and task.first:
            first = 1e3 * (time.perf_counter() - began)
            query.await_end()
            return [first]
        seen |= {p.batch: p for p in new}
        if new:
            say({"job": task.name, "batch": len(seen)})
        if task.first:
            time.sleep(CLOSE_LOOK_S)
    done = [seen[number] for number in sorted(seen)]
    odd = [p.rows for p in done[: task.batches - task.closing] if p.rows != task.rows]
    if odd and task.operator not in QUERIES:
        message = f"{task.name}: batches of {task.rows} rows were to run, and one had {odd[0]}"
        raise HeadgateError(message)
    return [p.batch_ms for p in done]


def _structured(spark: SparkSession, task: Task, say: Say) -> list[float]:
    """Trigger times, as Spark has them, of a native query or a stage in `foreachBatch`."""
    last, began = -1, dt.datetime.now(dt.UTC)
    query = _start(spark, task)
    while not _ended(query):
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > last:
            last = progress["batchId"]
            say({"job": task.name, "batch": last + 1})
    error = failure_of(query, task.name)
    if error is not None:
        raise error
    done = [p for p in query.recentProgress if p["numInputRows"]]
    times = [float(p["durationMs"]["triggerExecution"]) for p in done]
    if task.first:
        ahead = dt.datetime.fromisoformat(done[0]["timestamp"]) - began
        return [times[0] + 1e3 * ahead.total_seconds()]
    return times


def _ended(query: Any) -> bool:
    """Wait a little, and say whether the query has ended; a failed one has."""
    from pyspark.errors import StreamingQueryException

    try:
        return bool(query.awaitTermination(LOOK_S))
    except StreamingQueryException:
        return True


def _start(spark: SparkSession, task: Task) -> Any:
    from headgate_lab.bench import native, nexmark, ours

    if task.operator in QUERIES:
        return nexmark.start(spark, task)
    rows = spark.readStream.schema(streams.schema_of(task)).option("maxFilesPerTrigger", task.files)
    build = {"headgate": ours.start, "native": native.start}[task.system]
    return build(rows.parquet(task.source), task)


def _refused(spark: SparkSession, task: Task) -> None:
    """Native's answer for a batch of all events, where Spark does not run the query as a stream."""
    from headgate_lab.bench import nexmark

    nexmark.refused(spark, task.operator, Path(task.source), Path(task.work))


def _unload(spark: SparkSession) -> None:
    """Drop native's state from the JVM's memory, so that whoever comes next has it for itself."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    jvm.System.gc()


def run(tasks: list[Task], say: Say) -> None:
    """All tasks in one session. It has headgate's settings unless it only runs a native query."""
    ours = any(task.system != "native" for task in tasks)
    conf = {
        "spark.sql.streaming.numRecentProgressUpdates": str(10 + max(task.batches for task in tasks)),
        "spark.sql.shuffle.partitions": str(CORES),  # the native twin at its best
    }
    with local_spark(CORES, tasks[0].log, conf, ours=ours) as spark:
        for task in tasks:
            say({"job": task.name, "batch": 0})
            say({"job": task.name, "times": measure(spark, task, say)})
            if task.system == "native":
                _unload(spark)


if __name__ == "__main__":
    serve(Task, run)
