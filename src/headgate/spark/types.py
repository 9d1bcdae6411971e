"""Spark's column types as Arrow's: plain ones, which operators read, and all others, which they carry.

A type that has no lane (arrays, structs, maps, variants, user-defined types, collated strings and so on) becomes a
`Payload`: the Arrow type in which Spark sends it, and Spark's own description of it, which comes back when the column is
emitted. Nested fields are taken as nullable, as they are in files.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_type

from headgate.errors import MissingColumn, UnsupportedType
from headgate.state.lanes import PLAIN
from headgate.state.payload import Payload, plain_type

SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
"""Where Spark looks for a Parquet file's schema, before it makes one of the file's own."""

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
    simple = pa.duration("us") if kind == _INTERVAL else _SIMPLE.get(type(kind))
    if simple is None:
        raise UnsupportedType(
            f"{what} has type {kind.simpleString()}, which cannot be a key; take a part of it, or cast it to {PLAIN}"
        )
    return simple


def arrow_schema(schema: T.StructType, *, key: tuple[str, ...]) -> pa.Schema:
    """All columns of a stream, as operators see them. A missing key, or one whose type cannot be a key, is an error; a column
    that cannot be carried is one when an operator asks for it.
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
    """The type under which a column travels."""
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
    beyond = _beyond(kind)
    if beyond is not None:
        within = "" if beyond == kind else f", and in it {beyond.simpleString()}"
        return Payload(
            pa.bool_(),
            name,
            refusal=f"column {field.name!r} has type {name}{within}, which cannot be carried through a stage; "
            f"{_remedy(beyond)}, or leave the column out",
        )
    return Payload(_nullable(to_arrow_type(kind, timezone="UTC")), name, _described(_loose(kind)))


def _beyond(kind: T.DataType) -> T.DataType | None:
    """A type, within this one or itself, that cannot be carried: a calendar interval has no form in a Parquet file, a year-month
    interval within another type none that pyarrow reads, and a geometry is marked in the file in a way that we do not write.
    """
    if isinstance(kind, T.UserDefinedType):
        return _beyond(kind.sqlType())
    for inner in _within(kind):
        found = _beyond(inner)
        if found is not None:
            return found
    known = (
        T.ArrayType,
        T.MapType,
        T.StructType,
        T.NullType,
        T.VariantType,
        T.TimeType,
        T.DayTimeIntervalType,
    )
    if isinstance(kind, (*known, T.StringType, T.CharType, T.VarcharType, T.DecimalType, *_SIMPLE)):
        return None
    return kind


def _remedy(kind: T.DataType) -> str:
    if isinstance(kind, T.SpatialType):
        return "send st_asbinary(column), and make it anew after the stage"
    return "cast it to a string, or to numbers"


def _within(kind: T.DataType) -> list[T.DataType]:
    if isinstance(kind, T.ArrayType):
        return [kind.elementType]
    if isinstance(kind, T.MapType):
        return [kind.keyType, kind.valueType]
    return [field.dataType for field in kind.fields] if isinstance(kind, T.StructType) else []


def _loose(kind: T.DataType) -> T.DataType:
    """The same type, with whatever is nested in it nullable."""
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
    """A type as Spark writes it down, as that of a column with a name of ours."""
    return json.dumps(T.StructField(_NAME, kind).jsonValue())


def _column(name: str, kind: pa.DataType) -> dict[str, Any]:
    """A column as Spark writes it down. What describes its type is not looked into: a task may not know the class of a user's type."""
    if not isinstance(kind, Payload):
        return dict(T.StructField(name, from_arrow_type(kind)).jsonValue())
    found = {**json.loads(kind.origin), "name": name}
    collations = found["metadata"].get(_COLLATIONS)
    if collations:  # by path, which begins with the column's name
        renamed = {name + path.removeprefix(_NAME): value for path, value in collations.items()}
        found["metadata"] = {**found["metadata"], _COLLATIONS: renamed}
    return found


def emitted_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as a sink gets them: in their Arrow types, and with Spark's own schema where these do not say it all."""
    fields = [pa.field(f.name, plain_type(f.type)) for f in schema]
    if not any(_says_little(field.type) for field in schema):
        return pa.schema(fields)
    columns = [_column(f.name, f.type) for f in schema]
    return pa.schema(fields, metadata={SPARK_SCHEMA: json.dumps({"type": "struct", "fields": columns})})


def _says_little(kind: pa.DataType) -> bool:
    t = pa.types
    return isinstance(kind, Payload) or t.is_duration(kind) or t.is_null(kind) or t.is_nested(kind)


def spark_schema(schema: pa.Schema) -> T.StructType:
    """The Spark types of what `emitted_schema` describes."""
    described = (schema.metadata or {}).get(SPARK_SCHEMA)
    if described is None:
        return from_arrow_schema(schema)
    return T.StructType.fromJson(json.loads(described))


def sendable(df: DataFrame) -> DataFrame:
    """The same rows, with months as integers: Arrow has an interval of months, but pyarrow has no array of them."""
    months = [f.name for f in df.schema.fields if isinstance(f.dataType, T.YearMonthIntervalType)]
    return df.withColumns({name: _months(name) for name in months}) if months else df


def _months(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`").cast("interval month").cast("int")


def can_hash(kind: T.DataType) -> bool:
    """Whether Spark has a hash of such values."""
    if isinstance(kind, T.UserDefinedType):
        return can_hash(kind.sqlType())
    if isinstance(kind, (T.MapType, T.VariantType, T.SpatialType, T.CalendarIntervalType)):
        return False
    return all(can_hash(inner) for inner in _within(kind))
