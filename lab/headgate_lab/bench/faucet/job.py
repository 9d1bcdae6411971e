"""One run of `headgate bench faucet` in a process of its own, so that its memory is its own:
JSON in, JSON out.

The guarded step is the paper's: propose, exchange, intersect. Candidates go to the partition that
owns their first vertex and are looked up there in one piece, as `applyInArrow` does it; with all
edges at once that piece is as large as the intermediate result.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headgate.compiled import compiled
from headgate.spark.local import local_spark
from headgate_lab.bench.faucet.edges import edges_of
from headgate_lab.jvm_account import JvmAccount
from headgate_lab.memory import watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2


def triangles_step(folder: str) -> Callable[[DataFrame], DataFrame]:
    """The paper's topology around an index that `spark.cliques` made; `first` and `last`, if there,
    choose among the proposals.
    """
    from pyspark.sql import functions as F

    def propose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        offsets, targets = (np.load(f"{folder}/{n}.npy", mmap_mode="r") for n in ("offsets", "targets"))
        for rows in batches:
            v1, v2 = rows.column("v1").to_numpy(), rows.column("v2").to_numpy()
            parts = "first" in rows.schema.names
            first = rows.column("first").to_numpy() if parts else np.zeros(len(v2), np.int64)
            last = rows.column("last").to_numpy() if parts else np.diff(offsets)[v2]
            widths = last - first
            at = np.repeat(offsets[v2] + first - np.cumsum(widths) + widths, widths) + np.arange(widths.sum())
            yield pa.RecordBatch.from_arrays(
                [pa.array(np.repeat(v1, widths)), pa.array(np.asarray(targets[at]))], names=["v1", "v3"]
            )

    def intersect(candidates: pa.Table) -> pa.Table:
        from headgate_lab.graphs.pairs import edges_among  # by name: the worker finds the compiled code

        offsets, targets = (np.load(f"{folder}/{n}.npy", mmap_mode="r") for n in ("offsets", "targets"))
        v1, v3 = (candidates.column(n).to_numpy() for n in ("v1", "v3"))
        return pa.table({"triangles": [int(edges_among(v1, v3, offsets, np.asarray(targets)))]})

    def step(edges: DataFrame) -> DataFrame:
        proposed = edges.mapInArrow(propose, "v1 int, v3 int")
        owner = F.pmod("v1", F.lit(CORES))
        sent = proposed.repartitionById(CORES, owner)  # a hash sends owners 0 and 1 to one partition of two
        return sent.groupBy(owner).applyInArrow(intersect, "triangles long")

    return step


def exploding(spark: SparkSession, job: dict[str, Any]) -> int:
    """Triangles by the paper's topology, under a gate or not."""
    import headgate as hg

    edges, step = spark.read.parquet(edges_of(job["graph"], job["part"])), triangles_step(job["graph"])
    if job["batch"] is None:
        return sum(row.triangles for row in step(edges).collect())
    fan_out = hg.FanOut("proposals", "first", "last")
    gated = hg.bounded(edges, step, batch=job["batch"], in_flight=job["in_flight"], fan_out=fan_out)
    return sum(sum(table.column("triangles").to_pylist()) for table in gated)


@compiled
def burn(steps: int) -> int:
    """Work that cannot be optimised away."""
    x = 1
    for _ in range(steps):
        x = (x * 6364136223846793005 + 1442695040888963407) & 0x7FFFFFFFFFFFFFFF
    return x


def stragglers(spark: SparkSession, job: dict[str, Any]) -> int:
    """Waves of two tasks, one of which has a row that costs a hundred times as much as
    all the others together.
    """
    import headgate as hg

    half = 50 * job["waves"]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            for number in rows.column("id").to_pylist():
                slow = number < half and number % 50 == 0
                burn(job["heavy"] if slow else job["heavy"] // 10_000)
            yield rows

    rows = spark.range(0, 2 * half, 1, 2)
    gated = hg.bounded(
        rows, lambda part: part.mapInArrow(work, "id long"), batch=100, in_flight=job["in_flight"]
    )
    return int(gated.count())


def cliques(spark: SparkSession, job: dict[str, Any]) -> int:
    """What `headgate cliques` does, from the file on."""
    from headgate_lab.cliques_command import CliqueOptions, on_session

    return int(on_session(spark, CliqueOptions(job["file"], job["size"]), lambda what, part: None)["cliques"])


def self_join(spark: SparkSession, job: dict[str, Any]) -> int:
    """Triangles in plain Spark SQL, edges oriented by degree."""
    from pyspark.sql import functions as F

    raw = spark.read.parquet(job["file"]).where("source <> target")
    pairs = raw.select(
        F.least("source", "target").alias("a"), F.greatest("source", "target").alias("b")
    ).distinct()
    pairs = pairs.localCheckpoint()
    ends = pairs.select(F.col("a").alias("v")).unionAll(pairs.select("b")).groupBy("v").count()
    ranked = (
        pairs.join(ends.withColumnsRenamed({"v": "a", "count": "da"}), "a")
        .join(ends.withColumnsRenamed({"v": "b", "count": "db"}), "b")
        .withColumn("first", F.expr("da < db or (da = db and a < b)"))
    )
    edges = ranked.select(
        F.expr("if(first, a, b)").alias("source"), F.expr("if(first, b, a)").alias("target")
    ).localCheckpoint()
    first = edges.toDF("x", "y")
    wedges = first.join(edges.toDF("x", "z"), "x").where("y < z")
    either = edges.select(F.least("source", "target").alias("y"), F.greatest("source", "target").alias("z"))
    return int(wedges.join(either, ["y", "z"]).count())


RUNS = {"exploding": exploding, "stragglers": stragglers, "cliques": cliques, "self_join": self_join}


def main() -> None:
    """Warm up on small inputs, then run and watch."""
    job = json.loads(sys.stdin.read())
    conf = {
        "spark.driver.memory": job.get("memory", "2g"),
        "spark.sql.shuffle.partitions": str(job.get("partitions", CORES)),
        **job.get("conf", {}),
    }
    with local_spark(CORES, Path(job["log"]), conf) as spark:
        run, account = RUNS[job["kind"]], JvmAccount(spark)
        for warm in job.get("warm", ()):
            run(spark, {**job, **warm})
        account.settle()
        with watched(account) as memory:
            started = time.perf_counter()
            answer = run(spark, job)
            seconds = time.perf_counter() - started
    grown = {kind: memory.grown(kind) / 1e6 for kind in memory.most}
    idle = {f"idle {kind}": size / 1e6 for kind, size in memory.idle.items()}
    course = [(at - started, size / 1e6) for at, size in memory.course]
    figures = {
        "answer": answer,
        "seconds": seconds,
        "peak": memory.peak / 1e6,
        **grown,
        **idle,
        "course": course,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
