"""The query service at full size: registration, time of a batch, memory, cost as queries are added, traffic, and two rivals.

One process holds the service, its HTTP and Spark on two cores, as `headgate serve` does. Rows come through the push log, fifty
thousand at a time; the time of a batch is from the moment its rows are durable to its commit. Then the two largest services
are started again from their folders, on a standalone cluster of two workers with one core each, and get more batches.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headgate.cli import pictures
from headgate.cli.console import Tick
from headgate.hosting import DEFAULT_RULE
from headgate.service.collecting import settled
from headgate.service.http.background import listening
from headgate.service.http.client import Client
from headgate.service.service import Service
from headgate.service.settings import Settings
from headgate.spark.local import local_spark
from headgate.sql.limits import Limits
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.service_rivals import spark_queries, unshared
from headgate_lab.bench.service_world import COLUMNS, World
from headgate_lab.bench.standalone import standalone
from headgate_lab.memory import watched

SERVERS = 8
BATCHES = 22
MILLION_BATCHES = 6
CLUSTER_WARM = 6
"""Batches on the cluster that do not count: its executors are new, while those of one process have run smaller services."""
MOST_S = 60.0
"""A batch for which Spark queries of their own take longer counts as not answered."""
MOST_RIVALS = 32
"""How many Spark queries of their own there are at most. To start and to stop each takes a second or two, and 256 of them
more than ten minutes."""
BULK = 5_000
CONF = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
LIMITS = Limits(queries=2_000_000)
TENANT = "bench"


@dataclass(frozen=True)
class Measured:
    """What one size gave."""

    queries: int
    computations: int
    registered_per_s: float
    batch_s: tuple[float, ...]
    cpu_s: float
    """Of all servers' tasks in the middle batch: what a busy machine does not change."""
    results: int
    memory_gb: float
    sent_bytes: float
    off_by: float
    """Predicted over measured bytes, less 1: the largest after the first batches."""
    replication: float
    idle_s: float
    """The middle time of a batch of a few rows of the source that fewest queries read."""

    @property
    def p95_s(self) -> float:
        """The 95th percentile of a batch's time."""
        return float(np.percentile(self.batch_s, 95))

    @property
    def per_query_us(self) -> float:
        """The middle batch's time for each query."""
        return 1e6 * float(np.median(self.batch_s)) / self.queries


@dataclass(frozen=True)
class Again:
    """What a service gave that was started again, on the cluster."""

    queries: int
    start_s: float
    """Until it has read all that was registered."""
    batch_s: tuple[float, ...]
    memory_gb: float

    @property
    def p95_s(self) -> float:
        """The 95th percentile of a batch's time."""
        return float(np.percentile(self.batch_s, 95))


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure everything; `repeat` lengthens the run of batches."""
    where = machine()
    sizes = (500, 2_000) if quick else (1_000, 10_000, 100_000)
    shape = {"sources": 100, "rows": 5_000} if quick else {}
    batches = (4 if quick else BATCHES) * repeat
    log = Path(tempfile.mkdtemp(prefix="headgate-bench-")) / "spark.log"
    found = list[Measured]()
    worlds = [World(size, **shape) for size in sizes] + ([] if quick else [World(1_000_000)])
    folders = [log.parent / f"service-{world.queries}" for world in worlds]
    try:
        with local_spark(2, log, CONF) as spark:
            for at, (world, folder) in enumerate(zip(worlds, folders, strict=True)):
                progress(f"{world.queries:,} queries", 0.05 + 0.45 * at / len(worlds))
                million = world.queries == 1_000_000
                found.append(measure(spark, world, MILLION_BATCHES if million else batches, folder=folder))
            progress("placement", 0.5)
            large, few = World(sizes[-1], **shape), max(4, batches // 3)
            placed = [
                measure(spark, large, few, rule=r, tasks=SERVERS) for r in (DEFAULT_RULE.name, "on-rand")
            ]
            progress("one Spark query each", 0.6)
            broken = spark_queries(
                spark, World(sizes[0], **shape), most_s=MOST_S, most=8 if quick else MOST_RIVALS
            )
        progress("on a cluster", 0.75)
        with standalone(log.parent / "cluster") as master, local_spark(2, log, CONF, master=master) as spark:
            which = range(len(worlds))[-1 if quick else -2 :]
            again = [
                started_again(spark, worlds[i], folders[i], 2 if quick else MILLION_BATCHES) for i in which
            ]
    except BaseException:
        shutil.rmtree(log.parent, ignore_errors=True)
        raise
    progress("without sharing", 0.9)
    alone = unshared(World(sizes[-1], **shape), sample=100 if quick else 500)
    shutil.rmtree(log.parent, ignore_errors=True)
    return _report(found, len(sizes), placed, again, broken, alone, where, quick=quick)


def measure(
    spark: Any,
    world: World,
    batches: int,
    *,
    rule: str = DEFAULT_RULE.name,
    tasks: int = 0,
    folder: Path | None = None,
) -> Measured:
    """Register a world's queries over HTTP and give it batches. A folder that is given is kept."""
    where = folder or Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        with watched() as memory, served(spark, where, rule, tasks) as service:
            registered = register(service, world)
            # Workers warm up in the first two batches.
            spent = [answered(service, world.batch(number)) for number in range(batches)][2:]
            facts = [f for f in list(service.facts)[2:] if f["predicted_bytes"]]
            idle = [answered(service, world.idle_batch(number)) for number in range(batches, batches + 5)]
            return Measured(
                queries=service.queries.count(),
                computations=len(service.computations.by_id),
                registered_per_s=registered,
                batch_s=tuple(spent),
                cpu_s=float(np.median([f["cpu_ms"] for f in facts])) / 1e3,
                results=int(np.median([f["results"] for f in facts])),
                memory_gb=memory.peak / 1e9,
                sent_bytes=float(np.median([f["sent_bytes"] for f in facts])),
                off_by=max(abs(f["predicted_bytes"] / f["sent_bytes"] - 1) for f in facts),
                replication=facts[-1]["replication"],
                idle_s=float(np.median(idle[1:])),
            )
    finally:
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)


