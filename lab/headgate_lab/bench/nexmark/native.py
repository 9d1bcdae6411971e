"""Nexmark's queries in native Structured Streaming, each in the fastest form we know that
gives the suite's answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headgate_lab.bench.job import Job
from headgate_lab.bench.native import started
from headgate_lab.bench.nexmark.events import LONGEST_US
from headgate_lab.bench.nexmark.ours import Streams
from headgate_lab.bench.nexmark.queries import CATEGORY, DELAY, GAP, HOP, LOCAL, QUERIES, SIZE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def start(streams: Streams, job: Job) -> Any:
    """The streaming query over all of the input."""
    return started(TWINS[job.operator](streams), job, QUERIES[job.operator].mode)


def _bids(streams: Streams) -> DataFrame:
    return streams["bid"].withWatermark("time", DELAY)


def _counts(rows: DataFrame, key: str, window: Column) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.groupBy(key, window.alias("w")).agg(F.count(F.lit(1)).alias("n"))


def _by_window(counts: DataFrame) -> DataFrame:
    return counts.selectExpr("bidder", "w.start as window_start", "w.end as window_end", "n")


def q3(streams: Streams) -> DataFrame:
    """An inner join without a bound: both sides are kept for ever."""
    from pyspark.sql import functions as F

    local = streams["person"].where(F.col("state").isin(*LOCAL))
    persons = local.selectExpr(
        "id as seller", "name as left_name", "city as left_city", "state as left_state"
    )
    auctions = streams["auction"].where(F.col("category") == CATEGORY).selectExpr("seller", "id as right_id")
    return persons.join(auctions, "seller")


def q4(streams: Streams) -> DataFrame:
    """A join, then the largest of each auction, then their mean by category."""
    from pyspark.sql import functions as F

    auctions = streams["auction"].withWatermark("time", DELAY)
    auctions = auctions.selectExpr("id", "category", "time as opened", "expires")
    bound = f"time <= expires and time <= opened + interval {LONGEST_US} microseconds"
    pairs = auctions.join(_bids(streams), F.expr(f"id = auction and time >= opened and {bound}"))
    best = pairs.groupBy("id", "category", "opened").agg(F.max("price").alias("price"))
    return best.groupBy("category").agg(F.avg("price").alias("mean"))


def q5(streams: Streams) -> DataFrame:
    """Counts by window, then the windows' largest, with all auctions that have it."""
    from pyspark.sql import functions as F

    counts = _counts(_bids(streams), "auction", F.window("time", SIZE, HOP))
    whole = counts.groupBy("w").agg(
        F.max("n").alias("n"), F.collect_list(F.struct("n", "auction")).alias("listed")
    )
    hot = whole.withColumn("hot", F.explode(F.expr("filter(listed, one -> one.n = n)")))
    return hot.selectExpr("hot.auction", "w.start as window_start", "n")


def q7(streams: Streams) -> DataFrame:
    """The largest struct of each window: by price, then by time."""
    from pyspark.sql import functions as F

    best = F.max(F.struct("price", "time", "auction", "bidder")).alias("best")
    return (
        _bids(streams)
        .groupBy(F.window("time", SIZE).alias("w"))
        .agg(best)
        .selectExpr("w.start as window_start", "best.*")
    )


def q8(streams: Streams) -> DataFrame:
    """A semi join within the window."""
    from pyspark.sql import functions as F

    window = F.window("time", SIZE).start
    persons = streams["person"].withWatermark("time", DELAY)
    persons = persons.select("id", F.col("name").alias("left_name"), "time", window.alias("window_start"))
    sellers = streams["auction"].withWatermark("time", DELAY)
    sellers = sellers.select("seller", F.col("time").alias("then"), window.alias("during"))
    near = f"then >= time - interval {SIZE} and then <= time + interval {SIZE}"
    same = F.expr(f"id = seller and window_start = during and {near}")
    return persons.join(sellers, same, "left_semi").drop("time")


def q11(streams: Streams) -> DataFrame:
    """Session windows."""
    from pyspark.sql import functions as F

    return _by_window(_counts(_bids(streams), "bidder", F.session_window("time", GAP)))


def q12(streams: Streams) -> DataFrame:
    """Tumbling windows, by event time: those by the clock differ from run to run."""
    from pyspark.sql import functions as F

    return _by_window(_counts(_bids(streams), "bidder", F.window("time", SIZE)))


def q18(streams: Streams) -> DataFrame:
    """The largest struct of each pair, by time; Spark has no row_number over a stream."""
    from pyspark.sql import functions as F

    last = F.max(F.struct("time", "price", "channel")).alias("last")
    return streams["bid"].groupBy("bidder", "auction").agg(last).selectExpr("bidder", "auction", "last.*")


TWINS: dict[str, Callable[[Streams], DataFrame]] = {
    "q3": q3,
    "q4": q4,
    "q5": q5,
    "q7": q7,
    "q8": q8,
    "q11": q11,
    "q12": q12,
    "q18": q18,
}
