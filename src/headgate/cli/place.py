"""`headgate place`: place a file of queries on servers by any algorithm, and show its cost
beside a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

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
from headgate.routing.lower_bound import busiest_bound

KNOWN = (*RULES, *ALGORITHMS, "hypergraph")
CHUNK = 50_000
LARGE_BYTES = 1_000_000_000
"""A larger file of queries is by default read on Spark."""


@dataclass(frozen=True)
class PlaceOptions:
    """The options of the command line."""

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


def place(options: PlaceOptions, tick: Tick) -> dict[str, Any]:
    """Read, place and write; return the figures of the placement as plain data."""
    if options.algorithm not in KNOWN:
        raise unknown("algorithm", options.algorithm, KNOWN)
    if options.out is not None and options.out.suffix.lower() not in FORMATS:
        raise ConfigError(f"{options.out}: the file name must end in one of {', '.join(FORMATS)}")
    if options.repair.moves and options.algorithm not in RULES:
        raise ConfigError(
            f"--repair works with online rules, and {options.algorithm} is none: choose one of {', '.join(RULES)}"
        )
    sizes = server_sizes(sized(options.sizes) if options.sizes else options.servers)
    on_spark = (
        options.spark
        if options.spark is not None
        else options.file.exists() and options.file.stat().st_size > LARGE_BYTES
    )
    tick(f"reading {options.file.name}{' on Spark' if on_spark else ''}", 0.0)
    if on_spark:
        from headgate.cli.place_spark import placed_on_spark

        return placed_on_spark(options, sizes, tick)
    load = read_workload(options.file, options.sources)
    assignment, extra = placed(load, sizes, options, tick)
    if options.out is not None:
        tick(f"writing {options.out.name}", 0.95)
        write_assignment(options.out, load, assignment.server_of)
    tick("done", 1.0)
    return report(load, assignment, options, extra)


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


def placed(
    load: Workload, sizes: Any, options: PlaceOptions, tick: Tick
) -> tuple[Assignment, dict[str, float]]:
    """Place a workload; online rules see the queries in the order of the file."""
    limits = offline_limits(load, sizes, options.balance)  # raises if the queries cannot fit at all
    if options.algorithm in RULES:
        limits = options.balance.online_limits(load.total_cost, load.queries, sizes)
    draw = np.random.default_rng(options.seed).random
    tick(f"grouping {load.queries:,} queries", 0.1)
    tick(f"{options.algorithm}: {len(load.types):,} types", 0.2)
    if options.algorithm == "hypergraph":
        return partition(load, sizes, limits, seed=options.seed), {}
    if options.algorithm in ALGORITHMS:
        return solve(
            load, sizes.tolist(), options.algorithm, balance=options.balance, chance=draw(100_003)
        ), {}
    replay = Replay(
        load, sizes, rule_of(options.algorithm), balance=options.balance, repair=options.repair, draw=draw
    )
    for begin in range(0, load.queries, CHUNK):
        replay.arrive(np.arange(begin, min(begin + CHUNK, load.queries)))
        tick(f"{options.algorithm}: {begin:,} of {load.queries:,} placed", 0.2 + 0.7 * begin / load.queries)
    totals = replay.state.totals
    extra = {"fallbacks": float(totals[FALLBACKS])}
    if options.repair.moves:
        extra |= {"moves": float(totals[MOVED_QUERIES]), "saved_traffic": float(totals[SAVED_TRAFFIC])}
    return replay.assignment(limits), extra


def report(
    load: Workload, assignment: Assignment, options: PlaceOptions, extra: dict[str, float]
) -> dict[str, Any]:
    """Return the figures of a placement."""
    floor = capacity_bound(load, assignment.limits)
    k = assignment.sizes.shape[0]
    return {
        "algorithm": options.algorithm,
        "queries": load.queries,
        "types": len(load.types),
        "sources": load.sources,
        "servers": k,
        "traffic": round(assignment.traffic, 6),
        "needed": round(load.rate_in_use, 6),
        "replication": round(assignment.replication, 6),
        "floor": round(floor / load.rate_in_use if load.rate_in_use else 1.0, 6),
        "random": round(expected_random_traffic(load, k) / load.rate_in_use if load.rate_in_use else 1.0, 6),
        "largest_load": float(assignment.loads.max()),
        "mean_load": float(assignment.loads.mean()),
        "imbalance": round(assignment.imbalance, 6),
        "imbalance_bound": round(busiest_bound(load.cost, k, speeds=assignment.sizes), 6),
        **extra,
        "out": str(options.out) if options.out else None,
    }


def as_table(data: dict[str, Any]) -> RenderableType:
    """The figures for a terminal."""
    grid = Grid(
        title=f"{data['queries']:,} queries on {data['servers']:,} servers by {data['algorithm']}",
        title_justify="left",
        show_header=False,
    )
    grid.add_column("figure")
    grid.add_column("value", justify="right")
    grid.add_column("means", style="dim")
    rows = (
        ("query types", f"{data['types']:,}", f"over {data['sources']:,} sources"),
        ("replication factor", f"{data['replication']:.4f}", "traffic / rate of the sources in use"),
        ("  at best", f">= {data['floor']:.4f}", "capacity bound: no placement within the limits is lower"),
        ("  at random", f"{data['random']:.4f}", "expected if every query is on any server"),
        ("traffic", _number(data["traffic"]), "each source, once for each server that needs it"),
        (
            "largest load",
            _number(data["largest_load"]),
            f"mean {_number(data['mean_load'])}; {data['imbalance']:.3f} of the fair share, "
            f"at best {data['imbalance_bound']:.3f}",
        ),
    )
    for row in rows:
        grid.add_row(*row)
    if data.get("fallbacks"):
        grid.add_row(
            "beyond the limit", f"{data['fallbacks']:,.0f}", "no server had room within the balance limit"
        )
    if "moves" in data:
        grid.add_row("moves", f"{data['moves']:,.0f}", f"saved {_number(data['saved_traffic'])} of traffic")
    return Group(grid, Text(f"written to {data['out']}: query, server")) if data["out"] else grid


def _number(value: float) -> str:
    """A number with separators and at most six digits, or all of them before the point.

    >>> _number(123456789.25), _number(1.5)
    ('123,456,789', '1.5')
    """
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.6g}"
