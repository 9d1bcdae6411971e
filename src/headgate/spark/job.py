"""The Spark job of a batch: exchange, then one task for each channel, whose answers come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate import errors
from headgate.errors import TaskFailed
from headgate.routing.table import Table
from headgate.spark.anchor import Anchor
from headgate.spark.engine_error import gist
from headgate.spark.exchange import Exchange
from headgate.spark.session import conf
from headgate.stage.task import REPORT, ChannelTask

EXCLUDED = "spark.sql.optimizer.excludedRules"
NO_SHORTCUT = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"


def reports(
    spark: SparkSession,
    anchor: Anchor,
    count: int,
    tasks: Callable[[DataFrame | None], DataFrame],
    *,
    batch: int,
    again: str = "query",
) -> list[dict[str, Any]]:
    """What `count` tasks report, each a row of JSON; `tasks` makes their plan, given what binds them to executors."""
    # The exchange has no use for adaptive planning, and it costs.
    with conf(spark, {"spark.sql.adaptive.enabled": "false"}):
        try:
            bound = anchor.prepare(spark, count)
            rows = tasks(bound).collect()
            if not rows:
                # The optimizer saw that there is no input, and left the tasks out. They may have other work to do.
                excluded = filter(None, [spark.conf.get(EXCLUDED, None), NO_SHORTCUT])
                with conf(spark, {EXCLUDED: ",".join(excluded)}):
                    rows = tasks(bound).collect()
        except errors.HeadgateError:
            raise
        except Exception as error:
            raise TaskFailed(
                f"batch {batch} failed in Spark and nothing of it was committed: {gist(error)}. "
                f"Mend the cause and start the {again} again"
            ) from error
    return [json.loads(row.report) for row in rows]


class ChannelJob:
    """Runs channel tasks, each where it ran before."""

    def __init__(self) -> None:
        self._anchor = Anchor()

    def run(self, df: DataFrame, exchange: Exchange, table: Table, task: ChannelTask) -> list[dict[str, Any]]:
        """What every channel reports, in order; an error of a task is raised here as the one it was there."""

        def tasks(anchor: DataFrame | None) -> DataFrame:
            return exchange.routed(df, table, anchor).mapInArrow(task, REPORT)

        answers = reports(df.sparkSession, self._anchor, table.channels, tasks, batch=task.batch)
        for answer in answers:
            if "error" in answer:
                raise getattr(errors, answer["error"])(answer["message"])
        answers.sort(key=lambda a: a["channel"])
        if [a["channel"] for a in answers] != list(range(table.channels)):
            raise TaskFailed(
                f"batch {task.batch}: {table.channels} channels, but reports came from {[a['channel'] for a in answers]}"
            )
        self._anchor.observe([a["executor"] for a in answers])
        return answers
