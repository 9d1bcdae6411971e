"""The processes of the bench: one runs the native jobs with an event log, one measures constants and runs the ports."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.doctor.calibrate import samples
from headgate.spark.local import failure_of, local_spark
from headgate_lab.bench.doctor.jobs import PARTITIONS, DoctorTask, start_native, start_ported
from headgate_lab.bench.job import CORES, serve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[dict[str, Any]], None]
SAMPLES = "samples.json"


def native(tasks: list[DoctorTask], say: Say) -> None:
    """All native jobs in one application, whose event log is in the folder of the first job's `other`."""
    conf = {
        "spark.sql.streaming.numRecentProgressUpdates": "100",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": Path(tasks[0].other).absolute().as_uri(),
    }
    Path(tasks[0].other).mkdir(parents=True, exist_ok=True)
    with local_spark(CORES, tasks[0].log, conf, ours=False) as spark:
        for task in tasks:
            say({"job": task.name, "batch": 0})
            query = start_native(spark, task)
            query.awaitTermination()
            error = failure_of(query, task.name)
            if error is not None:
                raise error
            done = [p for p in query.recentProgress if p["numInputRows"]]
            say({"job": task.name, "times": [float(p["durationMs"]["triggerExecution"]) for p in done]})
            _unload(spark)


def _unload(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


def ported(tasks: list[DoctorTask], say: Say) -> None:
    """First the constants, then the ports, in one session."""
    with local_spark(CORES, tasks[0].log) as spark:
        for task in tasks:
            say({"job": task.name, "batch": 0})
            if task.system == "calibrate":
                work = Path(task.work)
                work.mkdir(parents=True)
                found = samples(spark, CORES, work, lambda what, part: None, quick=task.quick)
                plain = {kind: [asdict(sample) for sample in mine] for kind, mine in found.items()}
                (work / SAMPLES).write_text(json.dumps(plain), encoding="utf-8")
                say({"job": task.name, "times": []})
                continue
            query = start_ported(spark, task)
            query.await_end()
            full = [p for p in query.progress if p.rows >= task.rows]
            say({"job": task.name, "times": [p.batch_ms for p in full]})


def run(tasks: list[DoctorTask], say: Say) -> None:
    """Native jobs, or all others."""
    (native if tasks[0].system == "native" else ported)(tasks, say)


if __name__ == "__main__":
    serve(DoctorTask, run)
