"""A driver that kills itself: run as `python kill_points.py WAY FOLDER STEP BATCH [MEMORY]`. WAY is `stage`
(`foreachBatch`) or `direct` (a direct stream). STEP `never` runs to the end.

With MEMORY, so much for each channel: bins go to disk and rows wait, until the last run, which has memory for all.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from headgate import agg
from headgate.policies import Guard
from headgate.spark.direct.query import Query, Trigger
from headgate.spark.local import local_spark
from headgate.stage import sinks


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(
    spark: SparkSession, way: str, folder: Path, step: str, batch: int, memory: int | None = None
) -> None:
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

    operator = hg.Aggregate(n=agg.count(), total=agg.sum("v"), last=agg.last("v"))
    guard = Guard(min_gain=0, cool_down_batches=0)
    settings: dict[str, Any] = {
        "routing": hg.Routing(policy="flux-load", guard=guard, channels=3, bins=16),
        "limits": hg.Limits(memory=memory, turn_ms=0),
    }
    sink = DoomedSink(str(folder / "out"))
    now = -1

    def reached(name: str) -> None:
        if name == step and now == batch:
            die()

    if way == "direct":
        rows = hg.read(spark).files(str(folder / "in"), schema="k long, v long", format="parquet")
        written = rows.key_by("k", **settings).apply(operator).write(sink)
        query = Query.of(written, str(folder / "ckpt"), Trigger(True, max_rows=1), durable=True)

        def committing(name: str) -> None:
            nonlocal now
            now = query.next_batch
            reached(name)

        query.stages[0].on_step = committing
        query.begin().await_end()
        return
    stage = hg.Stage(key="k", operator=operator, checkpoint=str(folder / "ckpt"), sink=sink, **settings)
    stage.on_step = reached

    def process(df: DataFrame, batch_id: int) -> None:
        nonlocal now
        now = batch_id
        stage(df, batch_id)

    source = (
        spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    )
    running = (
        source.writeStream.foreachBatch(process)
        .option("checkpointLocation", str(folder / "ckpt" / "spark"))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()


if __name__ == "__main__":
    place = Path(sys.argv[2])
    with local_spark(2, place / "spark.log") as session:
        main(session, sys.argv[1], place, sys.argv[3], int(sys.argv[4]), *map(int, sys.argv[5:]))
