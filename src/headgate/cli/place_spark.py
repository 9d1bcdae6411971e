"""`headgate place --spark`: the queries stay on Spark, only their types come here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from headgate.cli.console import Tick
from headgate.cli.place import Wish, placed, report
from headgate.cli.place_files import built, read_rates
from headgate.errors import ConfigError
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.workload import Workload
from headgate.spark.local import local_spark


def placed_on_spark(wish: Wish, sizes: Any, tick: Tick) -> dict[str, Any]:
    """Group on Spark, place here, join back on Spark."""
    if not wish.file.exists():
        raise ConfigError(f"there is no file {wish.file}")
    with local_spark(2, Path("headgate-place.log"), ours=False) as spark:
        return on_session(spark, wish, sizes, tick)


def on_session(spark: Any, wish: Wish, sizes: Any, tick: Tick) -> dict[str, Any]:
    """The same on a session that is there. Queries arrive in an order that ``seed`` shuffles: Spark keeps none."""
    from headgate.spark.query_types import read_queries, repeated, types_of, with_servers

    queries = read_queries(spark, str(wish.file))
    twice = repeated(queries)
    if twice:
        raise ConfigError(f"{wish.file}: query {twice[0]!r} is there twice")
    types = types_of(queries)
    lists, cost = types.column("sources").combine_chunks(), types.column("cost").to_numpy()
    rates = read_rates(wish.sources) if wish.sources else None
    names = [f"type {i}" for i in range(types.num_rows)]
    owner = pc.list_parent_indices(lists).to_numpy()
    one_each = built(names, owner, pc.list_flatten(lists), cost, rates, wish.file)
    load = repeat(one_each, types.column("count").to_numpy(), wish.seed)
    found, extra = placed(load, sizes, wish, tick)
    if wish.out is not None:
        tick(f"writing {wish.out.name}", 0.95)
        steps = _ranges(found, load)
        table = with_servers(
            queries,
            spark.createDataFrame(
                steps, "sources array<string>, cost double, server int, low long, high long"
            ),
        )
        writer = table.write.mode("overwrite")
        kind = wish.out.suffix.lower().lstrip(".")
        (writer.option("header", True) if kind == "csv" else writer).format(
            "json" if kind == "jsonl" else kind
        ).save(str(wish.out))
    tick("done", 1.0)
    return report(load, found, wish, extra)


def repeat(types: Workload, count: Any, seed: int) -> Workload:
    """Return a workload with so many queries of each type, in shuffled order."""
    of_query = np.random.default_rng([seed, 1]).permutation(np.repeat(np.arange(types.queries), count))
    lengths = np.diff(types.start)[of_query]
    start = np.zeros(of_query.shape[0] + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    at = np.repeat(types.start[of_query] - start[:-1], lengths) + np.arange(start[-1])
    return Workload(types.rates, start, types.source[at], types.cost[of_query], types.source_names)


def _ranges(found: Assignment, load: Workload) -> list[tuple[Any, ...]]:
    """Return sources, cost, server and the range of queries of every step, by type."""
    names = load.source_names or ()
    rows, upto = [], dict[int, int]()
    types = load.types
    for kind, server, number in zip(
        found.type.tolist(), found.server.tolist(), found.number.tolist(), strict=True
    ):
        low = upto.get(kind, 0)
        upto[kind] = low + number
        members = sorted(names[s] for s in types.source[types.start[kind] : types.start[kind + 1]])
        rows.append((members, float(types.cost[kind]), server, low, low + number))
    return rows
