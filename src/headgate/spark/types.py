"""Spark's column types as Arrow types: plain types, which operators can read, and all
others, which they only pass on.

A type that has no lane in the state (arrays, structs, maps, variants, user-defined types, collated
strings and so on) becomes a `Payload`: the Arrow type in which Spark sends it, and Spark's own
description of it, which is restored when the column is emitted. Nested fields are treated as
nullable, as they are in files.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headgate.errors import MissingColumn, UnsupportedType
from headgate.spark.arrow_types import SIMPLE, from_arrow_schema, from_arrow_type, to_arrow_type
from headgate.spark.versions import reads_times_of_day
from headgate.state.lanes import PLAIN
from headgate.state.payload import Payload, plain_type

SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
"""The metadata key under which Spark looks for the schema of a Parquet file,
before it derives one from the file.
"""

_INTERVAL = T.DayTimeIntervalType()
_NAME, _COLLATIONS = "value", "__COLLATIONS"


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
    simple = pa.duration("us") if kind == _INTERVAL else SIMPLE.get(type(kind))
    if simple is None:
        raise UnsupportedType(
            f"{what} has type {kind.simpleString()}, which cannot be a key; take a part of it, or cast it to {PLAIN}"
        )
    return simple


def arrow_schema(schema: T.StructType, *, key: tuple[str, ...]) -> pa.Schema:
    """All columns of a stream, as operators see them.

    A missing key column, or one whose type cannot be a key, raises an error at once. A column that
    cannot be passed on raises one only when an operator asks for it.
    """
    for name in key:
        if name not in schema.names:
            raise MissingColumn(
                f"key column {name!r} is not in the stream, which has {', '.join(map(repr, schema.names))}; "
                "name one of these as the stage's key"
            )
        arrow_type(schema[name].dataType, f"key column {name!r}")
    return pa.schema([pa.field(field.name, _carried(field)) for field in schema.fields])


def _carried(field: T.StructField) -> pa.DataType:
    """The type in which a column is passed on."""
    kind = field.dataType
    if isinstance(kind, T.NullType):
        return pa.null()
    try:
        return arrow_type(kind, f"column {field.name!r}")
    except UnsupportedType:
        pass
    name = kind.simpleString()
    if isinstance(kind, T.YearMonthIntervalType):  # months; see `sendable`
        return Payload(pa.int32(), name, _described(kind))
    unsupported = _unsupported(kind)
    if unsupported is not None:
        within = "" if unsupported == kind else f", and in it {unsupported.simpleString()}"
        return Payload(
            pa.bool_(),
            name,
            refusal=f"column {field.name!r} has type {name}{within}, which cannot be carried through a stage; "
            f"{_remedy(unsupported)}, or leave the column out",
        )
    return Payload(_nullable(to_arrow_type(kind)), name, _described(_loose(kind)))


def _unsupported(kind: T.DataType) -> T.DataType | None:
    """The type, this one or one nested in it, that cannot be passed on; None if there is none. A
    calendar interval has no form in a Parquet file, pyarrow cannot read a year-month interval
    within another type, a geometry needs a mark in the file that we do not write, and before 4.3 Spark reads
    a time of day wrongly.
    """
    if isinstance(kind, T.UserDefinedType):
        return _unsupported(kind.sqlType())
    for inner in _within(kind):
        nested = _unsupported(inner)
        if nested is not None:
            return nested
    known = (
        T.ArrayType,
        T.MapType,
        T.StructType,
        T.NullType,
        T.VariantType,
        T.DayTimeIntervalType,
        *([T.TimeType] if reads_times_of_day() else []),
    )
    if isinstance(kind, (*known, T.StringType, T.CharType, T.VarcharType, T.DecimalType, *SIMPLE)):
        return None
    return kind


def _remedy(kind: T.DataType) -> str:
    if isinstance(kind, T.SpatialType):
        return "send st_asbinary(column), and convert it back after the stage"
    return "cast it to a string, or to numbers"


def _within(kind: T.DataType) -> list[T.DataType]:
    if isinstance(kind, T.ArrayType):
        return [kind.elementType]
    if isinstance(kind, T.MapType):
        return [kind.keyType, kind.valueType]
    return [field.dataType for field in kind.fields] if isinstance(kind, T.StructType) else []


def _loose(kind: T.DataType) -> T.DataType:
    """The same type, with everything nested in it made nullable."""
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_loose(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(_loose(kind.keyType), _loose(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _loose(f.dataType)) for f in kind.fields])
    return kind


def _nullable(kind: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_list(kind):
        return pa.list_(pa.field("element", _nullable(kind.value_type)))
    if t.is_map(kind):
        key = pa.field("key", _nullable(kind.key_type), nullable=False)
        return pa.map_(key, pa.field("value", _nullable(kind.item_type)))
    if t.is_struct(kind):
        return pa.struct([pa.field(f.name, _nullable(f.type), metadata=f.metadata) for f in kind])
    return kind


def _described(kind: T.DataType) -> str:
    """A type in Spark's JSON form, as the type of a column named `_NAME`."""
    return json.dumps(T.StructField(_NAME, kind).jsonValue())


def _column(name: str, kind: pa.DataType) -> dict[str, Any]:
    """A column in Spark's JSON form. The description of its type is copied and not parsed: a task
    may not know the class of a user-defined type.
    """
    if not isinstance(kind, Payload):
        return dict(T.StructField(name, from_arrow_type(kind)).jsonValue())
    column = {**json.loads(kind.origin), "name": name}
    collations = column["metadata"].get(_COLLATIONS)
    if collations:  # by path, which begins with the column's name
        renamed = {name + path.removeprefix(_NAME): value for path, value in collations.items()}
        column["metadata"] = {**column["metadata"], _COLLATIONS: renamed}
    return column


def emitted_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as a sink gets them: in their Arrow types, with Spark's own schema where
    these do not express everything.
    """
    fields = [pa.field(f.name, plain_type(f.type)) for f in schema]
    if not any(_needs_spark_schema(field.type) for field in schema):
        return pa.schema(fields)
    columns = [_column(f.name, f.type) for f in schema]
    return pa.schema(fields, metadata={SPARK_SCHEMA: json.dumps({"type": "struct", "fields": columns})})


def _needs_spark_schema(kind: pa.DataType) -> bool:
    t = pa.types
    return isinstance(kind, Payload) or t.is_duration(kind) or t.is_null(kind) or t.is_nested(kind)


def spark_schema(schema: pa.Schema) -> T.StructType:
    """The Spark types of what `emitted_schema` describes."""
    described = (schema.metadata or {}).get(SPARK_SCHEMA)
    if described is None:
        return from_arrow_schema(schema)
    return T.StructType.fromJson(json.loads(described))


def sendable(df: DataFrame) -> DataFrame:
    """The same rows, with intervals of months as integers: Arrow has such a type,
    but pyarrow has no array of it.
    """
    months = [f.name for f in df.schema.fields if isinstance(f.dataType, T.YearMonthIntervalType)]
    return df.withColumns({name: _months(name) for name in months}) if months else df


def _months(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`").cast("interval month").cast("int")


def can_hash(kind: T.DataType) -> bool:
    """Whether Spark can hash values of this type."""
    if isinstance(kind, T.UserDefinedType):
        return can_hash(kind.sqlType())
    if isinstance(kind, (T.MapType, T.VariantType, T.SpatialType, T.CalendarIntervalType)):
        return False
    return all(can_hash(inner) for inner in _within(kind))
