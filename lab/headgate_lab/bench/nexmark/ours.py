"""Nexmark's queries as stages: windows, joins and lists as they are, and kernels with a timer for
the best of each window.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headgate.kernels.emit import emit
from headgate.kernels.fields import mapping
from headgate.kernels.kernel import kernel
from headgate.operators import agg
from headgate.operators.aggregate import Aggregate
from headgate.operators.base import Operator
from headgate.operators.stream_join import Join
from headgate.operators.topk import TopK
from headgate.operators.windows import Windows, hopping, session, tumbling
from headgate_lab.bench.job import CORES, Job
from headgate_lab.bench.nexmark.events import LONGEST_US
from headgate_lab.bench.nexmark.queries import CATEGORY, DELAY, GAP, HOP, LOCAL, SIZE
from headgate_lab.bench.ours import started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Streams = Mapping[str, "DataFrame"]
WINDOW = dt.timedelta(seconds=10)
FOR_EVER = "10000 days"


@kernel(
    state={"most": int, "auctions": mapping(int, int, 64)},
    output={"auction": int, "n": int},
    on="window_start",
)
def hottest(state: Any, row: Any) -> Any:
    """The auctions with the most bids, all of them if there are several."""
    if row.n > state.most:
        state.most = row.n
        state.auctions.clear()
    if row.n == state.most:
        state.auctions[row.auction] = row.n
    state.wake_at(row.window_start)


@hottest.on_timer
def _hottest(state: Any, now: Any) -> Any:
    for auction in state.auctions:
        emit(auction=auction, n=state.most)
    state.forget()


@kernel(
    state={"price": int, "time": dt.datetime, "auction": int, "bidder": int},
    output={"auction": int, "bidder": int, "price": int, "time": dt.datetime},
    on="time",
    delay=DELAY,
)
def highest(state: Any, row: Any) -> Any:
    """The highest bid, of equal ones the last."""
    if row.price > state.price or (row.price == state.price and row.time >= state.time):
        state.price = row.price
        state.time = row.time
        state.auction = row.auction
        state.bidder = row.bidder
    state.wake_at(row.window_start + WINDOW)


@highest.on_timer
def _highest(state: Any, now: Any) -> Any:
    emit(auction=state.auction, bidder=state.bidder, price=state.price, time=state.time)
    state.forget()


@kernel(
    state={"price": int, "category": int},
    output={"category": int, "price": int},
    on="right_time",
    delay=DELAY,
)
def winning(state: Any, row: Any) -> Any:
    """An auction's best price, when it is over."""
    state.price = max(state.price, row.right_price)
    state.category = row.left_category
    state.wake_at(row.left_expires)


@winning.on_timer
def _winning(state: Any, now: Any) -> Any:
    emit(category=state.category, price=state.price)
    state.forget()


@dataclass(frozen=True)
class Step:
    """A stage to be made."""

    key: str | tuple[str, ...]
    operator: Operator
    expand: Callable[[DataFrame], DataFrame] | None = None


STEPS: dict[str, tuple[Step, ...]] = {
    "q3": (Step("seller", Join(before=FOR_EVER, after=FOR_EVER, delay=DELAY)),),
    "q4": (
        Step("auction", Join(after=f"{LONGEST_US} us", delay=DELAY)),
        Step("auction", winning, lambda pairs: pairs.where("right_time <= left_expires")),
        Step("category", Aggregate(mean=agg.mean("price"))),
    ),
    "q5": (
        Step("auction", Windows(hopping(SIZE, every=HOP), on="time", delay=DELAY, n=agg.count())),
        Step("window_start", hottest),
    ),
    "q7": (Step("window_start", highest),),
    "q8": (Step(("id", "window_start"), Join("semi", before=SIZE, after=SIZE, delay=DELAY)),),
    "q11": (Step("bidder", Windows(session(GAP), on="time", delay=DELAY, n=agg.count())),),
    "q12": (Step("bidder", Windows(tumbling(SIZE), on="time", delay=DELAY, n=agg.count())),),
    "q18": (Step(("bidder", "auction"), TopK(1, by="time", keep=["price", "channel", "time"])),),
}


def rows_of(query: str, streams: Streams) -> DataFrame:
    """What goes into the first stage."""
    from pyspark.sql import functions as F

    from headgate.spark.two_streams import two_streams

    window = F.window("time", SIZE).start.alias("window_start")
    match query:
        case "q3":
            local = streams["person"].where(F.col("state").isin(*LOCAL)).withColumnRenamed("id", "seller")
            sold = streams["auction"].where(F.col("category") == CATEGORY).select("seller", "id", "time")
            return two_streams(local, sold, key="seller", time="time")
        case "q4":
            opened = streams["auction"].selectExpr("id as auction", "category", "time", "expires")
            bids = streams["bid"].select("auction", "price", "time")
            return two_streams(opened, bids, key="auction", time="time")
        case "q7":
            return streams["bid"].select("auction", "bidder", "price", "time", window)
        case "q8":
            persons = streams["person"].select("id", "name", "time", window)
            sellers = streams["auction"].select(F.col("seller").alias("id"), "time", window)
            return two_streams(persons, sellers, key=("id", "window_start"), time="time")
    return streams["bid"]


def start(streams: Streams, job: Job) -> Any:
    """The streaming query over all of the input."""
    from headgate.spark.pipeline import Pipeline
    from headgate.spark.stage import Stage
    from headgate.stage import sinks
    from headgate.stage.settings import Expansion, Routing

    steps = STEPS[job.operator]
    stages = [
        Stage(
            key=step.key,
            operator=step.operator,
            expansion=Expansion(step=step.expand),
            routing=Routing(channels=CORES),
            checkpoint=f"{job.work}/stage-{number}",
            sink=sinks.Parquet(f"{job.work}/out") if step is steps[-1] else None,
        )
        for number, step in enumerate(steps)
    ]
    return started(rows_of(job.operator, streams), Pipeline(*stages), job)
