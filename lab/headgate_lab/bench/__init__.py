"""Benchmarks by name, each beside its native twin: `run("aggregate")`. How to read
them: `benchmarks/README.md`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headgate.cli.console import Tick, unknown
from headgate.errors import ConfigError
from headgate.spark.local import check_installed

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from headgate_lab.bench.result import Report

BENCHES = {
    "aggregate": "count, sum and max per key against native groupBy().agg(); untouched state; the fixed cost of a batch",
    "default": "the default policy beside static routing on balanced streams: what adapting costs where there is nothing to adapt",
    "history": "the last 100 rows per key, mean and std for every row, against native transformWithState in Python",
    "kernel": "a user's function per row, compiled, against native transformWithState in Python; the first batch after a start",
    "skew": "rows of the busiest channel over the mean with hot keys pinned, beside static routing; output against native",
    "rebalance": "a slow channel, a channel short of memory and bursts, under Flux's policies beside static routing; output against native",
    "rescale": "the time of a batch while the number of channels changes, beside none, a change at once, and native Spark restarted",
    "join": "a stream probing a built table with one of three channels perturbed: response time under mpc beside static routing",
    "service": "standing queries: registration, a batch for everyone, memory, traffic; one Spark query each, the engine without sharing",
    "tenants": "a hostile tenant beside a hundred good ones: how long they wait from push to result, with it and without",
    "faucet": "a step that explodes behind a gate and without: time, memory, stragglers; cliques beside a Spark SQL self-join",
    "operators": "windows, dedup, lists of the largest and a join of two streams against native Spark's own",
    "direct": "direct streams beside foreachBatch and native Spark over the same files: aggregates, kernels, operators, Nexmark, state",
    "sinks": "direct streams into Delta, Iceberg, PostgreSQL and SQLite, appended and upserted, beside the plain Parquet sink",
    "kafka": "Kafka on a real broker: a backlog, latency at fixed rates and the sink, beside native Spark with its own connector",
    "observe": "what it costs to be watched: a direct stream with metrics, traces, listeners and logs on, beside the same with none",
    "nexmark": "queries of the Nexmark suite, each against native Spark's own; every answer compared",
    "doctor": "what headgate doctor predicts for ten native jobs, beside their ports as measured",
    "placement": "placing queries on servers: the default beside every rule on a family of workloads, and its speed; no Spark",
    "policies": "the default policy beside each fixed one on the streams of skew and the troubles of rebalance, in modelled time; no Spark",
    "control": "static, Flux, LQR, MPC and an oracle under four loads, and loads drawn anew, on 3 to 128 modelled channels; no Spark",
    "pipeline": "two stages on the same machines: one controller for both beside a controller each, in modelled time; no Spark",
    "codecs": "values of Kafka records as columns: Avro and Protobuf beside JSON and libraries that take one record each; no Spark",
    "partitioning": "building, lookup and hot-key tracking of partitioning functions; no Spark",
}

WITHOUT_SPARK = frozenset({"placement", "policies", "control", "pipeline", "partitioning", "codecs"})
WITH_PARTS = frozenset({"control", "direct", "faucet", "kafka", "placement", "rebalance", "rescale"})
WITH_SEEDS = frozenset({"control", "placement"})


def names() -> tuple[str, ...]:
    """The benchmarks that there are."""
    return tuple(BENCHES)


def listing() -> Grid:
    """Names and what they measure."""
    from rich.table import Table

    grid = Table("bench", "what it measures", title="headgate bench NAME", title_justify="left")
    for name in names():
        grid.add_row(name, BENCHES[name])
    return grid


def run(
    name: str,
    *,
    quick: bool = False,
    repeat: int = 1,
    progress: Tick | None = None,
    only: Sequence[str] = (),
    seed: int | None = None,
) -> Report:
    """Run a benchmark. `quick` takes small sizes, to see that it works; `repeat` rounds alternate
    the order of the systems; `only` names the parts to run, of a bench that has parts; `seed` is the
    first of a bench that draws its instances anew.
    """
    if name not in names():
        raise unknown("bench", name, names())
    if repeat < 1:
        raise ConfigError(f"repeat={repeat}: at least one round")
    if only and name not in WITH_PARTS:
        raise ConfigError(f"bench {name} has no parts to choose from: leave out --only")
    if seed is not None and name not in WITH_SEEDS:
        raise ConfigError(f"bench {name} has no seed: leave out --seed")
    if name not in WITHOUT_SPARK:
        check_installed()
    module: Any = importlib.import_module(f"headgate_lab.bench.{name}")
    parts: dict[str, Any] = {"only": only} if only else {}
    if seed is not None:
        parts["seed"] = seed
    report: Report = module.run(
        quick=quick, repeat=repeat, progress=progress or (lambda what, part: None), **parts
    )
    return report
