"""Two of Nexmark's queries, a kernel behind windows and a semi join, on a small stream: the answers are native's, row by row."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate_lab.bench import nexmark
from headgate_lab.bench.job import Job
from headgate_lab.bench.nexmark import answers, events
from headgate_lab.bench.nexmark.queries import QUERIES


@pytest.mark.parametrize(
    "query",
    ["q5", *(pytest.param(q, marks=pytest.mark.full) for q in QUERIES if q not in ("q4", "q5"))],
)
def test_the_answers_are_those_of_native(query: str, spark: Any, tmp_path: Path) -> None:
    batches = events.write(tmp_path / "in", events=5_000, batches=1)
    job = Job(query, "headgate", query, str(tmp_path / "in"), batches, str(tmp_path / "ours"))
    twin = replace(job, system="native", store="hdfs", work=str(tmp_path / "native"))
    for one in (job, twin):
        running = nexmark.start(spark, one)
        running.awaitTermination()
    ours, native = (answers.read(Path(one.work) / "out", QUERIES[query]) for one in (job, twin))
    assert answers.differing(ours, native) == 0


@pytest.mark.full
def test_what_spark_refuses_as_a_stream_is_compared_with_a_batch(spark: Any, tmp_path: Path) -> None:
    batches = events.write(tmp_path / "in", events=5_000, batches=1)
    job = Job("q4", "headgate", "q4", str(tmp_path / "in"), batches, str(tmp_path / "ours"))
    nexmark.start(spark, job).awaitTermination()
    assert nexmark.refused(spark, "q4", tmp_path / "in", tmp_path / "native")
    ours, native = (answers.read(tmp_path / name / "out", QUERIES["q4"]) for name in ("ours", "native"))
    assert answers.differing(ours, native) == 0
