"""The ten jobs of `headgate bench doctor`, each written twice: natively, and as a direct stream."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headgate.operators import agg
from headgate.stage import sinks
from headgate.stage.settings import Routing
from headgate_lab.bench import data, native
from headgate_lab.bench.job import CORES, Job
from headgate_lab.bench.ours import DELAY, OPERATORS, WITHIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.spark.direct.query import Query

HOT = 0.3
"""The part of the rows that the hot key has."""
PARTITIONS = 4


@dataclass(frozen=True)
class Work:
    """One job: an operator over batches whose keys are uniform, of Zipf's law, or of which one is hot."""

    name: str
    operator: str
    keys: str
    rows: int
    distinct: int
    batches: int = 12

    @property
    def folder(self) -> str:
        """The name of its folders."""
        return "".join(c if c.isalnum() else "-" for c in self.name)


WORKS = (
    Work("aggregate, uniform keys", "aggregate", "uniform", 200_000, 90_000),
    Work("aggregate, skewed keys", "aggregate", "zipf", 260_000, 50_000),
    Work("aggregate, small batches", "aggregate", "uniform", 2_000, 1_500, 24),
    Work("windows, uniform keys", "tumbling", "uniform", 150_000, 5_000),
    Work("windows, skewed keys", "tumbling", "zipf", 220_000, 30_000),
    Work("dedup, uniform keys", "dedup", "uniform", 180_000, 150_000),
    Work("join, uniform keys", "join", "uniform", 60_000, 15_000),
    Work("kernel, uniform keys", "zscore", "uniform", 20_000, 3_000, 8),
    Work("kernel, a hot key", "pandas", "hot", 20_000, 2_000, 8),
    Work("aggregate after a slow step", "slow", "uniform", 40_000, 2_000, 6),
)
"""The sizes differ from those of `headgate.doctor.calibrate`, and so do the keys."""


def small(work: Work) -> Work:
    """The same for a trial run."""
    return replace(work, rows=min(work.rows, 4_000), distinct=min(work.distinct, 500), batches=4)


@dataclass(frozen=True)
class DoctorTask(Job):
    """A job as it is handed to a process; `system` is native, ported or calibrate."""

    rows: int = 0
    quick: bool = False


def write(work: Work, folder: Path, *, seed: int) -> None:
    """Its input; a join has two."""
    for at, side in enumerate(("left", "right") if work.operator == "join" else ("left",)):
        data.write(data.timed(drawn(work, seed=seed + 100 * at), seed=seed + at), folder / side)


def drawn(work: Work, *, seed: int) -> Iterator[pa.Table]:
    """Batches of its rows."""
    if work.keys == "zipf":
        return data.zipf(work.rows, work.batches, work.distinct, seed=seed)
    rows = data.uniform(work.rows, work.batches, work.distinct, seed=seed)
    return rows if work.keys == "uniform" else _with_hot_key(rows, seed)


def _with_hot_key(batches: Iterator[pa.Table], seed: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng(seed)
    for rows in batches:
        users = np.where(rng.random(len(rows)) < HOT, 7, rows["user"].to_numpy())
        yield rows.set_column(0, "user", pa.array(users))


def seed_of(work: Work) -> int:
    """A seed of its own for each job, the same in every run."""
    return zlib.crc32(work.name.encode()) % 10_000


SLOW_ROUNDS = 400


def slowly(rows: pa.Table) -> pa.Table:
    """A step in plain Python that takes its time for each row, and changes nothing."""
    for value in rows.column(1).to_pylist():
        digest = repr(value).encode()
        for _ in range(SLOW_ROUNDS):
            digest = hashlib.sha256(digest).digest()
    return rows


# -- natively


def start_native(spark: SparkSession, task: DoctorTask) -> Any:
    """The native query; it carries the job's name, by which its batches are found in the log."""
    rows = data.stream(spark, f"{task.source}/left", data.TIMED)
    if task.operator == "join":
        answers = native._join(rows, data.stream(spark, f"{task.source}/right", data.TIMED))
    elif task.operator == "slow":
        answers = _aggregated_slowly(rows)
    elif task.operator == "pandas":
        answers = _in_pandas(rows)
    else:
        answers = native.TWINS[task.operator](rows)
    for name, value in native.STORES[task.store].items():
        spark.conf.set(f"spark.sql.streaming.stateStore.{name}", value)
    writer = answers.writeStream.queryName(task.name).outputMode("append" if task.closes else "update")
    writer = writer.option("checkpointLocation", f"{task.work}/spark").foreachBatch(
        lambda batch, number: batch.write.mode("overwrite").parquet(f"{task.work}/out/batch={number}")
    )
    return writer.trigger(availableNow=True).start()


def _aggregated_slowly(rows: DataFrame) -> DataFrame:
    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from slowly(pa.Table.from_batches([batch])).to_batches()

    return native._aggregate(rows.mapInArrow(step, data.TIMED))


def _in_pandas(rows: DataFrame) -> DataFrame:
    """The z-score of each row with `applyInPandasWithState`."""
    import pandas as pd  # type: ignore[import-untyped]

    def scores(key: Any, frames: Any, state: Any) -> Iterator[Any]:
        n, mean, m2 = state.get if state.exists else (0, 0.0, 0.0)
        for frame in frames:
            out = []
            for amount in frame["amount"].tolist():
                n += 1
                d = amount - mean
                mean += d / n
                m2 += d * (amount - mean)
                out.append(d / math.sqrt(m2 / n) if n > 1 else 0.0)
            yield pd.DataFrame({"user": key[0], "z": out})
        state.update((n, mean, m2))

    return rows.groupBy("user").applyInPandasWithState(
        scores, "user long, z double", "n long, mean double, m2 double", "update", "NoTimeout"
    )


# -- ported


def start_ported(spark: SparkSession, task: DoctorTask) -> Query:
    """The same as a direct stream, with the defaults of headgate."""
    from headgate.spark.direct.read import read

    def stream(side: str) -> Any:
        return read(spark).files(f"{task.source}/{side}", schema=data.TIMED, format="parquet")

    rows = stream("left")
    if task.operator == "slow":
        rows = rows.map_batches(slowly)
    keyed = rows.key_by("user", routing=Routing(channels=CORES))
    if task.operator == "join":
        results = keyed.join(stream("right").key_by("user"), time="time", after=WITHIN, delay=DELAY)
    elif task.operator == "slow":
        results = keyed.aggregate(n=agg.count(), total=agg.sum("amount"), top=agg.max("amount"))
    else:
        results = keyed.apply(OPERATORS["zscore" if task.operator == "pandas" else task.operator])
    written = results.write(sinks.Parquet(f"{task.work}/out"))
    query: Query = written.start(f"{task.work}/direct", available_now=True, max_rows=task.rows)
    return query
