"""Which advertisements were clicked: two streams joined by event time, then counted by campaign and quarter of an hour.

    pip install 'headgate[spark]'
    python examples/clicks.py

A click belongs to the impression of the same advertisement that was shown up to ten minutes before it. Impressions without
a click count too, once none can come any more. Both stages are committed as one, and each is balanced by its own key.
"""

import datetime as dt
import os
import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from headgate import agg

START = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
HOURS, PER_HOUR = 3, 200


def generate(folder: Path) -> None:
    """Impressions and clicks of a few hours, an hour a file; some clicks come late, and at last a day is over."""
    draw = random.Random(1)
    shown: list[list[tuple[str, dt.datetime, str]]] = [[] for _ in range(HOURS + 2)]
    clicked: list[list[tuple[str, dt.datetime]]] = [[] for _ in range(HOURS + 2)]
    for number in range(HOURS * PER_HOUR):
        hour, ad = number // PER_HOUR, f"ad {number}"
        time = START + dt.timedelta(hours=hour, seconds=draw.randrange(3600))
        shown[hour].append((ad, time, draw.choice(["spring", "sale", "sale", "sale"])))
        if draw.random() < 0.4:
            clicked[hour].append((ad, time + dt.timedelta(seconds=draw.randrange(900))))
    for hour in (HOURS, HOURS + 1):
        end = START + dt.timedelta(hours=6 + 6 * hour)
        shown[hour].append((f"end {hour}", end, "end"))
        clicked[hour].append((f"end {hour}", end))
    for name, batches, columns in (
        ("shown", shown, ("ad", "time", "campaign")),
        ("clicked", clicked, ("ad", "time")),
    ):
        (folder / name).mkdir(parents=True)
        for hour, rows in enumerate(batches):
            table = pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
            path = folder / name / f"{hour:02d}.parquet"
            pq.write_table(table, path)
            # Spark takes files in the order of their modification times. Files that are written within a few milliseconds have equal
            # ones, and then an hour could come before the one that precedes it, whose rows would all be late.
            written = START.timestamp() + 3600 * hour
            os.utime(path, (written, written))


def read(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """A stream of files, one a batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def count_clicks(spark: SparkSession, data: Path, work: Path) -> hg.Pipeline:
    """Run both stages over the whole of both streams."""
    shown = read(spark, data / "shown", "ad string, time timestamp, campaign string")
    clicked = read(spark, data / "clicked", "ad string, time timestamp")
    joined = hg.Stage(
        key="ad",
        operator=hg.Join("left", after="10 minutes", delay="15 minutes"),
        routing=hg.Routing(channels=4),
        checkpoint=str(work / "joined"),
    )
    counted = hg.Stage(
        key="left_campaign",
        operator=hg.Windows(
            hg.tumbling("15 minutes"),
            on="left_time",
            delay="2 hours",
            shown=agg.count(),
            clicked=agg.count("right_time"),
        ),
        routing=hg.Routing(channels=2),
        checkpoint=str(work / "counted"),
        sink=hg.sinks.Parquet(str(work / "out")),
        aside=hg.sinks.Parquet(str(work / "late")),
    )
    pipeline = hg.Pipeline(joined, counted)
    query = (
        hg.two_streams(shown, clicked, key="ad", time="time")
        .writeStream.foreachBatch(pipeline)
        .option("checkpointLocation", str(work / "spark"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return pipeline


def main() -> None:
    """Generate, count, and show."""
    spark = hg.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        data, work = Path(folder) / "data", Path(folder) / "work"
        generate(data)
        pipeline = count_clicks(spark, data, work)
        spark.read.parquet(str(work / "out")).orderBy("window_start", "left_campaign").show(
            40, truncate=False
        )
        for status in pipeline.status():
            print(status)


if __name__ == "__main__":
    main()
