"""What runs a service's batches on Spark: a streaming query, and a loop of the service's own for Kafka streams.

When the query fails, it is started again where it stopped; the loop does the same for each of its streams.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate import logs
from headgate.service.batch.job import SparkJob
from headgate.service.batch.kafka_stream import KafkaStream, union
from headgate.service.batch.loop import Loop
from headgate.service.batch.processor import BatchProcessor
from headgate.service.batch.streams import columns_of, declared, in_slots, pushed_events
from headgate.service.service import Service
from headgate.spark.session import conf

log = logs.logger("headgate.service")
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
"""Before a failed query is started again: the wait doubles with every failure, up to the longest."""
UTC = {"spark.sql.session.timeZone": "UTC"}
"""Event times carry no zone on their way through Spark: they are UTC."""


class Runner:
    """Runs a service's batches until it is stopped.

    `streams` are Spark streaming DataFrames by source name, in addition to the pushed events. Their set is fixed for the
    life of the folder, because Spark's own checkpoint depends on it. `times` names a stream's column of event time, if
    that is not `time`. `kafka` are streams that the service plans itself: they may come and go between two starts.
    """

    def __init__(
        self,
        service: Service,
        spark: SparkSession,
        streams: Mapping[str, DataFrame] | None = None,
        *,
        times: Mapping[str, str] | None = None,
        kafka: Sequence[KafkaStream] = (),
        trigger: str = "500 milliseconds",
        files_per_batch: int = 200,
    ) -> None:
        self.service, self.spark, self.trigger = service, spark, trigger
        tasks = spark.sparkContext.defaultParallelism
        self._processor = BatchProcessor(service, SparkJob(), tasks=service.settings.tasks or tasks)
        with conf(spark, UTC):
            self._rows = pushed_events(spark, service, files_per_batch)
            for name, frame in (streams or {}).items():
                time = (times or {}).get(name, "time")
                source = declared(service, name, columns_of(frame, name, time))
                self._rows = self._rows.unionByName(in_slots(frame, source, time))
        self._loop = Loop(service, self._processor, kafka, union, tasks=tasks) if kafka else None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headgate-batches", daemon=True)
        self._query: Any = None
        self._failed_after = -1
        """The last batch that was committed before the query failed."""

    def start(self) -> None:
        """Start the streaming query and the loop; returns at once."""
        self._start_query()
        self._thread.start()
        if self._loop is not None:
            self._loop.start()

    def _start_query(self) -> None:
        writer = self._rows.writeStream.foreachBatch(self._processor.process)
        writer = writer.option("checkpointLocation", str(self.service.settings.folder / "spark"))
        with conf(self.spark, UTC):  # a query keeps the settings with which it started
            self._query = writer.trigger(processingTime=self.trigger).start()
        self.service.running = True

    def _watch(self) -> None:
        """Clear a failure when batches go on, and start the query again when it has failed."""
        wait = FIRST_WAIT_S
        while not self._stopping.wait(0.2):
            error = self._query.exception() if not self._query.isActive else None
            if self._query.isActive:
                if "" in self.service.failures and self._processor.delivered > self._failed_after:
                    del self.service.failures[""]
                    wait = FIRST_WAIT_S
                continue
            self.service.failures[""] = str(error).splitlines()[0] if error else "the streaming query stopped"
            self._failed_after = self._processor.delivered
            if self._processor.superseded:
                log.error(
                    "batches stopped after batch %d, and are not tried again: %s", self._failed_after, error
                )
                return
            log.error(
                "batches stopped after batch %d, trying again in %g s: %s", self._failed_after, wait, error
            )
            if self._stopping.wait(wait):
                return
            wait = min(2 * wait, LONGEST_WAIT_S)
            self._start_query()

    def stop(self) -> None:
        """Stop the streaming query. Spark may interrupt the batch under way, which then was never committed."""
        self._stopping.set()
        if self._loop is not None:
            self._loop.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        if self._query is not None:
            self._query.stop()
        self.service.running = False
