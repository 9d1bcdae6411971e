"""Settings of a Spark session that headgate wants, and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from headgate.errors import ConfigError

Builder = TypeVar("Builder")
QUERY_ID = "sql.streaming.queryId"
"""The local property in which Spark tells a micro-batch's jobs whose they are."""

SETTINGS: dict[str, str] = {
    # Waves in flight through a gate are jobs that share the cores; a job that is alone does not notice.
    "spark.scheduler.mode": "FAIR",
    # A channel follows its anchor, not the largest shuffle block (SPARK-2774's preference would pull it
    # away).
    "spark.shuffle.reduceLocality.enabled": "false",
    # Without this a small task waits 40 ms for TCP's delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # Columnar code wants larger batches than 10,000 rows; small enough that Python works while the JVM fills
    # the next.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Python workers fork from a daemon that has headgate loaded and compiled: milliseconds instead of seconds
    # for each.
    "spark.python.daemon.module": "headgate.spark.worker_daemon",
    # Below this maximum Spark measures the whole Arrow batch again after every row, which was half of the
    # exchange's time.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}


def configure(builder: Any) -> Any:
    """Put headgate's settings on a `SparkSession.builder`, which is returned. Settings that you make
    afterwards win.

    Workers run this interpreter unless `PYSPARK_PYTHON` says otherwise.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder


def origin_of(df: Any) -> str | None:
    """The id of the streaming query that delivers a micro-batch, which Spark's checkpoint keeps; None for a frame of another kind."""
    session = getattr(df, "sparkSession", None)
    context = getattr(session, "sparkContext", None)
    return None if context is None else context.getLocalProperty(QUERY_ID)


def check_classic(spark: Any) -> None:
    """Refuse a session of Spark Connect: it has no SparkContext, and would run a stage's driver in the server, away from its memory."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigError(
            "headgate needs a classic Spark session, and this one is of Spark Connect, which is not supported yet: run the driver "
            "in the cluster and make the session with SparkSession.builder.master(...) instead of .remote(...)"
        )


@contextmanager
def conf(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session for a while."""
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
