"""A query from Kafka to Kafka on Spark, one of whose workers dies, and what Spark's own connector
reads of both topics.

`python kafka_spark_job.py SERVERS FOLDER JAR,JAR,...` prints JSON: the rows of each topic, as
native Spark gives them.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate import agg


def main(servers: str, folder: Path, jars: str) -> None:
    builder = SparkSession.builder.master("local[2, 4]").config("spark.jars", jars)
    for name in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(name, "127.0.0.1")
    spark = hg.configure(builder.config("spark.ui.enabled", "false")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    dead = str(folder / "dead")

    def die_once(table: pa.Table) -> pa.Table:
        if table.num_rows and not os.path.exists(dead):
            Path(dead).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return table

    (
        hg.read(spark)
        .kafka(servers, "numbers", schema="k long, n long", meta=["partition", "offset"])
        .map_batches(die_once)
        .key_by("k")
        .aggregate(n=agg.count(), total=agg.sum("n"))
        .write(hg.sinks.Kafka(servers, "counts", key="k"))
        .start(str(folder / "spark-checkpoint"), available_now=True, max_rows=4000)
        .await_end()
    )

    def native(topic: str) -> Any:
        reader = (
            spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        )
        return reader.option("kafka.isolation.level", "read_committed").load()

    sums = native("numbers").select(F.from_json(F.col("value").cast("string"), "k long, n long").alias("v"))
    wanted = sums.groupBy("v.k").agg(F.count("*").alias("n"), F.sum("v.n").alias("total")).collect()
    got = (
        native("counts")
        .select("partition", "offset", F.col("value").cast("string"))
        .orderBy("offset")
        .collect()
    )
    rows = {"wanted": [row.asDict() for row in wanted], "got": [json.loads(row.value) for row in got]}
    print(json.dumps({**rows, "died": os.path.exists(dead)}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
