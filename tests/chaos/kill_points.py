"""A driver that kills itself: run as `python kill_points.py FOLDER STEP BATCH [MEMORY]`. STEP `never` runs to the end.

With MEMORY, so much for each channel: bins go to disk and rows wait, until the last run, which has memory for all.
"""

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from headgate import agg
from headgate.policies import Guard
from headgate.spark.local import local_spark
from headgate.stage import sinks


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(spark: SparkSession, folder: Path, step: str, batch: int, memory: int | None = None) -> None:
    class DoomedSink(sinks.Parquet):
        """Dies when some of a batch's files are gathered, all of them, or when they are shown without the batch's record."""

        def publish(self, output: sinks.Output) -> None:
            if output.batch == batch and not output.again:
                moves = {"one file moved": 1, "all files moved": len(output.files)}.get(step, -1)
                self._folder._move = self._counted(self._folder._move, moves)  # type: ignore[method-assign]
                if step == "all files moved":
                    self._folder._move_folder = lambda *paths: die()  # type: ignore[method-assign]
                elif step == "batch shown":
                    self._folder._move_folder = self._counted(self._folder._move_folder, 1)  # type: ignore[method-assign]
            super().publish(output)

        def _counted(self, move, most):
            calls = 0

            def counted(*names) -> None:
                nonlocal calls
                move(*names)
                calls += 1
                if calls == most and step != "all files moved":
                    die()

            return counted

    stage = hg.Stage(
        key="k",
        operator=hg.Aggregate(n=agg.count(), total=agg.sum("v"), last=agg.last("v")),
        routing=hg.Routing(
            policy="flux-load", guard=Guard(min_gain=0, cool_down_batches=0), channels=3, bins=16
        ),
        limits=hg.Limits(memory=memory, turn_ms=0),
        checkpoint=str(folder / "ckpt"),
        sink=DoomedSink(str(folder / "out")),
    )

    def reached(name: str) -> None:
        if name == step and now == batch:
            die()

    stage.on_step = reached
    now = -1

    def process(df: DataFrame, batch_id: int) -> None:
        nonlocal now
        now = batch_id
        stage(df, batch_id)

    source = (
        spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    )
    query = (
        source.writeStream.foreachBatch(process)
        .option("checkpointLocation", str(folder / "ckpt" / "spark"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    with local_spark(2, place / "spark.log") as session:
        main(session, place, sys.argv[2], int(sys.argv[3]), *map(int, sys.argv[4:]))
