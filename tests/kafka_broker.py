"""A real broker for the long tests. Where Maven or the jars cannot be reached, the tests that ask for it are skipped, and
say why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.errors import ConfigError
from headgate_lab.bench.kafka import broker

SETTINGS = """
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=1000
log.cleaner.backoff.ms=500
"""


def jars(*names: str, alone: bool = False) -> list[str]:
    """The paths of jars and of all that they need, or of them alone; or a skipped test."""
    try:
        return broker.jars(*names, alone=alone)
    except ConfigError as error:
        pytest.skip(str(error))


class Broker(broker.Broker):
    """A broker that runs, and removes and compacts old records soon."""

    def __init__(self, folder: Path) -> None:
        jars(broker.KAFKA)
        super().__init__(folder, "-Xmx384m", "-XX:TieredStopAtLevel=1", settings=SETTINGS)
        self.start()

    def producer(self, **config: Any) -> Any:
        """A client that sends records. An option such as `transactional.id` is written `transactional_id`."""
        from confluent_kafka import Producer

        named = {name.replace("_", "."): value for name, value in config.items()}
        return Producer({"bootstrap.servers": self.servers, "log_level": 0, **named})

    def produce(self, topic: str, values: list[bytes], partition: int = 0, **record: Any) -> None:
        """Send records, and wait until the broker has them."""
        producer = self.producer()
        for value in values:
            producer.produce(topic, value, partition=partition, **record)
        assert producer.flush(30) == 0
