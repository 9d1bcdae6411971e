"""Spark's types as Arrow's, without a job."""

import pyarrow as pa
from pyspark.sql import types as T

from headgate.spark.types import arrow_schema, can_hash, emitted_schema, spark_schema
from headgate.spark.versions import reads_times_of_day
from headgate.state.conform import conform, conform_table
from headgate.state.payload import Payload


def test_values_are_the_same_in_another_type_of_the_same_layout() -> None:
    """Slices, nulls, names and zones; and lists of nulls, which Arrow's own cast cannot do."""
    zoned = pa.timestamp("us", tz="Asia/Tokyo")
    inner = pa.struct([pa.field("t", zoned, nullable=False), ("n", pa.list_(pa.field("x", pa.null())))])
    given = pa.map_(pa.string(), pa.list_(pa.field("item", inner)))
    values = [
        [("a", [{"t": 1, "n": [None, None]}, None])],
        None,
        [],
        [("b", None), ("c", [{"t": 2, "n": None}])],
    ]
    array = pa.array(values, given)
    loose = pa.struct([("t", pa.timestamp("us", tz="UTC")), ("n", pa.list_(pa.field("element", pa.null())))])
    wanted = pa.map_(pa.string(), pa.list_(pa.field("element", loose)))
    for start in range(5):
        some = array.slice(start)
        schema = pa.schema([("c", Payload(wanted, "map"))])
        found = conform(pa.RecordBatch.from_arrays([some], names=["c"]), schema).column(0).storage
        found.validate(full=True)
        assert found.type == wanted
        again = conform_table(pa.table({"c": found}), pa.schema([("c", given)])).column("c").combine_chunks()
        assert again.equals(some)


def test_nested_fields_are_nullable_whatever_the_plan_says() -> None:
    strict = T.StructType([T.StructField("a", T.ArrayType(T.IntegerType(), containsNull=False))])
    loose = T.StructType([T.StructField("a", T.ArrayType(T.IntegerType()))])
    assert arrow_schema(strict, key=()) == arrow_schema(loose, key=())


def test_spark_s_own_types_come_back_under_any_name() -> None:
    kinds = [
        T.ArrayType(T.StringType("UTF8_LCASE")), T.StringType("UNICODE"), T.VariantType(),
        T.DayTimeIntervalType(1, 1), T.DayTimeIntervalType(), T.YearMonthIntervalType(0, 0), T.NullType(),
        T.MapType(T.StringType(), T.StructType([T.StructField("x", T.DecimalType(20, 3))])),
        *([T.TimeType(3)] if reads_times_of_day() else []),
    ]  # fmt: skip
    source = arrow_schema(T.StructType([T.StructField(f"c{i}", k) for i, k in enumerate(kinds)]), key=())
    renamed = pa.schema([pa.field(f"left_{f.name}", f.type) for f in source])
    shown = emitted_schema(renamed)
    assert not any(isinstance(f.type, Payload) for f in shown)
    assert [f.dataType for f in spark_schema(shown)] == kinds
    assert spark_schema(shown).names == renamed.names


def test_plain_columns_need_no_description() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.timestamp("us", tz="UTC"))])
    assert emitted_schema(schema).metadata is None
    assert can_hash(T.ArrayType(T.LongType()))
    assert not can_hash(T.ArrayType(T.VariantType()))
