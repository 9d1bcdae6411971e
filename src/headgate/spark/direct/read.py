"""`hg.read(spark)`: where a direct stream begins."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from headgate.errors import ConfigError
from headgate.sources.delta import Delta
from headgate.sources.files import Files
from headgate.sources.iceberg import Iceberg
from headgate.sources.kafka.source import Kafka
from headgate.sources.rate import Rate
from headgate.sources.rows import Rows
from headgate.sources.source import Demand, Ranges, Source
from headgate.spark.direct.spark_rows import SparkReader
from headgate.spark.direct.stream import Stream
from headgate.spark.session import is_connect, wanted_settings
from headgate.spark.types import arrow_schema
from headgate.spark.versions import check_spark
from headgate.spark.warm_up import warm_up

log = logging.getLogger("headgate.stream")
_told: set[str] = set()


class Reader:
    """The sources of a session. Each method returns a stream."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def files(
        self,
        path: str,
        schema: Any = None,
        format: str | None = None,  # noqa: A002
        **options: Any,
    ) -> Stream:
        """Files of a folder, each read once: Parquet, JSON lines or CSV (see `hg.sources.Files`).

        `schema` is Spark's "user long, amount double", a `StructType` or a `pyarrow.Schema`; Parquet
        files may do without. Files must appear whole, by a rename.
        """
        declared = None if schema is None else as_schema(self._spark, schema)
        return self.source(Files(path, declared, format=format, **options))

    def kafka(self, servers: Any, topics: Any = None, schema: Any = None, **options: Any) -> Stream:
        """Records of Kafka topics (see `hg.sources.Kafka`): JSON objects with the columns of `schema`, which is written as for
        `files`; text, bytes, Avro or Protobuf with `value="text"`, `"raw"`, `"avro"` or `"protobuf"`. It needs
        `pip install 'headgate[kafka]'`, and no jar.
        """
        declared = kafka_schema(self._spark, schema, options.get("value"))
        return self.source(Kafka(servers, topics, declared, **options))

    def delta(self, path: str, **options: Any) -> Stream:
        """The rows of a Delta table, and then those that each commit adds (see `hg.sources.Delta`). It needs
        `pip install 'headgate[delta]'`, and no jar.
        """
        return self.source(Delta(path, **options))

    def iceberg(self, table: str, **options: Any) -> Stream:
        """The rows of an Iceberg table, and then those that each snapshot adds (see `hg.sources.Iceberg`). It needs
        `pip install 'headgate[iceberg]'`, and no jar.
        """
        return self.source(Iceberg(table, **options))

    def rate(self, rows_per_second: int = 1, **options: Any) -> Stream:
        """Rows with a `timestamp` and a `value` that counts up, at a steady rate."""
        return self.source(Rate(rows_per_second, **options))

    def rows(self, rows: Any = (), schema: Any = None) -> Stream:
        """Rows from Python, for tests and notebooks: dicts, tuples or a `pyarrow.Table`. For rows that
        come later, make `hg.sources.Rows(...)`, pass it to `source`, and call its `add`.
        """
        return self.source(Rows(rows, None if schema is None else as_schema(self._spark, schema)))

    def source(self, source: Source) -> Stream:
        """Any source (`hg.sources.Source`)."""
        if not isinstance(source, Source):
            raise ConfigError(f"{source!r} is not a source; derive one from hg.sources.Source")
        return Stream(self._spark, source)

    def reader(
        self,
        plan: Callable[[Any, Demand], Ranges],
        load: Callable[[SparkSession, Any], DataFrame],
        *,
        schema: Any,
        name: str,
    ) -> Stream:
        """Any reader of Spark, by two functions: `plan(offset, demand)` returns `hg.sources.Ranges`, and
        `load(spark, what)` makes a DataFrame of one range, the same each time. These rows take
        Spark's row path. `name` tells the source apart when the query is restarted.
        """
        if not callable(plan) or not callable(load):
            raise ConfigError(
                f"reader({plan!r}, {load!r}) needs two functions: plan(offset, demand) and load(spark, what)"
            )
        if not isinstance(name, str) or not name:
            raise ConfigError(
                f"reader(name={name!r}) needs a text that names the source, such as name='orders'"
            )
        return self.source(SparkReader(self._spark, plan, load, as_schema(self._spark, schema), name))


def read(spark: SparkSession) -> Reader:
    """Begin a direct stream: a query that headgate drives itself, with Spark doing all work on the data.

    It works with a classic session and with a Connect session. `hg.configure` makes it faster.
    """
    if not hasattr(spark, "createDataFrame") or isinstance(spark, type):
        raise ConfigError(f"hg.read({spark!r}) needs a SparkSession: hg.read(spark)")
    check_spark(spark)
    if is_connect(spark):
        _tell(
            "connect",
            "this session uses Spark Connect: direct streams run, with more overhead for each batch",
        )
    else:
        missing = [name for name, value in wanted_settings().items() if _setting(spark, name) != value]
        if missing:
            _tell(
                spark.sparkContext.applicationId,
                f"this session lacks settings that make headgate faster ({', '.join(missing)}); make it with "
                "hg.configure(SparkSession.builder).getOrCreate()",
            )
        warm_up(spark, direct=True)
    return Reader(spark)


def _setting(spark: SparkSession, name: str) -> str | None:
    value: str | None = spark.sparkContext.getConf().get(name)
    return value


def _tell(about: str, message: str) -> None:
    """Log a warning once for each application."""
    if about not in _told:
        _told.add(about)
        log.warning(message)


_SIMPLE = re.compile(r"\s*(\w+)\s*:?\s+(\w+)\s*")
_TYPES: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    **dict.fromkeys(("byte", "tinyint"), T.ByteType()),
    **dict.fromkeys(("short", "smallint"), T.ShortType()),
    **dict.fromkeys(("int", "integer"), T.IntegerType()),
    **dict.fromkeys(("long", "bigint"), T.LongType()),
    **dict.fromkeys(("float", "real"), T.FloatType()),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
}


def kafka_schema(spark: SparkSession, schema: Any, value: Any) -> Any:
    """The schema of a Kafka source. Avro and Protobuf have schemas of their own, which are passed on as they are."""
    return schema if schema is None or value in ("avro", "protobuf") else as_schema(spark, schema)


def as_schema(spark: SparkSession, schema: Any) -> pa.Schema:
    """Columns as operators see them, from Spark's text, a `StructType` or a `pyarrow.Schema`."""
    if isinstance(schema, pa.Schema):
        return schema
    if isinstance(schema, str):
        schema = _parsed(spark, schema)
    if not isinstance(schema, T.StructType):
        raise ConfigError(
            f'schema={schema!r} is not a schema; write "user long, amount double", or give a StructType'
        )
    declared = arrow_schema(schema, key=())
    if not declared.names:
        raise ConfigError("schema has no column")
    return declared


def _parsed(spark: SparkSession, text: str) -> T.StructType:
    """Columns from Spark's text. Spark reads it, unless it is so simple that there is no doubt: its
    first analysis in a session takes a second.
    """
    fields = [_SIMPLE.fullmatch(field) for field in text.split(",")]
    known = [(match[1], _TYPES.get(match[2].lower())) for match in fields if match]
    zoned = "timestamp" not in text.lower() or spark.conf.get("spark.sql.timestampType") == "TIMESTAMP_LTZ"
    if len(known) == len(fields) and all(kind for _, kind in known) and zoned:
        return T.StructType([T.StructField(name, kind) for name, kind in known if kind])
    try:
        return spark.createDataFrame([], text).schema
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(
            f'schema={text!r} cannot be read: {first}; write "user long, amount double"'
        ) from error
