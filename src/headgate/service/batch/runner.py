"""Batches on Spark: one streaming query for everything, started again where it stopped when it fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import CheckpointMismatch
from headgate.service.batch.streams import columns_of, in_slots, pushed
from headgate.service.service import Service
from headgate.service.tenants import Tenant
from headgate.spark.session import conf

log = logging.getLogger("headgate.service")
OPERATOR = Tenant("operator", admin=True)
LONGEST_WAIT_S = 30.0
UTC = {"spark.sql.session.timeZone": "UTC"}
"""Event times have no zone of their own on the way: they are UTC."""


class Runner:
    """Runs a service's batches until it is stopped.

    ``streams`` are Spark streaming DataFrames by source name, beside what is pushed; their set is fixed for the life of the folder, as
    Spark's own checkpoint is made of it. ``times`` names their column of event time, if it is not `time`.
    """

    def __init__(
        self,
        service: Service,
        spark: SparkSession,
        streams: Mapping[str, DataFrame] | None = None,
        *,
        times: Mapping[str, str] | None = None,
        trigger: str = "500 milliseconds",
        files_per_batch: int = 200,
    ) -> None:
        self.service, self.spark, self.trigger = service, spark, trigger
        with conf(spark, UTC):
            self._frame = pushed(spark, service, files_per_batch)
            for name, frame in (streams or {}).items():
                self._frame = self._frame.unionByName(
                    self._stream(name, frame, (times or {}).get(name, "time"))
                )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headgate-batches", daemon=True)
        self._query: Any = None

    def _stream(self, name: str, frame: DataFrame, time: str) -> DataFrame:
        columns = columns_of(frame, name, time)
        known = self.service.sources.by_name.get(name)
        if known is None:
            (known,) = self.service.add_sources(OPERATOR, [{"name": name, "columns": columns}])
        elif dict(known.kind.columns) != columns:
            raise CheckpointMismatch(
                f"source {name!r} was declared with {dict(known.kind.columns)}, and its stream now has {columns}: "
                "put it back as it was, or give the stream another name"
            )
        return in_slots(frame, known, time)

    def start(self) -> None:
        """Begin; returns at once."""
        self._begin()
        self._thread.start()

    def _begin(self) -> None:
        writer = self._frame.writeStream.foreachBatch(self.service.serving)
        writer = writer.option("checkpointLocation", str(self.service.settings.folder / "spark"))
        with conf(self.spark, UTC):  # the query keeps the settings that it was started with
            self._query = writer.trigger(processingTime=self.trigger).start()
        self.service.running = True

    def _watch(self) -> None:
        wait = 1.0
        while not self._stopping.wait(0.2):
            error = self._query.exception() if not self._query.isActive else None
            if self._query.isActive:
                if self.service.failure and self.service.last_batch > self._failed_at:
                    self.service.failure, wait = None, 1.0
                continue
            self.service.failure = str(error).splitlines()[0] if error else "the streaming query stopped"
            self._failed_at = self.service.last_batch
            if self.service.serving.superseded:
                log.error("batches stopped for good after batch %d: %s", self._failed_at, error)
                return
            log.error("batches stopped after batch %d, next try in %g s: %s", self._failed_at, wait, error)
            if self._stopping.wait(wait):
                return
            wait = min(2 * wait, LONGEST_WAIT_S)
            self._begin()

    _failed_at = -1

    def stop(self) -> None:
        """Stop after the batch under way, as far as Spark lets it."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        if self._query is not None:
            self._query.stop()
        self.service.running = False
