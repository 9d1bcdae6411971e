"""The stage on Spark: `df.writeStream.foreachBatch(stage)`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from headgate import logs
from headgate.control.policy import Policy
from headgate.observe.events import Event, Listener
from headgate.observe.export.announcer import Announcer
from headgate.operators.base import Operator
from headgate.operators.columns import column_names
from headgate.spark.engine import SparkEngine
from headgate.spark.gates.expansion_step import with_checked_step
from headgate.spark.session import check_classic, origin_of
from headgate.spark.versions import check_spark
from headgate.spark.warm_up import warm_up
from headgate.stage import sinks
from headgate.stage.completion import Completed
from headgate.stage.engine import Engine, Rows
from headgate.stage.facts import BatchFacts
from headgate.stage.settings import Expansion, Limits, Routing
from headgate.stage.stage import KeyedStage
from headgate.storage.manifest import Manifest
from headgate.storage.patience import REQUESTS


class LockedStage(KeyedStage[Rows]):
    """A stage that other threads may change while it runs: they wait for the batch."""

    def __init__(self, engine: Engine[Rows], **settings: Any) -> None:
        super().__init__(engine, **settings)
        self._lock = threading.Lock()

    def process(self, rows: Rows, batch: int, origin: str | None, offsets: Any = None) -> None:
        """Process one batch from `origin`: a streaming query, or the previous stage of a pipeline."""
        with self._lock:
            super().process(rows, batch, origin, offsets)

    def resume(self, nothing: Rows, origin: str | None) -> Manifest | None:
        """Open the stage before its first batch; return what is committed."""
        with self._lock:
            return super().resume(nothing, origin)

    def _end(self, *, complete: bool) -> None:
        with self._lock:
            super()._end(complete=complete)

    def refresh(self, rows: Rows, mode: str = "replace") -> None:
        """Change the build side of a join from the next batch on; the rows are durable when this returns.

        `replace`: these rows replace all rows of their keys. `append`: these rows are added.
        `delete`: all rows of their keys are removed.
        """
        with self._lock:
            super().refresh(rows, mode)


class Stage(LockedStage[DataFrame]):
    """A stateful operator whose keys are placed by policy. Pass it to `foreachBatch`.

    `key` is a column or several; `checkpoint` is a folder on any fsspec file system, for this stage
    alone. `sink` is where the output goes; a stage that others follow in a `Pipeline` has none.
    `aside` is a sink for rows that could not be used (late rows, rows without an event time); it
    gets the columns that the operator reads, and the reason. Without it such rows are only counted.

    `routing` says how keys are placed (`hg.Routing`, or just the name of a policy), `limits` how
    much memory a channel may use and which rows may wait (`hg.Limits`), `expansion` adds a step
    before the stage that makes many rows of one, and the gate that bounds it (`hg.Expansion`); several,
    the outermost first, are nested gates.

    A checkpoint belongs to one streaming query, and begins with its batch 0. With `first_batch` it
    begins with a later batch, and the rows before that are not in its state. `continues` names the
    earlier query whose state this query takes over (an error message gives the name).
    `durable=False` leaves flushing to the operating system.

    `on_complete` is called with an `hg.Completed` when all rows of a source's batch have been processed and
    their output is published, those included that had to wait for memory, for a move or in a buffer.

    `name` is the stage's in metrics and logs. `metrics_port` is an HTTP port for Prometheus; 0 takes a
    free one. `listeners` are called with each event (`hg.observe.QueryEvent`).
    """

    _driver_requests = _told_requests = 0

    def __init__(
        self,
        *,
        key: str | Column | Sequence[str | Column],
        operator: Operator,
        checkpoint: str,
        sink: sinks.Sink | Callable[[DataFrame, int], None] | None = None,
        aside: sinks.Sink | Callable[[DataFrame, int], None] | None = None,
        routing: Routing | str | Policy | None = None,
        limits: Limits | None = None,
        expansion: Expansion | Sequence[Expansion] | None = None,
        first_batch: int | None = None,
        continues: str | None = None,
        durable: bool = True,
        on_complete: Callable[[Completed], None] | None = None,
        name: str | None = None,
        metrics_port: int | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        check_spark()
        self._announcer = Announcer(name, listeners, metrics_port)
        given = [expansion] if isinstance(expansion, Expansion) else expansion or ()
        super().__init__(
            SparkEngine(),
            key=column_names(key, "key"),
            operator=operator,
            checkpoint=checkpoint,
            sink=sink,
            aside=aside,
            routing=routing,
            limits=limits,
            expansion=[with_checked_step(one) for one in given],
            first_batch=first_batch,
            continues=continues,
            durable=durable,
            on_complete=on_complete,
        )
        self.watchers.append(self._tell)
        warm_up()

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Process one micro-batch."""
        check_classic(df.sparkSession)
        self.process(df, batch_id, origin_of(df))

    def process(self, rows: DataFrame, batch: int, origin: str | None, offsets: Any = None) -> None:
        """Process one batch; if it fails, the listeners are told."""
        self._driver_requests = REQUESTS.sent
        with logs.about(query=self.name):
            try:
                super().process(rows, batch, origin, offsets)
            except Exception as error:
                self._announcer.tell(Event.failed, error=error)
                raise

    def _tell(self, facts: BatchFacts) -> None:
        """Tell the listeners what a batch did."""
        assert self.opened is not None, "a batch was committed"
        self._announcer.identify(self.opened.checkpoint.stage)
        driver, tasks = REQUESTS.sent - self._driver_requests, self.task_requests - self._told_requests
        self._driver_requests, self._told_requests = REQUESTS.sent, self.task_requests
        self._announcer.take(facts)
        self._announcer.tell(Event.batch, requests=max(0, driver) + tasks)

    @property
    def name(self) -> str:
        """The name that was given, or the first digits of the checkpoint's id. Metrics and logs have it."""
        return self._announcer.query

    @property
    def listeners(self) -> list[Listener]:
        """Functions that are called with each `hg.observe.QueryEvent`: add to the list, or remove from it, at any
        time. An error of a listener is logged, and does not stop the query.
        """
        return self._announcer.listeners

    @property
    def metrics_port(self) -> int | None:
        """The port on which Prometheus finds the metrics."""
        return None if self._announcer.port is None else self._announcer.port.port
