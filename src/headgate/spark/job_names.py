"""Names of jobs in Spark's UI: a person sees which query, batch and operator a job belongs to.

In a classic session the jobs of a direct stream have a job group and a description. Through Spark Connect they
have tags, which is what it allows: `headgate-QUERY` and `headgate-QUERY-batch-N`.
"""

from __future__ import annotations

from typing import Any

from headgate import logs
from headgate.spark.session import is_connect
from headgate.stage.task import Task


class JobNames:
    """Names the jobs that this thread starts."""

    def __init__(self, spark: Any) -> None:
        self._spark, self._connect = spark, is_connect(spark)

    def begin(self, query: str, pool: str) -> None:
        """Name the query whose jobs follow, and let queries share the cores fairly."""
        if self._connect:
            self._spark.addTag(f"headgate-{query}")
            return
        context = self._spark.sparkContext
        context.setJobGroup(f"headgate-{query}", f"{query}: between batches")
        context.setLocalProperty("spark.scheduler.pool", pool)

    def batch(self, task: Task, rows: int) -> None:
        """Name the batch whose job follows. `rows` are those that were planned, 0 if that is not known."""
        if self._connect:
            ours = f"headgate-{logs.current().query}-batch-"
            for tag in tuple(self._spark.getTags()):  # of this thread; the stages of a query share them
                if tag.startswith(ours):
                    self._spark.removeTag(tag)
            self._spark.addTag(f"{ours}{task.batch}")
        else:
            self._spark.sparkContext.setJobDescription(description(task, rows))


def description(task: Task, rows: int) -> str:
    """What a batch's job does, in one line."""
    about = logs.current()
    of = f"{about.query}: " if about.query else ""
    stage = f"stage {about.stage}, " if about.stage else ""
    many = f"{rows:,} rows, " if rows else ""
    key = ", ".join(task.operator.key.names)
    return f"{of}{stage}batch {task.batch}, {many}{operator_name(task)} by {key} on {task.table.channels} channels"


def stage_names(task: Task, tasks: int) -> tuple[str, str]:
    """The names of the two Spark stages of a direct batch: reading, and the channels."""
    about = logs.current()
    of = f"{about.query} batch {task.batch}" if about.query else f"batch {task.batch}"
    return (
        f"{of}: read in {tasks} tasks and route",
        f"{of}: {operator_name(task)} on channels 0 to {task.table.channels - 1}, task = channel",
    )


def operator_name(task: Task) -> str:
    """The operator of a task in one word: aggregate, windows, kernel, ..."""
    return type(task.operator).__name__.removeprefix("Bound").removeprefix("Combined").lower()
