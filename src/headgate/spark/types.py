"""Spark's column types as Arrow's, for the types that headgate keeps in state."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as T

from headgate.errors import MissingColumn, UnsupportedType
from headgate.state.lanes import lane_of

_SIMPLE: dict[type[T.DataType], pa.DataType] = {
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.BinaryType: pa.binary(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
}


def arrow_type(kind: T.DataType, what: str) -> pa.DataType:
    """The Arrow type of a Spark type, or an error that says what to cast to."""
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, (T.StringType, T.CharType, T.VarcharType)):
        collation = getattr(kind, "collation", "UTF8_BINARY")
        if collation != "UTF8_BINARY":
            raise UnsupportedType(
                f"{what} is collated as {collation}; cast it with `collate(column, 'UTF8_BINARY')`"
            )
        return pa.string()
    simple = _SIMPLE.get(type(kind))
    if simple is None:
        raise UnsupportedType(
            f"{what} has type {kind.simpleString()}, which cannot be kept in state; select its parts, "
            "or cast it to an integer, string, binary, date, timestamp, decimal, boolean or floating type"
        )
    return simple


def arrow_schema(schema: T.StructType, *, key: tuple[str, ...]) -> pa.Schema:
    """The columns that headgate can carry. A missing or unsupported key is an error; other unsupported
    columns are left out.
    """
    for name in key:
        if name not in schema.names:
            raise MissingColumn(
                f"key column {name!r} is not in the stream, which has {', '.join(map(repr, schema.names))}; "
                "name one of these as the stage's key"
            )
        kind = arrow_type(schema[name].dataType, f"key column {name!r}")
        lane_of(kind, f"key column {name!r}")
    fields = []
    for field in schema.fields:
        try:
            fields.append(pa.field(field.name, arrow_type(field.dataType, f"column {field.name!r}")))
        except UnsupportedType:
            if field.name in key:
                raise
    return pa.schema(fields)


def conform(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns under the given names and in exactly the given types (Spark labels timestamps with the
    session's zone).
    """
    arrays = [c if c.type == f.type else c.cast(f.type) for c, f in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
