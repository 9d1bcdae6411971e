"""The job of a batch on Spark: rows to the servers that want them, one task for each server, one report from each."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.errors import TaskFailed
from headgate.service.batch.careful import WorkerDied
from headgate.service.batch.report import JobReport, ServerReport
from headgate.service.batch.task import REPORT_COLUMN, ServerTask
from headgate.service.snapshot import HostingSnapshot
from headgate.spark.anchor import CHANNEL, Anchor, Seating
from headgate.spark.job import reports
from headgate.spark.shuffle import carried


class SparkJob:
    """Runs the tasks of a batch. Where there are several executors, a server stays on the one it was on."""

    def __init__(self) -> None:
        self._anchor = Anchor()

    def __call__(self, df: DataFrame, snapshot: HostingSnapshot, task: ServerTask) -> JobReport:
        """Run one job; the reports are in the order of the servers."""
        spark = df.sparkSession
        group = f"headgate-{task.run}-{task.batch}"
        spark.sparkContext.setJobGroup(group, f"headgate service, batch {task.batch}")

        def tasks(anchor: Seating | None) -> DataFrame:
            return deliver(df, snapshot, anchor).mapInArrow(task, f"{REPORT_COLUMN} string")

        try:
            bodies = reports(spark, self._anchor, snapshot.servers, tasks, batch=task.batch, again="service")
        except TaskFailed as error:
            if _worker_died(error.__cause__):
                raise WorkerDied(str(error)) from error.__cause__
            raise
        servers = sorted(map(ServerReport.from_json, bodies), key=lambda report: report.server)
        self._anchor.observe([report.executor for report in servers])
        shuffle = carried(spark, group)
        return JobReport(servers, shuffle.rows, shuffle.size)


def _worker_died(error: BaseException | None) -> bool:
    """Whether a job failed because a Python worker ended, or the executor around it: so Spark words it."""
    text = str(error)
    return any(words in text for words in ("Python worker exited unexpectedly", "ExecutorLostFailure"))


def deliver(df: DataFrame, snapshot: HostingSnapshot, anchor: Seating | None = None) -> DataFrame:
    """Send each row once to every server that hosts a computation over its source; drop rows that nobody reads."""
    columns = ["source", "time", *snapshot.slots]
    lists = json.dumps([list(servers) for servers in snapshot.servers_of_source])
    servers = F.get(F.from_json(F.lit(lists), "array<array<int>>"), F.col("source"))
    sent = df.select(*columns, F.explode(servers).alias(CHANNEL))
    sent = sent.repartitionById(snapshot.servers, F.col(CHANNEL))
    if anchor is not None:
        sent = anchor.joined(sent)  # a server is on the seat of its number
    return sent.select(*columns)
