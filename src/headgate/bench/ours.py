"""Headgate's side of the benchmarks: a stage with its defaults, durable, writing Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.bench.job import CORES, Job
from headgate.operators import agg
from headgate.operators.aggregate import Aggregate
from headgate.operators.base import Operator
from headgate.operators.history import HistoryWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPERATORS: dict[str, Operator] = {
    "aggregate": Aggregate(n=agg.count(), total=agg.sum("amount"), top=agg.max("amount")),
    "history": HistoryWindow(100, ["mean", "std"], of="amount"),
}


def start(rows: DataFrame, job: Job) -> Any:
    """The streaming query over all of the input."""
    from headgate.spark import sinks
    from headgate.spark.stage import Stage

    stage = Stage(
        key="user",
        operator=OPERATORS[job.operator],
        channels=CORES,
        checkpoint=f"{job.work}/stage",
        sink=sinks.Parquet(f"{job.work}/out"),
    )
    writer = rows.writeStream.foreachBatch(stage).option("checkpointLocation", f"{job.work}/spark")
    return writer.trigger(availableNow=True).start()
