"""The sinks for tables beside the plain Parquet sink: the same direct stream into each of them.

A batch has so many keys, each once, and the aggregate emits a row for each of them; all batches have the same
keys. So an appended table grows by a batch each time, and an upserted one is rewritten. All queries run in one session on
`local[2]`, in rounds whose order alternates, so that a machine that becomes slower affects all alike.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headgate as hg
from headgate import agg
from headgate.cli.console import Tick
from headgate.spark.local import local_spark
from headgate.stage.sinks import Sink
from headgate_lab.bench.result import Report, Result, machine
from headgate_lab.bench.sinks import postgres

SCHEMA = "user long, amount double"
PLAIN = "Parquet"
ROUNDS, WARM = 3, 1
"""How often each query runs, from an empty table, and how many of its batches do not count."""


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Milliseconds of a batch, and rows a second, of each sink, beside the Parquet sink's."""
    where, sizes, batches = machine(), (1_000,) if quick else (1_000, 100_000), 2 if quick else 4
    times: dict[tuple[str, int], list[float]] = {}
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for size in sizes:
            _write_batches(work / f"in-{size}", size, WARM + batches)
        url = stack.enter_context(postgres.server()) if postgres.can_start() else None
        spark = stack.enter_context(local_spark(2, work / "spark.log"))
        each = [(size, name) for size in sizes for name in _names(url)]
        rounds = 1 if quick else ROUNDS * repeat
        runs = [run for number in range(rounds) for run in (each if number % 2 == 0 else reversed(each))]
        for done, (size, name) in enumerate([(sizes[0], PLAIN), *runs]):
            progress(f"{name}, {size:,} rows" if done else "warming up", done / (1 + len(runs)))
            folder = work / str(done)
            folder.mkdir()
            spent = _query(spark, work / f"in-{size}", _sink(name, folder, url), folder, size)
            if done:
                times.setdefault((name, size), []).extend(spent[WARM:])
    return Report("sinks", tuple(_results(times)), (), where, quick)


def _write_batches(folder: Path, size: int, count: int) -> None:
    folder.mkdir()
    draw = np.random.default_rng(1)
    for number in range(count):
        rows = {"user": draw.permutation(size), "amount": draw.random(size)}
        pq.write_table(pa.table(rows), folder / f"{number:03d}.parquet")


def _names(url: str | None) -> list[str]:
    databases = ["PostgreSQL", "SQLite"] if url else ["SQLite"]
    tables = [
        f"{table}, {mode}" for table in ("Delta", "Iceberg", *databases) for mode in ("append", "upsert")
    ]
    return [PLAIN, *tables]


def _sink(name: str, folder: Path, url: str | None) -> Sink:
    kind, _, mode = name.partition(", ")
    options: dict[str, Any] = {"mode": mode, "key": "user" if mode == "upsert" else None}
    if kind == "Delta":
        return hg.sinks.Delta(str(folder / "table"), **options)
    if kind == "Iceberg":
        catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}
        return hg.sinks.Iceberg("shop.users", catalog=catalog, **options)
    if kind == "PostgreSQL" and url is not None:
        return hg.sinks.Table(url, f"users_{folder.name}", **options)
    if kind == "SQLite":
        return hg.sinks.Table(f"sqlite:///{folder}/users.db", "users", **options)
    return hg.sinks.Parquet(str(folder / "table"))


def _query(spark: Any, source: Path, sink: Sink, folder: Path, size: int) -> list[float]:
    """The milliseconds of each batch."""
    stream = hg.read(spark).files(str(source), schema=SCHEMA, format="parquet")
    totals = stream.key_by("user").aggregate(n=agg.count(), total=agg.sum("amount"))
    query = totals.write(sink).start(str(folder / "checkpoint"), available_now=True, max_rows=size)
    query.await_end()
    assert all(progress.rows == size for progress in query.progress), "a batch is a file"
    return [progress.batch_ms for progress in query.progress]


def _results(times: dict[tuple[str, int], list[float]]) -> list[Result]:
    results = []
    for (name, size), spent in times.items():
        plain, own = times[PLAIN, size], statistics.median(spent)
        theirs = statistics.median(plain)
        told, rival = f"{name}, {size:,} rows", None if name == PLAIN else PLAIN
        rates = {told: [1e3 * size / each for each in spent]}
        results += [
            Result(f"{told}: a batch", "ms", own, rival, theirs if rival else None, {f"{told}: ms": spent}),
            Result(told, "rows/s", 1e3 * size / own, rival, 1e3 * size / theirs if rival else None, rates),
        ]
    return results
