"""The query service's batch as one Spark job: delivery to servers, a task for each, what the shuffle carried."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.service.batch.hosted import Hosted
from headgate.service.batch.task import ServerTask
from headgate.spark.anchor import CHANNEL, Anchor
from headgate.spark.job import reports
from headgate.spark.shuffle import carried

REPORT = "report string"


class SparkJob:
    """Runs the tasks of a batch; servers stay on their executors where there are several."""

    def __init__(self) -> None:
        self._anchor = Anchor()

    def __call__(self, df: DataFrame, hosted: Hosted, task: ServerTask) -> list[dict[str, Any]]:
        """The reports of the servers, in order; the first also has what the shuffle carried."""
        spark = df.sparkSession
        group = f"headgate-{task.run}-{task.batch}"
        spark.sparkContext.setJobGroup(group, f"headgate service, batch {task.batch}")

        def tasks(anchor: DataFrame | None) -> DataFrame:
            return delivered(df, hosted, anchor).mapInArrow(task, REPORT)

        answers = reports(spark, self._anchor, hosted.servers, tasks, batch=task.batch, again="service")
        if any("error" in answer for answer in answers):
            return answers
        answers.sort(key=lambda answer: answer["server"])
        self._anchor.observe([answer["executor"] for answer in answers])
        found = carried(spark, group)
        answers[0] |= {"sent_rows": found.rows, "sent_bytes": found.size}
        return answers


def delivered(df: DataFrame, hosted: Hosted, anchor: DataFrame | None = None) -> DataFrame:
    """Each row once to every server that hosts a query of its source; rows that nobody wants go nowhere."""
    slots = ["source", "time", *hosted.slots]
    lists = json.dumps([list(servers) for servers in hosted.wanted])
    wanted = F.get(F.from_json(F.lit(lists), "array<array<int>>"), F.col("source"))
    sent = df.select(*slots, F.explode(wanted).alias(CHANNEL)).repartitionById(hosted.servers, F.col(CHANNEL))
    if anchor is not None:
        sent = sent.join(anchor.hint("shuffle_hash"), CHANNEL)
    return sent.select(*slots)
