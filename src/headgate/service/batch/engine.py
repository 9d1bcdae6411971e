"""Spark as a service process uses it: started ahead of time, given a service later."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from headgate.errors import ConfigError
from headgate.service.config import ServiceConfig
from headgate.service.kafka_config import FORMAT
from headgate.service.places import Places
from headgate.service.rehearsal import rehearse
from headgate.service.service import Service
from headgate.spark.local import local_spark


class SparkEngine:
    """Runs batches on Spark. `warm` does what takes long and needs no service; `start` is quick after it."""

    def __init__(self, config: ServiceConfig, log: Path) -> None:
        self._config, self._log = config, log
        self._spark: Any = None
        foreign = [name for name, s in config.streams.items() if s.get("format") != FORMAT]
        places = Places.of(config.folder, config.registry, config.state, config.push)
        if config.standby and places.apart and foreign:
            raise ConfigError(
                f"stream {foreign[0]!r} has Spark's own checkpoint in {config.folder}, which a standby on another machine "
                "does not see: share the folder and keep the state in it, or bring the stream through Kafka"
            )

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

    def _start(self, service: Service, stack: ExitStack, streams: Mapping[str, Mapping[str, Any]]) -> None:
        from headgate.service.batch.kafka_stream import open_kafka_streams
        from headgate.service.batch.runner import Runner
        from headgate.service.batch.streams import open_stream

        config, spark = self._config, self._spark
        of_kafka = {name: s for name, s in streams.items() if s.get("format") == FORMAT}
        of_spark = {name: s for name, s in streams.items() if name not in of_kafka}
        kafka = open_kafka_streams(spark, service, of_kafka, os.environ)
        frames = {name: open_stream(spark, name, stream) for name, stream in of_spark.items()}
        times = {name: str(stream.get("time", "time")) for name, stream in of_spark.items()}
        runner = Runner(service, spark, frames, times=times, kafka=kafka)
        stack.callback(runner.stop, config.drain_s / 2)
        runner.start()


def _import_task(batches: Any) -> Any:
    import headgate.service.batch.task  # noqa: F401

    return batches
