"""The native twins: what Spark itself offers for the same answer, set up as well as we know how."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from headgate_lab.bench.job import Job
from headgate_lab.bench.ours import DELAY, GAP, HOP, LISTED, SIZE, WITHIN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
STORES = {
    "hdfs": {"providerClass": f"{PROVIDERS}.HDFSBackedStateStoreProvider"},
    "rocksdb": {
        "providerClass": f"{PROVIDERS}.RocksDBStateStoreProvider",
        "rocksdb.changelogCheckpointing.enabled": "true",
    },
}
K = 100


def start(rows: DataFrame, job: Job, other: DataFrame | None = None) -> Any:
    """The streaming query over all of the input."""
    if other is not None:
        answers = _join(rows, other)
    else:
        answers = TWINS[job.operator](rows)
    return started(answers, job, "append" if job.closes else "update")


def started(answers: DataFrame, job: Job, mode: str) -> Any:
    """A native query over all of its input, on the job's state store."""
    for name, value in STORES[job.store].items():
        answers.sparkSession.conf.set(f"spark.sql.streaming.stateStore.{name}", value)
    writer = answers.writeStream.outputMode(mode).option("checkpointLocation", f"{job.work}/spark")
    if job.sink == "noop":
        writer = writer.format("noop")
    else:
        writer = writer.foreachBatch(
            lambda batch, number: batch.write.mode("overwrite").parquet(f"{job.work}/out/batch={number}")
        )
    return writer.trigger(availableNow=True).start()


def _sums() -> tuple[Column, ...]:
    from pyspark.sql import functions as F

    return F.count(F.lit(1)).alias("n"), F.sum("amount").alias("total"), F.max("amount").alias("top")


def _aggregate(rows: DataFrame) -> DataFrame:
    return rows.groupBy("user").agg(*_sums())


def _windows(rows: DataFrame, window: Column) -> DataFrame:
    answers = rows.withWatermark("time", DELAY).groupBy("user", window.alias("w")).agg(*_sums())
    return answers.select("user", "w.start", "w.end", "n", "total", "top")


def _tumbling(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return _windows(rows, F.window("time", SIZE))


def _hopping(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return _windows(rows, F.window("time", SIZE, HOP))


def _sessions(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return _windows(rows, F.session_window("time", GAP))


def _topk(rows: DataFrame) -> DataFrame:
    """The largest of each key as an array, which is spread over rows as the stage emits them."""
    from pyspark.sql import functions as F

    listed = F.max_by(F.struct("amount", "time"), "amount", LISTED).alias("listed")
    spread = rows.groupBy("user").agg(listed).select("user", F.posexplode("listed").alias("rank", "of"))
    return spread.select("user", "rank", "of.amount", "of.time")


def _dedup(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("time", DELAY).dropDuplicatesWithinWatermark(["user"])


def _join(left: DataFrame, right: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    right = right.withWatermark("time", DELAY).selectExpr("user as other", "amount as paid", "time as then")
    within = f"user = other and then >= time and then <= time + interval {WITHIN}"
    return left.withWatermark("time", DELAY).join(right, F.expr(within)).drop("other")


def _history(rows: DataFrame) -> DataFrame:
    """The last 100 amounts of each key in one value of array type: one read and one write of state
    per key and batch.

    The statistics come from running sums. That is less exact than what the stage computes, and the
    fastest that plain Python does.
    """
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class History(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("history", "amounts array<double>")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            before = self.state.get()
            amounts = list(before[0]) if before is not None else []
            total, squares = math.fsum(amounts), math.fsum(x * x for x in amounts)
            user, out = key[0], []
            for row in rows:
                x = row.amount
                amounts.append(x)
                total += x
                squares += x * x
                if len(amounts) > K:
                    gone = amounts.pop(0)
                    total -= gone
                    squares -= gone * gone
                n = len(amounts)
                mean = total / n
                std = math.sqrt(max(0.0, squares - n * mean * mean) / (n - 1)) if n > 1 else None
                out.append(Row(user=user, amount=x, mean=mean, std=std))
            self.state.update((amounts,))
            return iter(out)

        def close(self) -> None:
            pass

    return rows.groupBy("user").transformWithState(
        statefulProcessor=History(),
        outputStructType="user long, amount double, mean double, std double",
        outputMode="update",
        timeMode="None",
    )


def _zscore(rows: DataFrame) -> DataFrame:
    """Count, mean and sum of squares of each key in one value: one read and one write of state
    per key and batch.
    """
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class ZScore(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("moments", "n long, mean double, m2 double")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            n, mean, m2 = self.state.get() or (0, 0.0, 0.0)
            user, out = key[0], []
            for row in rows:
                n += 1
                d = row.amount - mean
                mean += d / n
                m2 += d * (row.amount - mean)
                out.append(Row(user=user, z=d / math.sqrt(m2 / n) if n > 1 else 0.0))
            self.state.update((n, mean, m2))
            return iter(out)

        def close(self) -> None:
            pass

    return rows.groupBy("user").transformWithState(
        statefulProcessor=ZScore(),
        outputStructType="user long, z double",
        outputMode="update",
        timeMode="None",
    )


TWINS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "aggregate": _aggregate,
    "history": _history,
    "tumbling": _tumbling,
    "hopping": _hopping,
    "sessions": _sessions,
    "dedup": _dedup,
    "topk": _topk,
    "zscore": _zscore,
}
