"""Headgate's side of the benchmarks: a stage with its defaults, durable, writing Parquet."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any

from headgate.kernels.kernel import kernel
from headgate.operators import agg
from headgate.operators.aggregate import Aggregate
from headgate.operators.base import Operator
from headgate.operators.dedup import Dedup
from headgate.operators.history import HistoryWindow
from headgate.operators.stream_join import Join
from headgate.operators.topk import TopK
from headgate.operators.windows import Session, Tumbling, Windows, hopping, session, tumbling
from headgate_lab.bench.job import CORES, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@kernel(state={"n": int, "mean": float, "m2": float}, output={"z": float})
def zscore(state: Any, row: Any) -> Any:
    """How far a row is from the mean of its key so far, in standard deviations."""
    state.n += 1
    d = row.amount - state.mean
    state.mean += d / state.n
    state.m2 += d * (row.amount - state.mean)
    return d / sqrt(state.m2 / state.n) if state.n > 1 else 0.0


GAP, DELAY, WITHIN = "5 seconds", "20 seconds", "100 milliseconds"
"""Of sessions, of all that go by event time, and of the join."""
SIZE, HOP, LISTED = "10 seconds", "5 seconds", 3
"""Of tumbling and hopping windows, and of lists of the largest."""


def _windows(window: Tumbling | Session) -> Windows:
    return Windows(
        window, on="time", delay=DELAY, n=agg.count(), total=agg.sum("amount"), top=agg.max("amount")
    )


OPERATORS: dict[str, Operator] = {
    "aggregate": Aggregate(n=agg.count(), total=agg.sum("amount"), top=agg.max("amount")),
    "history": HistoryWindow(100, ["mean", "std"], of="amount"),
    "tumbling": _windows(tumbling(SIZE)),
    "hopping": _windows(hopping(SIZE, every=HOP)),
    "sessions": _windows(session(GAP)),
    "dedup": Dedup(on="time", delay=DELAY),
    "topk": TopK(LISTED, by="amount"),
    "join": Join(after=WITHIN, delay=DELAY),
    "zscore": zscore,
}


def start(rows: DataFrame, job: Job, other: DataFrame | None = None) -> Any:
    """The streaming query over all of the input."""
    from headgate.spark.stage import Stage
    from headgate.spark.two_streams import two_streams
    from headgate.stage import sinks
    from headgate.stage.settings import Routing

    if other is not None:
        rows = two_streams(rows, other, key="user", time="time")
    stage = Stage(
        key="user",
        operator=OPERATORS[job.operator],
        routing=Routing(policy=job.policy, channels=CORES) if job.policy else Routing(channels=CORES),
        checkpoint=f"{job.work}/stage",
        sink=sinks.Parquet(f"{job.work}/out"),
    )
    return started(rows, stage, job)


def started(rows: DataFrame, stage: Callable[[DataFrame, int], None], job: Job) -> Any:
    """A stage, or several, over all of a stream."""
    writer = rows.writeStream.foreachBatch(stage).option("checkpointLocation", f"{job.work}/spark")
    return writer.trigger(availableNow=True).start()
