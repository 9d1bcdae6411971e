"""A driver that kills itself: run as `python kill_points.py FOLDER STEP BATCH [MEMORY]`. STEP `never` runs to the end.

With MEMORY, so much for each channel: bins go to disk and rows wait, until the last run, which has memory for all.
"""

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import headgate as hg
from headgate import agg
from headgate.policies import Guard
from headgate.spark import sinks


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path, step: str, batch: int, memory: int | None = None) -> None:
    class Doomed(hg.Stage):
        def __call__(self, df, batch_id):  # type: ignore[no-untyped-def]
            self.now = batch_id
            super().__call__(df, batch_id)

        def _reached(self, reached: str) -> None:
            if reached == step and self.now == batch:
                die()

    class DoomedSink(sinks.Parquet):
        def publish(self, staged, files, number, schema, spark):  # type: ignore[no-untyped-def]
            if step in ("one file moved", "all files moved") and number == batch:
                moves = 0
                original = self._store.fs.mv

                def mv(*args, **options):  # type: ignore[no-untyped-def]
                    nonlocal moves
                    if moves == (1 if step == "one file moved" else len(files)):
                        die()
                    moves += 1
                    return original(*args, **options)

                self._store.fs.mv = mv
            super().publish(staged, files, number, schema, spark)

    spark = (
        hg.configure(SparkSession.builder.master("local[2]"))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    stage = Doomed(
        key="k",
        operator=hg.Aggregate(n=agg.count(), total=agg.sum("v"), last=agg.last("v")),
        policy="flux-load",
        guard=Guard(min_gain=0, cool_down_batches=0),
        channels=3,
        bins=16,
        memory=memory,
        t_gap=0,
        checkpoint=str(folder / "ckpt"),
        sink=DoomedSink(str(folder / "out")),
    )
    source = (
        spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    )
    query = (
        source.writeStream.foreachBatch(stage)
        .option("checkpointLocation", str(folder / "ckpt" / "spark"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *map(int, sys.argv[4:]))