def register(service: Service, world: World) -> float:
    """Register a world's queries in bulk over HTTP; returns how many a second."""
    texts = world.texts()
    with (
        listening(service) as url,
        Client(url, service.add_tenant("bench"), timeout=600) as client,
    ):
        client.add_sources([{"name": n, "columns": COLUMNS, "delay_s": 1} for n in world.names])
        client.register_many(texts[:50])  # reads most of the shapes
        began = time.perf_counter()
        for at in range(50, len(texts), BULK):
            client.register_many(texts[at : at + BULK])
        return (len(texts) - 50) / (time.perf_counter() - began)


def started_again(spark: Any, world: World, folder: Path, batches: int) -> Again:
    """Start a service again from its folder and give it batches; the folder is removed."""
    try:
        began = time.perf_counter()
        with watched() as memory, served(spark, folder, DEFAULT_RULE.name, 0) as service:
            start_s = time.perf_counter() - began
            numbers = range(BATCHES + 100, BATCHES + 100 + CLUSTER_WARM + batches)
            spent = [answered(service, world.batch(number)) for number in numbers][CLUSTER_WARM:]
            return Again(service.queries.count(), start_s, tuple(spent), memory.peak / 1e9)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answered(service: Service, rows: Any) -> float:
    """Seconds from when a batch's rows are durable to the commit that has all of them."""
    before = service.last_batch
    service.push_log.append(TENANT, rows)
    began = time.perf_counter()
    while service.last_batch == before:
        if service.failure:
            raise RuntimeError(service.failure)
        time.sleep(0.005)
    return time.perf_counter() - began


@contextmanager
def served(spark: Any, folder: Path, rule: str, tasks: int) -> Iterator[Service]:
    """A service whose batches run on Spark."""
    from headgate.service.batch.runner import Runner

    with ExitStack() as stack:
        repair = Settings.repair if rule == DEFAULT_RULE.name else 0
        settings = Settings(
            folder, servers=SERVERS, kept_batches=3, rule=rule, limits=LIMITS, tasks=tasks, repair=repair
        )
        service = Service(settings)
        stack.callback(service.close)
        runner = Runner(service, spark)
        stack.callback(runner.stop)
        runner.start()
        settled()  # as `headgate serve` does
        yield service


