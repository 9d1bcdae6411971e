"""A Kafka stream of the service on Spark: tasks read the ranges that the driver planned, as rows in slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import CheckpointMismatch, ConfigError, HeadgateError, SourceFailed
from headgate.service.batch.streams import columns_of, declared, in_slots
from headgate.service.kafka_config import KafkaConfig
from headgate.service.service import Service
from headgate.sources.source import Range, Source
from headgate.spark.arrow_types import from_arrow_schema
from headgate.spark.direct.read import kafka_schema
from headgate.state.payload import plain_type
from headgate.streams.planned import InputRange, split_tasks


class KafkaStream:
    """The topics of one stream. `declare` makes it a source of the service, after all has been checked."""

    def __init__(self, spark: SparkSession, config: KafkaConfig, tasks: int) -> None:
        """`spark` must be in UTC. `tasks` is how many tasks may read at a time."""
        self.name, self.max_rows = config.name, config.max_rows
        self._spark, self._config, self._tasks = spark, config, tasks
        with _named(config.name):
            schema = kafka_schema(spark, config.options.get("schema"), config.options.get("value"))
            self.source: Source = config.source(schema)
            self._columns = from_arrow_schema(_plain(self.source.schema()))
            self._declares = columns_of(self._selected(()), self.name, config.time)

    def check(self) -> None:
        """Raise a `ConfigError` if the topics cannot be read. Brokers that are silent are no reason:
        the loop tries again.
        """
        with _named(self.name), suppress(SourceFailed):
            self.source.check()

    def declare(self, service: Service) -> None:
        """Make it a source of the service, or find that it is one."""
        with _named(self.name):
            self._declared = declared(service, self.name, self._declares)

    def rows(self, ranges: Sequence[Range]) -> DataFrame:
        """The rows of some ranges, in slots."""
        return in_slots(self._selected(ranges), self._declared, self._config.time)

    def _selected(self, ranges: Sequence[Range]) -> DataFrame:
        parts = [InputRange(0, part.what, part.rows, part.parts) for part in ranges]
        reader = RangeReader(self.source, split_tasks(parts, self._tasks) if parts else [])
        count = max(1, len(reader.tasks))
        frame = self._spark.range(0, count, 1, count).mapInArrow(reader, self._columns)
        return frame.selectExpr(*self._config.select) if self._config.select else frame


@dataclass(frozen=True)
class RangeReader:
    """The function of `mapInArrow`: each number stands for the ranges of a task."""

    source: Source
    tasks: list[list[tuple[int, InputRange]]]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = _plain(self.source.schema())
        for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
            for _, part in self.tasks[number] if self.tasks else ():
                for rows in self.source.read(part.what):
                    yield from pa.Table.from_batches([rows]).cast(schema).to_batches()


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of several streams."""
    return reduce(DataFrame.union, frames)


def open_kafka_streams(
    spark: SparkSession,
    service: Service,
    sections: Mapping[str, Mapping[str, Any]],
    environment: Mapping[str, str],
) -> list[KafkaStream]:
    """The streams of the configuration, checked as far as their brokers answer."""
    session = spark.newSession()  # event times carry no zone on their way through Spark: they are UTC
    session.conf.set("spark.sql.session.timeZone", "UTC")
    tasks = spark.sparkContext.defaultParallelism
    configs = [KafkaConfig.of(name, section, environment) for name, section in sections.items()]
    streams = [KafkaStream(session, config, tasks) for config in configs]
    for stream in streams:
        stream.check()
    for stream in streams:
        stream.declare(service)
    return streams


def _plain(schema: pa.Schema) -> pa.Schema:
    """The columns in their Arrow types, as Spark takes them."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


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
