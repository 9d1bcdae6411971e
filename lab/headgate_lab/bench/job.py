"""One system over one input, in a process of its own, so that no JVM disturbs another.

The parent sends jobs as JSON (`run_jobs`), the child (`python -m headgate_lab.bench.job`) answers
with one line a batch and one at the end.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.errors import HeadgateError
from headgate.spark.local import failure_of, local_spark
from headgate_lab.bench import data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2


@dataclass(frozen=True)
class Job:
    """What to run: `system` is headgate or native, `operator` one that both know.

    A job with an `other` source joins the two, and rows of operators that go by
    event time have one.

    `store` (hdfs or rocksdb) and `sink` (parquet or noop) are the native twin's; headgate always
    writes Parquet and is always durable.
    """

    name: str
    system: str
    operator: str
    source: str
    batches: int
    work: str
    store: str = ""
    sink: str = "parquet"
    other: str = ""
    closing: int = 0
    """How many of the last batches only close what is open; their times are omitted."""
    policy: str = ""
    """Headgate's policy; by default its default."""

    @property
    def closes(self) -> bool:
        """Whether the operator goes by event time."""
        return self.operator in ("tumbling", "hopping", "sessions", "dedup", "join")

    @property
    def log(self) -> Path:
        """Where Spark's messages go."""
        return Path(self.work).with_suffix(".log")

    @property
    def timed(self) -> bool:
        """Whether its rows have a time."""
        return self.closes or self.operator == "topk"


AnyJob = TypeVar("AnyJob", bound=Job)


def run_jobs(
    jobs: Sequence[AnyJob],
    tick: Callable[[AnyJob, int], None],
    *,
    module: str = "headgate_lab.bench.job",
    env: Mapping[str, str] | None = None,
) -> dict[str, list[float]]:
    """Run jobs one after the other in one fresh process and session; times of batches in ms by job
    name. `module` is the child's side, which calls `serve`.
    """
    spec = json.dumps([asdict(job) for job in jobs])
    by_name = {job.name: job for job in jobs}
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=env,
        )
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(spec)
            child.stdin.close()
            for line in child.stdout:
                said = json.loads(line)
                if "times" in said:
                    times[said["job"]] = said["times"]
                else:
                    tick(by_name[said["job"]], said["batch"])
            code = child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            if child.stdout is not None:
                child.stdout.close()
        if code or len(times) < len(jobs):
            errors.seek(0)
            lines = errors.read().strip().splitlines()
            raise HeadgateError(
                (lines[-1] if lines else f"{jobs[0].name} ended with code {code}") + _kept(jobs[0])
            )
    return times


def _kept(job: Job) -> str:
    """Save Spark's log from the folder that is about to be removed, and return where it is."""
    if not job.log.exists():
        return ""
    kept = Path(tempfile.mkdtemp(prefix="headgate-bench-log-")) / "spark.log"
    shutil.copy(job.log, kept)
    return f" (Spark's log is {kept})"


def _measure(spark: SparkSession, job: Job, say: Callable[[dict[str, Any]], None]) -> list[float]:
    """Trigger times in ms. That of the first batch is counted from before the query was made: all
    that a start takes is in it.
    """
    last, began = -1, dt.datetime.now(dt.UTC)
    query = _start(spark, job)
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > last:
            last = progress["batchId"]
            say({"job": job.name, "batch": last + 1})
        time.sleep(0.5)
    error = failure_of(query, job.name)
    if error is not None:
        raise error
    done = [p for p in query.recentProgress if p["numInputRows"]]
    times = {p["batchId"]: float(p["durationMs"]["triggerExecution"]) for p in done}
    if done:
        times[0] += 1e3 * (dt.datetime.fromisoformat(done[0]["timestamp"]) - began).total_seconds()
    if sorted(times) != list(range(job.batches)):
        raise HeadgateError(f"{job.name}: {job.batches} batches were to run, and {sorted(times)} did")
    return [times[b] for b in range(job.batches - job.closing)]


def _start(spark: SparkSession, job: Job) -> Any:
    from headgate_lab.bench import native, nexmark, ours
    from headgate_lab.bench.nexmark.queries import QUERIES

    if job.operator in QUERIES:
        return nexmark.start(spark, job)

    def read(source: str) -> Any:
        return data.stream(spark, source, data.TIMED if job.timed else data.SCHEMA)

    build = {"headgate": ours.start, "native": native.start}[job.system]
    return build(read(job.source), job, read(job.other) if job.other else None)


def _child(jobs: list[Job], say: Callable[[dict[str, Any]], None]) -> None:
    ours = jobs[0].system == "headgate"
    conf = {"spark.sql.streaming.numRecentProgressUpdates": str(10 + max(job.batches for job in jobs))}
    if not ours:
        conf["spark.sql.shuffle.partitions"] = str(CORES)  # the native twin at its best
    log = jobs[0].log
    with local_spark(CORES, log, conf, ours=ours) as spark:
        for job in jobs:
            say({"job": job.name, "batch": 0})
            say({"job": job.name, "times": _measure(spark, job, say)})


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A folder for inputs, checkpoints and outputs, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        yield Path(folder)


def serve(kind: type[AnyJob], run: Callable[[list[AnyJob], Callable[[dict[str, Any]], None]], None]) -> None:
    """The child's side: jobs come on stdin as JSON, answers go to stdout, a line each."""
    jobs = [kind(**spec) for spec in json.loads(sys.stdin.read())]
    out = sys.stdout
    sys.stdout = sys.stderr  # nothing but answers on the pipe
    try:
        run(jobs, lambda said: print(json.dumps(said), file=out, flush=True))
    except HeadgateError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    serve(Job, _child)
