"""Spark's types as Arrow types: the same as Spark's own conversion, in whichever version, and back."""

import doctest
import inspect
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from headgate.errors import UnsupportedType
from headgate.spark import arrow_types
from headgate.spark.arrow_types import from_arrow_schema, from_arrow_type, to_arrow_schema, to_arrow_type

KINDS: list[T.DataType] = [
    T.BooleanType(), T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType(),
    T.StringType(), T.BinaryType(), T.DateType(), T.TimestampType(), T.TimestampNTZType(), T.DecimalType(12, 3),
    T.DayTimeIntervalType(), T.TimeType(), T.NullType(), T.VariantType(), T.ArrayType(T.LongType(), False),
    T.MapType(T.StringType(), T.ArrayType(T.TimestampType())),
    T.StructType([T.StructField("a", T.LongType(), False), T.StructField("b", T.ArrayType(T.StringType()))]),
]  # fmt: skip


def sparks_own(kind: T.DataType) -> pa.DataType:
    types = pytest.importorskip("pyspark.sql.pandas.types")
    zoned: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in inspect.signature(types.to_arrow_type).parameters else {}
    )
    return types.to_arrow_type(kind, **zoned)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.simpleString())
def test_a_type_goes_to_arrow_as_spark_sends_it_and_comes_back(kind: T.DataType) -> None:
    assert to_arrow_type(kind).equals(sparks_own(kind), check_metadata=True)
    assert from_arrow_type(to_arrow_type(kind)) == kind


def test_a_schema_keeps_its_metadata() -> None:
    schema = T.StructType(
        [T.StructField("a", T.LongType(), False, {"unit": "cm"}), T.StructField("b", T.StringType())]
    )
    assert from_arrow_schema(to_arrow_schema(schema)).jsonValue() == schema.jsonValue()


@pytest.mark.parametrize(
    ("arrow", "kind"),
    [
        (pa.large_string(), T.StringType()),
        (pa.large_binary(), T.BinaryType()),
        (pa.binary(3), T.BinaryType()),
        (pa.dictionary(pa.int8(), pa.string()), T.StringType()),
        (pa.timestamp("ns"), T.TimestampNTZType()),
        (pa.timestamp("ms", "Europe/Paris"), T.TimestampType()),
        (pa.list_(pa.int64(), 2), T.ArrayType(T.LongType())),
    ],
    ids=str,
)
def test_other_forms_of_arrow(arrow: pa.DataType, kind: T.DataType) -> None:
    assert from_arrow_type(arrow) == kind


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(UnsupportedType, match="interval has no Arrow form"):
        to_arrow_type(T.CalendarIntervalType())
    with pytest.raises(UnsupportedType, match="has no type of Spark"):
        from_arrow_type(pa.uint16())


def test_its_examples_run() -> None:
    ran = doctest.testmod(arrow_types)
    assert (ran.failed, ran.attempted) == (0, 2)
