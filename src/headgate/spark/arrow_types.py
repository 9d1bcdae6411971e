"""Spark's types as Arrow types and back, in the way of Spark's own Arrow conversion.

PySpark's functions for this are internal: their arguments and defaults differ from version to version (Spark 4.1 reads a
timestamp without a zone as one with a zone). So headgate has its own, which give the same answers everywhere.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from headgate.errors import UnsupportedType

SIMPLE: dict[type[T.DataType], pa.DataType] = {
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
"""Types without parameters that operators can read."""
_ALSO: dict[type[T.DataType], pa.DataType] = {
    **SIMPLE,
    T.NullType: pa.null(),
    T.DayTimeIntervalType: pa.duration("us"),
    T.TimeType: pa.time64("ns"),
    T.StringType: pa.string(),
    T.CharType: pa.string(),
    T.VarcharType: pa.string(),
}
_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
_METADATA = b"SPARK::metadata::json"
"""Where Arrow's fields keep the metadata of Spark's fields."""


def to_arrow_type(kind: T.DataType) -> pa.DataType:
    """The Arrow type in which Spark sends values of a type.

    >>> to_arrow_type(T.ArrayType(T.LongType()))
    ListType(list<element: int64>)
    """
    simple = _ALSO.get(type(kind))
    if simple is not None:
        return simple
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, T.StringType):  # derived in some versions
        return pa.string()
    if isinstance(kind, T.ArrayType):
        return pa.list_(pa.field("element", to_arrow_type(kind.elementType), nullable=kind.containsNull))
    if isinstance(kind, T.MapType):
        key = pa.field("key", to_arrow_type(kind.keyType), nullable=False)
        return pa.map_(key, pa.field("value", to_arrow_type(kind.valueType), nullable=kind.valueContainsNull))
    if isinstance(kind, T.StructType):
        return pa.struct(list(map(_to_arrow_field, kind.fields)))
    if isinstance(kind, T.UserDefinedType):
        return to_arrow_type(kind.sqlType())
    if isinstance(kind, T.VariantType):
        return _VARIANT
    raise UnsupportedType(
        f"the type {kind.simpleString()} has no Arrow form that headgate knows; cast the column, or leave it out"
    )


def to_arrow_schema(schema: T.StructType) -> pa.Schema:
    """The columns in the Arrow types in which Spark sends them."""
    return pa.schema(list(map(_to_arrow_field, schema.fields)))


def _to_arrow_field(field: T.StructField) -> pa.Field:
    metadata = {_METADATA: json.dumps(field.metadata).encode()} if field.metadata else None
    return pa.field(field.name, to_arrow_type(field.dataType), nullable=field.nullable, metadata=metadata)


def from_arrow_type(kind: pa.DataType) -> T.DataType:
    """Spark's type for an Arrow type; a timestamp without a zone has none in Spark either.

    >>> from_arrow_type(pa.timestamp("us"))
    TimestampNTZType()
    """
    t = pa.types
    if t.is_timestamp(kind):
        return T.TimestampNTZType() if kind.tz is None else T.TimestampType()
    for spark_type, arrow in SIMPLE.items():
        if kind == arrow:
            return spark_type()
    if t.is_string(kind) or t.is_large_string(kind):
        return T.StringType()
    if t.is_large_binary(kind) or t.is_fixed_size_binary(kind):
        return T.BinaryType()
    if t.is_decimal(kind):
        return T.DecimalType(kind.precision, kind.scale)
    if t.is_time64(kind):
        return T.TimeType()
    if t.is_duration(kind):
        return T.DayTimeIntervalType()
    if t.is_null(kind):
        return T.NullType()
    if t.is_dictionary(kind):
        return from_arrow_type(kind.value_type)
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return T.ArrayType(from_arrow_type(kind.value_type), kind.value_field.nullable)
    if t.is_map(kind):
        return T.MapType(
            from_arrow_type(kind.key_type), from_arrow_type(kind.item_type), kind.item_field.nullable
        )
    if t.is_struct(kind):
        if any(f.name == "metadata" and b"variant" in (f.metadata or {}) for f in kind):
            return T.VariantType()
        return T.StructType(list(map(_from_arrow_field, kind)))
    raise UnsupportedType(f"the Arrow type {kind} has no type of Spark; cast the column, or leave it out")


def from_arrow_schema(schema: pa.Schema) -> T.StructType:
    """The columns in Spark's types."""
    return T.StructType(list(map(_from_arrow_field, schema)))


def _from_arrow_field(field: pa.Field) -> T.StructField:
    described: Any = (field.metadata or {}).get(_METADATA)
    metadata = None if described is None else json.loads(described)
    return T.StructField(field.name, from_arrow_type(field.type), field.nullable, metadata)
