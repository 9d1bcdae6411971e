"""`headgate cliques` and `headgate rmat`: cliques of a graph under nested gates, and graphs to try it on."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table as Grid

from headgate.cli.console import Tick
from headgate.errors import ConfigError
from headgate.flow.gate import Gate
from headgate.spark.local import local_spark
from headgate_lab.graphs.extend import check_size
from headgate_lab.graphs.rmat import rmat
from headgate_lab.memory import watched

WIDE = Gate(in_flight=2, batch=16_000_000)
"""A proposal takes some 25 ns, and only those that succeed leave a task: waves can be large."""


@dataclass(frozen=True)
class CliqueOptions:
    """The options of the command line."""

    graph: str
    size: int = 3
    out: Path | None = None
    gate: Gate = WIDE
    cores: int = 2
    memory: str = "1g"
    strict: bool = False
    log: Path = Path("headgate-cliques.log")


def find(options: CliqueOptions, tick: Tick) -> dict[str, Any]:
    """Count or list cliques, on a local Spark."""
    check_size(options.size)
    if options.out is not None and options.out.exists():
        raise ConfigError(f"{options.out} exists; name a new folder")
    if not Path(options.graph).exists():
        raise ConfigError(f"there is no file {options.graph}; `headgate rmat` makes one to try")
    with local_spark(options.cores, options.log, {"spark.driver.memory": options.memory}) as spark:
        return on_session(spark, options, tick)


def on_session(spark: Any, options: CliqueOptions, tick: Tick) -> dict[str, Any]:
    """The same on an existing session."""
    from headgate.spark.gates.bounded import Wave
    from headgate_lab.cliques import cliques, count_of, index, read_edges

    waves: list[Wave] = []

    def told(wave: Wave) -> None:
        waves.append(wave)
        tick(f"{options.size}-cliques: wave {len(waves)} of {wave.rows:,} proposals", 0.1 + 0.9 * wave.part)

    with tempfile.TemporaryDirectory(prefix="headgate-graph-") as folder, watched() as memory:
        tick("reading the graph", 0.0)
        started = time.perf_counter()
        graph = index(read_edges(spark, options.graph), folder)
        if options.strict and (graph.malformed or graph.self_loops or graph.duplicates):
            raise ConfigError(
                f"{options.graph} has {graph.malformed:,} malformed edges, {graph.self_loops:,} self-loops and "
                f"{graph.duplicates:,} duplicates; remove them, or omit --strict"
            )
        indexed = time.perf_counter()
        tick(f"{options.size}-cliques", 0.1)
        answer = cliques(
            spark, graph, options.size, counting=options.out is None, gate=options.gate, on_wave=told
        )
        if options.out is None:
            number = count_of(answer)
        else:
            answer.to(str(options.out))
            number = spark.read.parquet(str(options.out)).count() if waves else 0
        ended = time.perf_counter()
    return {
        "graph": options.graph,
        "size": options.size,
        "cliques": number,
        "vertices": graph.vertices,
        "edges": graph.edges,
        "malformed": graph.malformed,
        "self_loops": graph.self_loops,
        "duplicates": graph.duplicates,
        "waves": len(waves),
        "proposals": sum(wave.rows for wave in waves),
        "index_s": round(indexed - started, 3),
        "search_s": round(ended - indexed, 3),
        "peak_mb": round(memory.peak / 1e6),
        "out": None if options.out is None else str(options.out),
    }


def as_table(figures: dict[str, Any]) -> Grid:
    """The figures for a terminal."""
    grid = Grid(
        title=f"{figures['size']}-cliques of {figures['graph']}", title_justify="left", show_header=False
    )
    grid.add_column()
    grid.add_column(justify="right", overflow="fold")
    grid.add_row("cliques", f"{figures['cliques']:,}", style="bold")
    grid.add_row("vertices, edges", f"{figures['vertices']:,}, {figures['edges']:,}")
    dropped = [
        f"{figures[name]:,} {name.replace('_', '-')}" for name in ("malformed", "self_loops", "duplicates")
    ]
    grid.add_row("left out", ", ".join(dropped))
    grid.add_row("outer waves, proposals in them", f"{figures['waves']:,}, {figures['proposals']:,}")
    grid.add_row("reading and indexing", f"{figures['index_s']:.1f} s")
    grid.add_row("searching", f"{figures['search_s']:.1f} s")
    grid.add_row("peak memory, Spark and all", f"{figures['peak_mb']:,} MB")
    if figures["out"]:
        grid.add_row("written to", figures["out"])
    return grid


def generate(out: Path, scale: int, edges: int, seed: int) -> dict[str, Any]:
    """Write a random graph: as Parquet or as text, depending on the end of the file name."""
    made = rmat(scale, edges, np.random.default_rng(seed).random)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".parquet":
        pq.write_table(pa.table({"source": made.source, "target": made.target}), out)
    else:
        np.savetxt(out, np.column_stack([made.source, made.target]), fmt="%d", delimiter=" ")
    return {"out": str(out), "vertices": made.vertices, "edges": len(made), "seed": seed}
