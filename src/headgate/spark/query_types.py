"""Groups queries into types on Spark, and joins the servers of types back to queries: for
inputs too large for the driver.

A type is a sorted set of sources and a cost. The driver receives one row for each
type, never one for each query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY, SOURCES, COST, COUNT, SERVER = "query", "sources", "cost", "count", "server"


def read_queries(spark: SparkSession, path: str) -> DataFrame:
    """Read queries in any of the forms of `headgate place`: one row each with
    ``query``, sorted ``sources`` and ``cost``.
    """
    kind = path.rsplit(".", 1)[-1].lower()
    if kind == "csv":
        rows = spark.read.csv(path, header=True)
    elif kind in ("json", "jsonl"):
        rows = spark.read.json(path)
    else:
        rows = spark.read.parquet(path)
    cost = f.col(COST).cast("double") if COST in rows.columns else f.lit(1.0)
    if SOURCES in rows.columns:
        members = f.split(SOURCES, ";") if dict(rows.dtypes)[SOURCES] == "string" else f.col(SOURCES)
        trimmed = f.transform(members, lambda name: f.trim(name))
        return rows.select(
            f.col(QUERY).cast("string"),
            f.array_sort(f.array_distinct(trimmed)).alias(SOURCES),
            cost.alias(COST),
        )
    grouped = rows.groupBy(f.col(QUERY).cast("string").alias(QUERY))
    return grouped.agg(f.array_sort(f.collect_set("source")).alias(SOURCES), f.first(cost).alias(COST))


def types_of(queries: DataFrame) -> Any:
    """Return the types as an Arrow table: sources, cost, count."""
    return queries.groupBy(SOURCES, COST).agg(f.count("*").alias(COUNT)).orderBy(SOURCES, COST).toArrow()


def repeated(queries: DataFrame) -> list[str]:
    """Return the name of one query that occurs twice; an empty list if there is none."""
    twice = queries.groupBy(QUERY).count().where("count > 1").limit(1)
    return [row[QUERY] for row in twice.collect()]


def with_servers(queries: DataFrame, steps: DataFrame) -> DataFrame:
    """Give every query its server: ``steps`` has sources, cost, server and the range
    [low, high) of its type's queries.
    """
    within = Window.partitionBy(SOURCES, COST).orderBy(QUERY)
    numbered = queries.withColumn("at", f.row_number().over(within) - 1)
    placed = numbered.join(steps, [SOURCES, COST]).where("at >= low and at < high")
    return placed.select(QUERY, SERVER)
