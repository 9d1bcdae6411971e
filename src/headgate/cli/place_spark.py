"""`headgate place --spark`: the queries stay on Spark, and only their types come to the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from headgate.cli.console import Tick
from headgate.cli.place import PlaceOptions, placed, report
from headgate.cli.place_files import built, read_rates
from headgate.errors import ConfigError
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.workload import Workload
from headgate.spark.local import local_spark


def placed_on_spark(options: PlaceOptions, sizes: Any, tick: Tick) -> dict[str, Any]:
    """Group on Spark, place here, join back on Spark."""
    if not options.file.exists():
        raise ConfigError(f"there is no file {options.file}")
    with local_spark(2, Path("headgate-place.log"), ours=False) as spark:
        return on_session(spark, options, sizes, tick)


def on_session(spark: Any, options: PlaceOptions, sizes: Any, tick: Tick) -> dict[str, Any]:
    """The same on an existing session. Spark keeps no order, so the queries arrive in
    one that `seed` shuffles.
    """
    from headgate.spark.query_types import read_queries, repeated, types_of, with_servers

    queries = read_queries(spark, str(options.file))
    duplicates = repeated(queries)
    if duplicates:
        raise ConfigError(f"{options.file}: query {duplicates[0]!r} occurs twice")
    types = types_of(queries)
    lists, cost = types.column("sources").combine_chunks(), types.column("cost").to_numpy()
    rates = read_rates(options.sources) if options.sources else None
    names = [f"type {i}" for i in range(types.num_rows)]
    owner = pc.list_parent_indices(lists).to_numpy()
    types_once = built(names, owner, pc.list_flatten(lists), cost, rates, options.file)
    load = repeat(types_once, types.column("count").to_numpy(), options.seed)
    assignment, extra = placed(load, sizes, options, tick)
    if options.out is not None:
        tick(f"writing {options.out.name}", 0.95)
        steps = _ranges(assignment, load)
        table = with_servers(
            queries,
            spark.createDataFrame(
                steps, "sources array<string>, cost double, server int, low long, high long"
            ),
        )
        writer = table.write.mode("overwrite")
        kind = options.out.suffix.lower().lstrip(".")
        (writer.option("header", True) if kind == "csv" else writer).format(
            "json" if kind == "jsonl" else kind
        ).save(str(options.out))
    tick("done", 1.0)
    return report(load, assignment, options, extra)


def repeat(types: Workload, count: Any, seed: int) -> Workload:
    """Return a workload with `count` queries of each type, in shuffled order."""
    of_query = np.random.default_rng([seed, 1]).permutation(np.repeat(np.arange(types.queries), count))
    lengths = np.diff(types.start)[of_query]
    start = np.zeros(of_query.shape[0] + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    at = np.repeat(types.start[of_query] - start[:-1], lengths) + np.arange(start[-1])
    return Workload(types.rates, start, types.source[at], types.cost[of_query], types.source_names)


def _ranges(assignment: Assignment, load: Workload) -> list[tuple[Any, ...]]:
    """Return sources, cost, server and the range of queries of every step, by type."""
    names = load.source_names or ()
    rows, upto = [], dict[int, int]()
    types = load.types
    for kind, server, number in zip(
        assignment.type.tolist(), assignment.server.tolist(), assignment.number.tolist(), strict=True
    ):
        low = upto.get(kind, 0)
        upto[kind] = low + number
        members = sorted(names[s] for s in types.source[types.start[kind] : types.start[kind + 1]])
        rows.append((members, float(types.cost[kind]), server, low, low + number))
    return rows
