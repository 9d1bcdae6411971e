"""Spark as a service process uses it: started ahead of time, given a service later."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from headgate.service.config import ServiceConfig
from headgate.service.rehearsal import rehearse
from headgate.service.service import Service
from headgate.spark.inside import jvm_lives
from headgate.spark.local import local_spark


class SparkEngine:
    """Runs batches on Spark. `warm` does what takes long and needs no service; `start` is quick after it."""

    def __init__(self, config: ServiceConfig, log: Path) -> None:
        self._config, self._log = config, log
        self._spark: Any = None

    def warm(self, stack: ExitStack) -> None:
        """Start Spark. A standby also runs a batch: on this machine if Spark is here, else only a task that imports."""
        config = self._config
        self._spark = stack.enter_context(local_spark(2, self._log, config.spark, master=config.master))
        if config.standby and config.master.startswith("local"):
            rehearse(partial(self._start, streams={}))
        elif config.standby:
            self._spark.range(2).mapInArrow(_import_task, "id long").collect()

    def start(self, service: Service, stack: ExitStack) -> None:
        """Start the batches of a service. They end with the stack, after the batch under way."""
        self._start(service, stack, self._config.streams)

    def alive(self) -> bool:
        """Whether batches can run: without its JVM Spark never comes back."""
        return self._spark is None or jvm_lives(self._spark)

    def _start(self, service: Service, stack: ExitStack, streams: Mapping[str, Mapping[str, Any]]) -> None:
        from headgate.service.batch.connector_stream import open_streams
        from headgate.service.batch.published_stream import PublishedStream
        from headgate.service.batch.runner import Runner

        config, spark = self._config, self._spark
        opened = open_streams(spark, service, streams, os.environ)
        runner = Runner(service, spark, [*opened, PublishedStream(spark, service)])
        stack.callback(runner.stop, config.drain_s / 2)
        runner.start()


def _import_task(batches: Any) -> Any:
    import headgate.service.batch.task  # noqa: F401

    return batches
