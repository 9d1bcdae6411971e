"""What the query service is compared with: one Spark streaming query for each query, and the
same engine without sharing.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.sql.clock import NEVER, Clock, after
from headgate.sql.engine import Engine
from headgate.sql.join_state import keep
from headgate.sql.prepare import Prepared, Preparer
from headgate.sql.shared import Piece, Work, step
from headgate.sql.source_schema import SourceSchema
from headgate.sql.template import Template
from headgate_lab.bench.service_world import COLUMNS, ROWS, World

START_S = 300.0
"""Time to start in, which is not counted."""


def spark_queries(spark: Any, world: World, *, most_s: float, most: int) -> list[tuple[int, float | None]]:
    """(queries, seconds until each has answered a batch, None if that takes more than
    `most_s`), doubling until then.

    The simplest way that Spark offers: each query reads the folder of its source's rows and filters
    them. Only queries of the first family run, so that no state store is involved.
    """
    folder = Path(tempfile.mkdtemp(prefix="headgate-rival-"))
    answered = list[tuple[int, float | None]]()
    try:
        schema = spark.createDataFrame(world.batch(0).slice(0, 1).to_pandas()).schema
        number, batch = 4, 0
        while number <= most:
            inbox = folder / f"in-{number}"
            inbox.mkdir()
            rows = spark.readStream.schema(schema).parquet(str(inbox))
            running = []
            for i in range(number):
                text = (
                    ROWS[0].format(s="rows", a=i).replace("x", "d0").replace("n ", "l0 ").replace("n=", "l0=")
                )
                condition = text.partition("WHERE ")[2]
                stream = (
                    rows.where(f"source = {i % world.sources}").where(condition).writeStream.format("noop")
                )
                running.append(stream.option("checkpointLocation", str(folder / f"c-{number}-{i}")).start())
            _wait(running, 0, START_S)
            pq.write_table(world.batch(batch), inbox / "rows.parquet", coerce_timestamps="us")
            began = time.perf_counter()
            done = _wait(running, 1, most_s)
            seconds = time.perf_counter() - began
            for query in running:
                query.stop()
            answered.append((number, seconds if done else None))
            if not done:
                break
            number, batch = 2 * number, batch + 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return answered


def _wait(running: list[Any], batches: int, most_s: float) -> bool:
    """Wait until every query has had so many batches of rows; return False if that takes too long."""
    deadline = time.perf_counter() + most_s
    while time.perf_counter() < deadline:
        if batches == 0 and all(
            not query.status["isTriggerActive"] and query.status["message"] != "Initializing sources"
            for query in running
        ):
            return True
        if batches and all(any(p["numInputRows"] for p in query.recentProgress) for query in running):
            return True
        time.sleep(0.05)
    return False


def unshared(world: World, *, sample: int) -> tuple[float, ...]:
    """Microseconds that the service's own engine takes for one query alone on a batch: a
    sample of all queries.

    Each has a statement of its own over its own sources' rows, and preparing these is not counted.
    The second batch counts, because the first warms up.
    """
    kind = SourceSchema(COLUMNS)
    kinds = dict.fromkeys(world.names, kind)
    texts = world.texts()[:: max(1, world.queries // sample)][:sample]
    delay, latest = np.full(world.sources, 1_000_000), np.full(world.sources, NEVER)
    first, second = world.batch(0), world.batch(1)
    reached = after(latest, first)
    preparer, engine = Preparer(), Engine()
    spent = list[float]()
    for text in texts:
        prepared = preparer.prepare(text, kinds)
        numbers = [world.names.index(name) for name in prepared.sources]
        alone = _Alone(prepared.template, _line(prepared, numbers), engine)
        alone.feed(_of(first, numbers), Clock.over(latest, delay, first), 0)
        mine, clock = _of(second, numbers), Clock.over(reached, delay, second)
        began = time.perf_counter()
        alone.feed(mine, clock, 1)
        spent.append(1e6 * (time.perf_counter() - began))
    return tuple(spent)


@dataclass
class _Alone:
    """One computation that shares nothing."""

    template: Template
    constants: pa.Table
    engine: Engine
    state: dict[int, list[Piece]] = field(default_factory=dict)
    rows: list[pa.Table] = field(default_factory=list)

    def feed(self, rows: pa.Table, clock: Clock, batch: int) -> None:
        self.engine.give(rows=rows)
        leads = 1
        if self.template.sources > 1:
            kept = keep([(self.template, self.constants)], rows, self.rows, clock, batch)
            kept.give(self.engine)
            self.rows = [*([] if kept.rewritten else self.rows), kept.written]
            leads = self.template.sources if kept.before.num_rows else 1
        work = Work(self.template, self.constants, rows, clock, batch, self.state, leads=leads)
        done = step(work, self.engine)
        for label in done.gone:
            self.state.pop(label, None)
        for label, table in done.written.items():
            self.state.setdefault(label, []).append(Piece(batch, table))


def _of(rows: pa.Table, sources: list[int]) -> pa.Table:
    return rows.filter(pa.array(np.isin(rows.column("source").to_numpy(), sources)))


def _line(prepared: Prepared, sources: list[int]) -> pa.Table:
    line: dict[str, Any] = {"id": 0, "born": 0}
    line |= {f"s{i}": number for i, number in enumerate(sources)}
    line |= {f"p{i}": value for i, value in enumerate(prepared.constants)}
    kept = [f for f in prepared.template.constants_schema if f.name not in ("old", "new")]
    return pa.Table.from_pylist([line], schema=pa.schema(kept))
