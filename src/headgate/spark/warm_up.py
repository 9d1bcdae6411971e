"""A small background job that starts when an application makes its first stage.

The first batch would otherwise wait for the daemon of Python workers (imports and compiled code,
seconds of CPU time), and for the JVM to load and compile the code that a batch uses: shuffle,
Arrow, sockets. The job does this while Spark starts and plans the stream, which takes one core, and
kernels are compiled in the driver. Nothing depends on the job: if it fails, the first batch is as
slow as it would be without it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate.routing.key_hash import hash_ints
from headgate.spark.anchor import executors
from headgate.spark.session import check_classic

ROWS = 200_000
log = logging.getLogger("headgate.stage")
_warm: set[str] = set()


def warm_up(spark: SparkSession | None = None, *, direct: bool = False) -> threading.Thread | None:
    """Start the job, once for each application: that of a stage, or that of a `direct` stream. None if
    there is no session yet, or it was started before.
    """
    spark = spark or SparkSession.getActiveSession()
    if spark is not None:
        check_classic(spark)
    if spark is None or spark.sparkContext.applicationId in _warm:
        return None
    _warm.add(spark.sparkContext.applicationId)
    thread = threading.Thread(
        target=_run, args=(spark, _direct if direct else _staged), name="headgate-warm-up", daemon=True
    )
    thread.start()
    return thread


def _run(spark: SparkSession, job: Callable[[SparkSession], None]) -> None:
    try:
        job(spark)
    except Exception as error:
        log.info("warming up failed: %s", error)


def _direct(spark: SparkSession) -> None:
    """Start the daemon of Python workers, and load what a job on RDDs needs; there is no query plan."""
    count = executors(spark)
    numbers = spark.sparkContext.parallelize(range(count), count)
    numbers.map(_pair).partitionBy(count).mapPartitions(list).collect()


def _pair(number: int) -> tuple[int, bytes]:
    return number, b""


def _staged(spark: SparkSession) -> None:
    hash_ints(np.zeros(1, np.int64))  # numba loads its own tables on first use
    own = spark.newSession()  # has its own settings; stages set theirs for each batch
    own.conf.set("spark.sql.adaptive.enabled", "false")
    rows = own.range(0, ROWS, 1, 1).select(F.col("id").alias("c0"), F.rand(1).alias("c1"))
    tasks = executors(
        spark
    )  # one for each executor, to start its daemon; the other cores stay free for the first batch
    channel = F.pmod(F.xxhash64("c0"), F.lit(tasks)).cast("int")
    rows.repartitionById(tasks, channel).mapInArrow(_counted, "rows long").collect()


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})
