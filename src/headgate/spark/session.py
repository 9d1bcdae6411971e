"""The settings that headgate needs in a Spark session, each with its reason."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from headgate.errors import ConfigError
from headgate.spark.inside import WORKER_DAEMON, has_worker_daemon, streaming_query_id
from headgate.spark.versions import check_spark

Builder = TypeVar("Builder")

SETTINGS: dict[str, str] = {
    # Waves in flight through a gate are jobs that share the cores; for a single
    # job this makes no difference.
    "spark.scheduler.mode": "FAIR",
    # A channel must follow its anchor, not the largest shuffle block (which SPARK-2774 would prefer).
    "spark.shuffle.reduceLocality.enabled": "false",
    # Without this a small task waits 40 ms for TCP's delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # Columnar code works best with more than 10,000 rows a batch. Batches are still small enough
    # that Python works on one while the JVM fills the next.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Python workers fork from a daemon that has headgate loaded and compiled. Each starts in
    # milliseconds instead of seconds.
    WORKER_DAEMON: "headgate.spark.worker_daemon",
    # With any smaller limit Spark measures the whole Arrow batch after every row, which took
    # half of the exchange's time.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}


def configure(builder: Any) -> Any:
    """Apply headgate's settings to a `SparkSession.builder` and return it. Settings that you
    make afterwards take precedence.

    Workers run this interpreter unless `PYSPARK_PYTHON` says otherwise.
    """
    check_spark()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in wanted_settings().items():
        builder = builder.config(name, value)
    return builder


def wanted_settings() -> dict[str, str]:
    """The settings that this version of Spark has."""
    return SETTINGS if has_worker_daemon() else {n: v for n, v in SETTINGS.items() if n != WORKER_DAEMON}


def origin_of(df: Any) -> str | None:
    """The id of the streaming query that delivers a micro-batch; None for a DataFrame that no streaming
    query delivers.
    """
    return streaming_query_id(df)


def is_connect(spark: Any) -> bool:
    """Whether a session talks to a Spark Connect server: then it has no SparkContext."""
    return not hasattr(spark, "sparkContext")


def check_classic(
    spark: Any,
    what: str = "a stage",
    instead: str = "read the source with hg.read(spark) instead, which works with both, or ",
) -> None:
    """Refuse a Spark Connect session for what needs a SparkContext. A stage would even run its driver on the
    server, where the stage's memory is not.
    """
    if is_connect(spark):
        raise ConfigError(
            f"{what} needs a classic Spark session, but this one uses Spark Connect: {instead}"
            "run the driver in the cluster with SparkSession.builder.master(...)"
        )


@contextmanager
def conf(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session, and restore them at the end of the block."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