def _report(
    found: list[Measured],
    asked: int,
    placed: list[Measured],
    again: list[Again],
    broken: list[tuple[int, float | None]],
    alone: tuple[float, ...],
    where: dict[str, Any],
    *,
    quick: bool,
) -> Report:
    results = list[Result]()
    alone_us = float(np.mean(alone))
    for one in found:
        name = f"{one.queries:,} queries"
        results += [
            Result(f"{name}: registered over HTTP", "queries/s", one.registered_per_s, None, None, {}),
            Result(
                f"{name}: a batch, 95th percentile",
                "s",
                one.p95_s,
                None,
                None,
                {f"{name}, batch s": one.batch_s},
            ),
            Result(
                f"{name}: a batch, for each query",
                "us",
                one.per_query_us,
                "the same engine, each alone",
                alone_us,
                {"each alone, us": alone[:50]} if one is found[0] else {},
            ),
            Result(f"{name}: CPU of a batch's tasks", "s", one.cpu_s, None, None, {}),
            Result(f"{name}: distinct computations", "", one.computations, None, None, {}),
            Result(f"{name}: results of a batch", "rows", one.results, None, None, {}),
            Result(f"{name}: memory of all processes", "GB", one.memory_gb, None, None, {}),
            Result(f"{name}: bytes a batch sent", "B", one.sent_bytes, None, None, {}),
            Result(f"{name}: predicted bytes, furthest off", "%", 100 * one.off_by, None, None, {}),
            Result(f"{name}: a batch of few rows of one source", "s", one.idle_s, None, None, {}),
        ]
    for other in again:
        name = f"{other.queries:,} queries, cluster of two workers"
        samples = {f"{name}, batch s": other.batch_s}
        results += [
            Result(f"{name}: start", "s", other.start_s, None, None, {}),
            Result(f"{name}: a batch, 95th percentile", "s", other.p95_s, None, None, samples),
            Result(f"{name}: memory of all processes", "GB", other.memory_gb, None, None, {}),
        ]
    large, (ours, chance) = found[asked - 1], placed
    results.append(
        Result(
            f"{large.queries:,} queries, a task each server: bytes a batch sent",
            "B",
            ours.sent_bytes,
            "placed at random",
            chance.sent_bytes,
            {},
        )
    )
    for number, seconds in broken:
        name = f"{number} Spark streaming queries: all have answered a batch"
        said = name if seconds is not None else name.replace("all have", "not all have") + " after"
        results.append(Result(said, "s", MOST_S if seconds is None else seconds, None, None, {}))
    idle_us = 1e6 * (found[-1].idle_s - found[0].idle_s) / (found[-1].queries - found[0].queries)
    goals = (
        Goal("bulk registration", 20_000, large.registered_per_s, unit="/s"),
        Goal(f"a batch for {large.queries:,}, 95th percentile", 1, large.p95_s, at_most=True, unit=" s"),
        Goal(
            f"a batch for {found[-1].queries:,}, 95th percentile", 3, found[-1].p95_s, at_most=True, unit=" s"
        ),
        *(
            Goal(
                f"a batch for {one.queries:,} on a cluster, 95th percentile",
                bound,
                one.p95_s,
                at_most=True,
                unit=" s",
            )
            for one, bound in zip(again, (1, 3)[-len(again) :], strict=True)
        ),
        Goal(f"start with {again[-1].queries:,} registered", 30, again[-1].start_s, at_most=True, unit=" s"),
        Goal("an idle query costs a batch", 0.1, idle_us, at_most=True, unit=" us"),
        Goal("memory", 8, large.memory_gb, at_most=True, unit=" GB"),
        Goal(
            "cost of a query falls tenfold to hundredfold",
            1,
            large.per_query_us / found[0].per_query_us,
            at_most=True,
        ),
        Goal("shuffle bytes off the prediction", 5, 100 * large.off_by, at_most=True, unit="%"),
        Goal("random placement's bytes over ours", 2, chance.sent_bytes / ours.sent_bytes),
    )
    return Report(
        "service",
        tuple(results),
        goals,
        machine=where,
        quick=quick,
        picture=_picture(found, broken, alone_us),
    )


def _picture(found: list[Measured], broken: list[tuple[int, float | None]], alone_us: float) -> Any:
    from headgate_lab.papers.gedik.plots import new

    figure, axes = new(2, "The query service: a batch of rows answered for everyone")
    sizes = [one.queries for one in found]
    axes[0].plot(sizes, [one.per_query_us for one in found], marker="o", color=pictures.BLUE, label="shared")
    axes[0].plot(
        sizes,
        [alone_us] * len(sizes),
        linestyle="--",
        color=pictures.RED,
        label="the same engine, each alone",
    )
    answered = [(n, s) for n, s in broken if s is not None]
    if answered:
        axes[0].plot(
            [n for n, _ in answered],
            [1e6 * s / n for n, s in answered],
            marker="s",
            color=pictures.GREY,
            label="a Spark query each",
        )
    axes[0].set_xscale("log")
    axes[0].set_yscale("log")
    axes[0].set_xlabel("queries")
    axes[0].set_ylabel("microseconds a query and batch")
    axes[0].legend(frameon=False)
    axes[1].plot(sizes, [one.p95_s for one in found], marker="o", color=pictures.BLUE)
    axes[1].axhline(1, linestyle=":", color=pictures.GREY)
    axes[1].set_xscale("log")
    axes[1].set_ylim(bottom=0)
    axes[1].set_xlabel("queries")
    axes[1].set_ylabel("seconds a batch, 95th percentile")
    return figure
