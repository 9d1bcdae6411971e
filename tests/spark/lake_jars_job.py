"""Native Spark with the jars of Delta or Iceberg reads tables that headgate wrote, and prints their rows as JSON.

python lake_jars_job.py delta|iceberg JARS FOLDER...
"""

import json
import sys

from pyspark.sql import SparkSession


def session(kind: str, jars: str) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.jars", jars)
    )
    settings = {}
    if kind == "delta":
        settings = {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    kind, jars, *tables = sys.argv[1:]
    spark = session(kind, jars)
    spark.sparkContext.setLogLevel("ERROR")
    found = []
    for table in tables:
        frame = spark.read.format(kind).load(table)
        total = frame.where("k >= 2").count()  # by the statistics of the files
        found.append([total, sorted([row.k, row.n] for row in frame.collect())])
    print("rows:", json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
