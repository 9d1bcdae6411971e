"""A stream of the configuration on Spark: Kafka topics, files, or a table of the lakehouse. Tasks read the ranges that
the driver planned, as rows in slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import CheckpointMismatch, ConfigError, HeadgateError, SourceFailed
from headgate.service.batch.ranges import in_utc, rows_of_ranges
from headgate.service.batch.streams import columns_of, declared, in_slots
from headgate.service.service import Service
from headgate.service.stream_config import FOLDER, StreamConfig
from headgate.service.stream_upgrade import place_after_spark
from headgate.sources.source import Range, Source
from headgate.spark.direct.read import as_schema, kafka_schema


class ConnectorStream:
    """One stream. `declare` makes it a source of the service, after all has been checked."""

    def __init__(self, spark: SparkSession, service: Service, config: StreamConfig, tasks: int) -> None:
        """`spark` must be in UTC. `tasks` is how many tasks may read at a time."""
        self.name, self.max_rows = config.name, config.max_rows
        self._spark, self._service, self._config, self._tasks = spark, service, config, tasks
        self.start: Any = None
        """Where it begins, if no commit says so."""
        with _named(config.name):
            self.source: Source = config.source(self._schema(), service.settings.flow.batch_bytes)
            if config.format != "kafka":
                self.source.recall(service.batch_log.store.child(f"{FOLDER}/{self.name}"))
            self._declares = columns_of(self._selected(()), self.name, config.time)

    def _schema(self) -> Any:
        schema = self._config.options.get("schema")
        if self._config.format == "kafka":
            return kafka_schema(self._spark, schema, self._config.options.get("value"))
        return None if schema is None else as_schema(self._spark, schema)

    def check(self) -> None:
        """Raise a `ConfigError` if the source cannot be read. Brokers that are silent are no reason:
        the loop tries again.
        """
        with _named(self.name), suppress(SourceFailed):
            self.source.check()

    def declare(self) -> None:
        """Make it a source of the service, or find that it is one."""
        with _named(self.name):
            self._declared = declared(self._service, self.name, self._declares)
            self.start = place_after_spark(self._service, self.name, self._config.format, self.source)

    def rows(self, ranges: Sequence[Range]) -> DataFrame:
        """The rows of some ranges, in slots."""
        return in_slots(self._selected(ranges), self._declared, self._config.time)

    def _selected(self, ranges: Sequence[Range]) -> DataFrame:
        frame = rows_of_ranges(self._spark, self.source, ranges, self._tasks)
        return frame.selectExpr(*self._config.select) if self._config.select else frame


def open_streams(
    spark: SparkSession,
    service: Service,
    sections: Mapping[str, Mapping[str, Any]],
    environment: Mapping[str, str],
) -> list[ConnectorStream]:
    """The streams of the configuration, checked as far as their brokers answer."""
    session, tasks = in_utc(spark), spark.sparkContext.defaultParallelism
    configs = [StreamConfig.of(name, section, environment) for name, section in sections.items()]
    streams = [ConnectorStream(session, service, config, tasks) for config in configs]
    for stream in streams:
        stream.check()
    for stream in streams:
        stream.declare()
    return streams


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Errors of the configuration name the section of the stream."""
    try:
        yield
    except CheckpointMismatch:
        raise
    except HeadgateError as error:
        if not isinstance(error, ConfigError) or f"[streams.{name}]" in str(error):
            raise
        raise ConfigError(f"[streams.{name}]: {error}") from error
    except Exception as error:
        raise ConfigError(f"[streams.{name}]: {str(error).splitlines()[0]}") from error
