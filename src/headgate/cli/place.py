"""`headgate place`: a file of queries placed on servers by any algorithm, with what that costs and what it could at best."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table as Grid

from headgate.cli.console import Tick, unknown
from headgate.cli.place_files import FORMATS, read_workload, write_assignment
from headgate.errors import ConfigError
from headgate.hosting import RULES, Balance, Repair, Replay, Workload
from headgate.hosting.balance import server_sizes
from headgate.hosting.offline.algorithms import ALGORITHMS, offline_limits, solve
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.offline.bounds import capacity_bound, expected_random_traffic
from headgate.hosting.offline.hypergraph import partition
from headgate.hosting.online.rules import rule_of
from headgate.hosting.placement.state import FALLBACKS, MOVED_QUERIES, SAVED_TRAFFIC

KNOWN = (*RULES, *ALGORITHMS, "hypergraph")
CHUNK = 50_000
LARGE_BYTES = 1_000_000_000
"""A file of queries above this is read on Spark, unless told otherwise."""


@dataclass(frozen=True)
class Wish:
    """What is asked for on the command line."""

    file: Path
    sources: Path | None
    servers: int
    sizes: str | None
    algorithm: str
    balance: Balance
    repair: Repair
    seed: int
    out: Path | None
    spark: bool | None


def place(wish: Wish, tick: Tick) -> dict[str, Any]:
    """Read, place, write; return what came out as plain data."""
    if wish.algorithm not in KNOWN:
        raise unknown("algorithm", wish.algorithm, KNOWN)
    if wish.out is not None and wish.out.suffix.lower() not in FORMATS:
        raise ConfigError(f"{wish.out}: the ending says the format, one of {', '.join(FORMATS)}")
    if wish.repair.moves and wish.algorithm not in RULES:
        raise ConfigError(
            f"repair follows events, and {wish.algorithm} has none: choose one of {', '.join(RULES)}"
        )
    sizes = server_sizes(sized(wish.sizes) if wish.sizes else wish.servers)
    on_spark = (
        wish.spark
        if wish.spark is not None
        else wish.file.exists() and wish.file.stat().st_size > LARGE_BYTES
    )
    tick(f"reading {wish.file.name}{' on Spark' if on_spark else ''}", 0.0)
    if on_spark:
        from headgate.cli.place_spark import placed_on_spark

        return placed_on_spark(wish, sizes, tick)
    load = read_workload(wish.file, wish.sources)
    found, extra = placed(load, sizes, wish, tick)
    if wish.out is not None:
        tick(f"writing {wish.out.name}", 0.95)
        write_assignment(wish.out, load, found.server_of)
    tick("done", 1.0)
    return report(load, found, wish, extra)


def sized(text: str) -> list[float]:
    """Return sizes from "1,1,2" or "1x10,4x2".

    >>> sized("1x2,4")
    [1.0, 1.0, 4.0]
    """
    sizes: list[float] = []
    for part in text.split(","):
        size, _, times = part.partition("x")
        try:
            sizes += [float(size)] * (int(times) if times else 1)
        except ValueError:
            raise ConfigError(f"--sizes {text!r}: give sizes like 1,1,2 or 1x10,4x2") from None
    return sizes


def placed(load: Workload, sizes: Any, wish: Wish, tick: Tick) -> tuple[Assignment, dict[str, float]]:
    """Place a workload; online rules see the queries in the order of the file."""
    limits = offline_limits(load, sizes, wish.balance)  # raises if the queries cannot fit at all
    if wish.algorithm in RULES:
        limits = wish.balance.online_limits(load.total_cost, load.queries, sizes)
    draw = np.random.default_rng(wish.seed).random
    tick(f"grouping {load.queries:,} queries", 0.1)
    tick(f"{wish.algorithm}: {len(load.types):,} types", 0.2)
    if wish.algorithm == "hypergraph":
        return partition(load, sizes, limits, seed=wish.seed), {}
    if wish.algorithm in ALGORITHMS:
        return solve(load, sizes.tolist(), wish.algorithm, balance=wish.balance, chance=draw(100_003)), {}
    replay = Replay(load, sizes, rule_of(wish.algorithm), balance=wish.balance, repair=wish.repair, draw=draw)
    for begin in range(0, load.queries, CHUNK):
        replay.arrive(np.arange(begin, min(begin + CHUNK, load.queries)))
        tick(f"{wish.algorithm}: {begin:,} of {load.queries:,} placed", 0.2 + 0.7 * begin / load.queries)
    totals = replay.state.totals
    extra = {"fallbacks": float(totals[FALLBACKS])}
    if wish.repair.moves:
        extra |= {"moves": float(totals[MOVED_QUERIES]), "saved_traffic": float(totals[SAVED_TRAFFIC])}
    return replay.assignment(limits), extra


def report(load: Workload, found: Assignment, wish: Wish, extra: dict[str, float]) -> dict[str, Any]:
    """Return the figures of a placement."""
    floor = capacity_bound(load, found.limits)
    k = found.sizes.shape[0]
    return {
        "algorithm": wish.algorithm,
        "queries": load.queries,
        "types": len(load.types),
        "sources": load.sources,
        "servers": k,
        "traffic": round(found.traffic, 6),
        "needed": round(load.rate_in_use, 6),
        "replication": round(found.replication, 6),
        "floor": round(floor / load.rate_in_use if load.rate_in_use else 1.0, 6),
        "random": round(expected_random_traffic(load, k) / load.rate_in_use if load.rate_in_use else 1.0, 6),
        "largest_load": float(found.loads.max()),
        "mean_load": float(found.loads.mean()),
        "imbalance": round(found.imbalance, 6),
        **extra,
        "out": str(wish.out) if wish.out else None,
    }


def as_table(data: dict[str, Any]) -> Grid:
    """The figures for a terminal."""
    grid = Grid(
        title=f"{data['queries']:,} queries on {data['servers']:,} servers by {data['algorithm']}",
        title_justify="left",
        show_header=False,
    )
    grid.add_column("what")
    grid.add_column("value", justify="right")
    grid.add_column("means", style="dim")
    rows = (
        ("query types", f"{data['types']:,}", f"over {data['sources']:,} sources"),
        ("replication factor", f"{data['replication']:.4f}", "traffic / rate of the sources in use"),
        ("  at best", f">= {data['floor']:.4f}", "capacity bound: no placement within the limits is below"),
        ("  at random", f"{data['random']:.4f}", "expected, every query on any server"),
        ("traffic", f"{data['traffic']:,.6g}", "each source once for each server that needs it"),
        (
            "largest load",
            f"{data['largest_load']:,.6g}",
            f"mean {data['mean_load']:,.6g}; {data['imbalance']:.3f} of the fair share",
        ),
    )
    for row in rows:
        grid.add_row(*row)
    if data.get("fallbacks"):
        grid.add_row(
            "beyond the limit", f"{data['fallbacks']:,.0f}", "no server had room within the balance limit"
        )
    if "moves" in data:
        grid.add_row("moves", f"{data['moves']:,.0f}", f"saved {data['saved_traffic']:,.6g} of traffic")
    if data["out"]:
        grid.add_row("written to", data["out"], "query, server")
    return grid
