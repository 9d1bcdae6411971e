"""A driver from Kafka to a Delta table that may kill itself at any operation.

    python kafka_delta_job.py run LIFE      one life, on a classic session: its JVM dies with it
    python kafka_delta_job.py serve         reads lives, one a line, and forks a driver for each

A life is JSON (`Life`). `serve` prints the process id of each driver, and its exit code when it has ended. The
drivers that it forks have all modules loaded, and talk to a Spark Connect server, so that they live for a second
or two.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import headgate as hg
from headgate import agg
from headgate.errors import HeadgateError
from headgate.spark.direct.query import Query, Trigger
from headgate.storage.delta_table import DeltaFolder
from headgate.storage.disk import LocalDisk

TOPIC = "numbers"
ROWS = 40
"""How many rows a batch has at most."""
FAILED = 3
"""The exit code of a driver whose query failed with an error of ours."""
STREAMS = ("rows", "totals", "history")
"""Rows passed on and appended; an aggregate that is upserted; an aggregate whose every row is appended."""
OPERATIONS = (
    "make_folder", "write", "append", "link", "replace", "rename", "remove", "remove_folder", "flush", "read", "size", "names",
)  # fmt: skip
PUBLISHING = ("open", "_enter", "_add_columns", "_brought", "_commit", "_merge", "_settle")
"""The steps of `DeltaFolder`."""


@dataclass(frozen=True)
class Life:
    """One life of a driver, and when it kills itself, if it does."""

    stream: str
    servers: str
    folder: str
    remote: str = ""
    """The Spark Connect server; a classic session if empty."""
    at: int = 0
    """It dies at the operation with this number, counted from 1."""
    label: str = ""
    times: int = 0
    """It dies when it reaches this operation for so many times."""
    rows: int = ROWS
    timeout: str = "1 min"

    def text(self) -> str:
        """As JSON, in one line."""
        return json.dumps(asdict(self))


class Moments:
    """Counts operations, and writes down the newest one, for whoever wants to know where the driver died."""

    def __init__(self, life: Life) -> None:
        self.life, self.count, self.seen, self.step = life, 0, 0, "start"
        self.file = os.open(Path(life.folder) / "moment", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)

    def reached(self, what: str) -> None:
        """An operation is about to begin."""
        self.count += 1
        self.seen += what == self.life.label
        os.pwrite(self.file, f"after {self.step}: {what}".ljust(120).encode(), 0)
        if self.count == self.life.at or (self.seen and self.seen == self.life.times):
            self.die()

    def stepped(self, step: str) -> None:
        """A step of the stage has ended."""
        self.step = step
        self.reached(f"step {step}")

    def die(self) -> None:
        if self.life.remote:
            os.kill(os.getpid(), signal.SIGKILL)
        os.killpg(0, signal.SIGKILL)

    def watch(self, owner: type, name: str, label: str, *, after: bool = False) -> None:
        """Count the calls of a method, and their ends too if wanted."""
        real: Callable[..., Any] = getattr(owner, name)

        def watched(*args: Any, **options: Any) -> Any:
            self.reached(label)
            result = real(*args, **options)
            if after:
                self.reached(f"{label} done")
            return result

        setattr(owner, name, watched)


def passed_on(state: pa.Table, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Every row as it is."""
    return state, rows.select(["partition", "offset", "k", "n"])


def written(spark: SparkSession, life: Life) -> Any:
    """The stream of a life."""
    table = str(Path(life.folder) / "table")
    records = hg.read(spark).kafka(
        life.servers, TOPIC, schema="k long, n long", meta=["partition", "offset"], timeout=life.timeout
    )
    keyed = records.key_by("k", routing=hg.Routing(policy="static", channels=2, bins=8))
    if life.stream == "rows":
        columns = {"partition": pa.int32(), "offset": pa.int64(), "k": pa.int64(), "n": pa.int64()}
        passing = hg.Vectorised(passed_on, state={"seen": pa.int64()}, output=columns)
        return keyed.apply(passing).write(hg.sinks.Delta(table))
    totals = keyed.aggregate(n=agg.count(), total=agg.sum("n"))
    if life.stream == "totals":
        return totals.write(hg.sinks.Delta(table, mode="upsert", key="k"))
    return totals.write(hg.sinks.Delta(table))


def live(life: Life) -> int:
    """Run a query until all records of now are committed, or until death; return the exit code."""
    moments = Moments(life)
    for name in OPERATIONS:
        moments.watch(LocalDisk, name, name)
    for name in PUBLISHING:
        moments.watch(DeltaFolder, name, f"table {name.lstrip('_')}", after=True)
    builder = SparkSession.builder
    if life.remote:
        spark = builder.remote(life.remote).getOrCreate()
    else:
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            builder = builder.config(name, "127.0.0.1")
        spark = hg.configure(builder.master("local[2]").config("spark.ui.enabled", "false")).getOrCreate()
    try:
        trigger = Trigger(True, max_rows=life.rows)
        query = Query.of(written(spark, life), str(Path(life.folder) / "checkpoint"), trigger, durable=True)
        query.stages[0].on_step = moments.stepped
        query.begin().await_end()
    except HeadgateError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return FAILED
    return 0


def serve() -> None:
    """Fork a driver for each line of the input."""
    import deltalake  # noqa: F401 - loaded before the fork
    import pyspark.sql.connect.session  # noqa: F401

    for line in sys.stdin:
        driver = os.fork()
        if driver == 0:
            code = 1
            try:
                code = live(Life(**json.loads(line)))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(driver, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(driver, 0)[1]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        sys.exit(live(Life(**json.loads(sys.argv[2]))))
