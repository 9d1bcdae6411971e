"""Rows of Spark in the slots of a source."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headgate.errors import CheckpointMismatch, ConfigError
from headgate.service.service import Service
from headgate.service.sources import ALL_SLOTS, Source
from headgate.service.tenants import OPERATOR
from headgate.sql.source_schema import TIME, TYPES

SPARK_TYPES = {
    "l": T.LongType(),
    "d": T.DoubleType(),
    "v": T.StringType(),
    "b": T.BooleanType(),
    "t": T.TimestampNTZType(),
}
"""By the letter of a slot. Event times are UTC, and have no zone of their own."""


def in_slots(frame: DataFrame, source: Source, time: str = TIME) -> DataFrame:
    """The rows of one source in slots."""
    columns = [F.lit(source.id).cast("int").alias("source"), F.col(time).cast("timestamp_ntz").alias(TIME)]
    by_slot = {slot: name for name, slot in source.kind.slots.items()}
    for slot in ALL_SLOTS:
        value = F.col(by_slot[slot]) if slot in by_slot else F.lit(None)
        columns.append(value.cast(SPARK_TYPES[slot[0]]).alias(slot))
    return frame.select(*columns)


def columns_of(frame: DataFrame, name: str, time: str) -> dict[str, str]:
    """The columns of a DataFrame as a source declares them."""
    letters = {kind.simpleString(): letter for letter, kind in SPARK_TYPES.items()} | {
        "int": "l",
        "smallint": "l",
        "float": "d",
        "timestamp": "t",
    }
    type_of_letter = {letter: name for name, (letter, _) in TYPES.items()}
    columns = {}
    for field in frame.schema.fields:
        if field.name == time:
            continue
        letter = letters.get(field.dataType.simpleString())
        if letter is None:
            raise ConfigError(
                f"stream {name!r}: column {field.name!r} has type {field.dataType.simpleString()}, which a source cannot have: "
                "cast it, or select other columns"
            )
        columns[field.name.lower()] = type_of_letter[letter]
    if time not in frame.columns:
        raise ConfigError(
            f"stream {name!r} has no column {time!r} for its event time: its columns are {', '.join(frame.columns)}"
        )
    return columns


def declared(service: Service, name: str, columns: Mapping[str, str]) -> Source:
    """The source of a stream, which is declared when the service sees the stream for the first time."""
    source = service.sources.by_name.get(name)
    if source is None:
        (source,) = service.add_sources(OPERATOR, [{"name": name, "columns": columns}])
    elif dict(source.kind.columns) != columns:
        raise CheckpointMismatch(
            f"source {name!r} was declared with columns {dict(source.kind.columns)}, but its stream now has {columns}: "
            "restore the stream's columns, or give it another name"
        )
    return source
