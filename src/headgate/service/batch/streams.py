"""All sources as one stream of rows in slots: pushed events, and Spark streaming DataFrames by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headgate.errors import ConfigError
from headgate.service.service import Service
from headgate.service.sources import ALL_SLOTS, Source
from headgate.sql.source_schema import TIME
from headgate.sql.source_schema import TYPES as KINDS

_SPARK = {
    "l": T.LongType(),
    "d": T.DoubleType(),
    "v": T.StringType(),
    "b": T.BooleanType(),
    "t": T.TimestampNTZType(),
}
ROW = T.StructType(
    [
        T.StructField("source", T.IntegerType()),
        T.StructField(TIME, T.TimestampNTZType()),
        *(T.StructField(slot, _SPARK[slot[0]]) for slot in ALL_SLOTS),
    ]
)


def pushed(spark: SparkSession, service: Service, files_per_batch: int) -> DataFrame:
    """The stream of pushed events. Files that Spark has committed are removed by it."""
    return (
        spark.readStream.schema(ROW)
        .option("pathGlobFilter", "*.parquet")
        .option("maxFilesPerTrigger", files_per_batch)
        .option("cleanSource", "delete")
        .parquet(service.push.store.path())
    )


def in_slots(frame: DataFrame, source: Source, time: str = TIME) -> DataFrame:
    """A source's own stream as rows in slots."""
    columns = [F.lit(source.id).cast("int").alias("source"), F.col(time).cast("timestamp_ntz").alias(TIME)]
    by_slot = {slot: name for name, slot in source.kind.slots.items()}
    for slot in ALL_SLOTS:
        value = F.col(by_slot[slot]) if slot in by_slot else F.lit(None)
        columns.append(value.cast(_SPARK[slot[0]]).alias(slot))
    return frame.select(*columns)


def columns_of(frame: DataFrame, name: str, time: str) -> dict[str, str]:
    """The columns of a streaming DataFrame as a source declares them."""
    names = {kind.simpleString(): letter for letter, kind in _SPARK.items()} | {
        "int": "l",
        "smallint": "l",
        "float": "d",
        "timestamp": "t",
    }
    types = {letter: kind for kind, (letter, _) in KINDS.items()}
    found = {}
    for field in frame.schema.fields:
        if field.name == time:
            continue
        letter = names.get(field.dataType.simpleString())
        if letter is None:
            raise ConfigError(
                f"stream {name!r}: column {field.name!r} is {field.dataType.simpleString()}; select or cast it"
            )
        found[field.name.lower()] = types[letter]
    if time not in frame.columns:
        raise ConfigError(
            f"stream {name!r} has no column {time!r} for its event time: there is {', '.join(frame.columns)}"
        )
    return found


def configured(spark: SparkSession, name: str, wish: Mapping[str, Any]) -> DataFrame:
    """A streaming DataFrame from a configuration: format, schema, options, select."""
    reader = spark.readStream.format(str(wish.get("format", "parquet")))
    if "schema" in wish:
        reader = reader.schema(str(wish["schema"]))
    for option, value in dict(wish.get("options", {})).items():
        reader = reader.option(option, value)
    try:
        frame = reader.load()
    except Exception as error:
        raise ConfigError(f"stream {name!r} cannot be opened: {str(error).splitlines()[0]}") from error
    return frame.selectExpr(*wish["select"]) if "select" in wish else frame
