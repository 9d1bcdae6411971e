"""The stage on Spark: `df.writeStream.foreachBatch(stage)`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame

from headgate.control.policy import Policy
from headgate.operators.base import Operator
from headgate.operators.columns import column_names
from headgate.spark.engine import SparkEngine
from headgate.spark.gates.expansion_step import checked_step
from headgate.spark.session import check_classic, origin_of
from headgate.spark.warm_up import warm_up
from headgate.stage import sinks
from headgate.stage.settings import Expansion, Limits, Routing
from headgate.stage.stage import KeyedStage


class Stage(KeyedStage[DataFrame]):
    """A stateful operator whose keys are placed by policy. Pass it to `foreachBatch`.

    `key` is a column or several; `checkpoint` is a folder on any fsspec file system, for this stage alone. `sink` is where the
    output goes; a stage that others follow in a `Pipeline` has none. `aside` is a sink for rows that could not be used (late
    ones, those without an event time): the columns that the operator reads, and the reason. Without it they are only counted.

    `routing` says how keys are placed (`hg.Routing`, or just the name of a policy), `limits` how much memory a channel may use and
    which rows may wait (`hg.Limits`), `expansion` names a step before the stage that makes many rows of one, with the gate that
    bounds it (`hg.Expansion`).

    A checkpoint belongs to one streaming query, and begins with its batch 0. `first_batch` says that it begins with a later one,
    without the rows before it. `continues` names the query whose state another query is to go on from (an error message
    gives the name). `durable=False` leaves flushing to the operating system.
    """

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
        expansion: Expansion | None = None,
        first_batch: int | None = None,
        continues: str | None = None,
        durable: bool = True,
    ) -> None:
        if expansion is not None:
            expansion = replace(expansion, step=checked_step(expansion.step))
        super().__init__(
            SparkEngine(),
            key=column_names(key, "key"),
            operator=operator,
            checkpoint=checkpoint,
            sink=sink,
            aside=aside,
            routing=routing,
            limits=limits,
            expansion=expansion,
            first_batch=first_batch,
            continues=continues,
            durable=durable,
        )
        self._lock = threading.Lock()
        warm_up()

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Process one micro-batch."""
        check_classic(df.sparkSession)
        self.process(df, batch_id, origin_of(df))

    def process(self, rows: DataFrame, batch: int, origin: str | None) -> None:
        """Process one micro-batch from `origin`: a streaming query, or the stage before in a pipeline."""
        with self._lock:
            super().process(rows, batch, origin)

    def _end(self, *, complete: bool) -> None:
        with self._lock:
            super()._end(complete=complete)

    def refresh(self, rows: DataFrame, mode: str = "replace") -> None:
        """Change the build side of a join, from the next batch on; the rows are safe when this returns.

        `replace`: these are now the rows of the keys that occur; `append`: they are added; `delete`: their keys have none.
        """
        with self._lock:
            super().refresh(rows, mode)
