"""What the query service is held against: one Spark streaming query for each query, and the same engine without sharing."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from headgate.bench.service_world import ROWS, World


def spark_queries(spark: Any, world: World, *, most_s: float, most: int) -> list[tuple[int, float]]:
    """(queries, seconds until each has answered a batch), doubling until a batch takes too long.

    The plainest that Spark offers: each query reads the folder of its source's rows and filters them. Only the first of the families,
    so that no state store is in its way.
    """
    folder = Path(tempfile.mkdtemp(prefix="headgate-rival-"))
    found = list[tuple[int, float]]()
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
            _wait(running, 0, most_s)
            pq.write_table(world.batch(batch), inbox / "rows.parquet", coerce_timestamps="us")
            began = time.perf_counter()
            done = _wait(running, 1, most_s)
            seconds = time.perf_counter() - began
            for one in running:
                one.stop()
            found.append((number, seconds))
            if not done:
                break
            number, batch = 2 * number, batch + 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _wait(running: list[Any], batches: int, most_s: float) -> bool:
    """Until every query has had so many batches of rows; False if that takes too long."""
    deadline = time.perf_counter() + most_s
    while time.perf_counter() < deadline:
        if batches == 0 and all(
            not one.status["isTriggerActive"] and one.status["message"] != "Initializing sources"
            for one in running
        ):
            return True
        if batches and all(any(p["numInputRows"] for p in one.recentProgress) for one in running):
            return True
        time.sleep(0.05)
    return False


def unshared(world: World, *, sample: int) -> float:
    """Microseconds that the engine takes for one query alone on a batch: its source's rows, its own constants.

    Queries of one source over the batch's rows, a sample of them.
    """
    rows = world.batch(0)
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        connection.execute("CREATE TABLE kept AS SELECT source, time, d0 AS x, l0 AS n, v0 AS key FROM rows")
        texts = [
            text
            for text in world.texts()[:: max(1, world.queries // (3 * sample))]
            if "JOIN" not in text and "TUMBLE" not in text
        ]
        texts = [text for text in texts if "HOP" not in text][:sample]
        began = time.perf_counter()
        for text in texts:
            source = text.partition("FROM s")[2].split(" ")[0]
            plain = (
                text.replace(f"FROM s{source} WHERE ", f"FROM kept WHERE source = {source} AND (", 1) + ")"
            )
            connection.execute(plain).fetchall()
        return 1e6 * (time.perf_counter() - began) / len(texts)
