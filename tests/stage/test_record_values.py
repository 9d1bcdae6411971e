"""Rows as JSON and as bytes: what Python's own reader gets back."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.sources.kafka.values import as_json
from headgate.stage.record_values import column_values, json_values

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-(2**63), 2**63 - 1),
            "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "word": st.none() | st.text(),
            "yes": st.none() | st.booleans(),
            "at": st.none()
            | st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(lambda t: t.replace(tzinfo=UTC)),
            "day": st.none() | st.dates(date(1900, 1, 1), date(2200, 1, 1)),
            "tags": st.none() | st.lists(st.text()),
        }
    ),
    max_size=20,
)
SCHEMA = pa.schema(
    [
        ("n", pa.int64()), ("x", pa.float64()), ("word", pa.string()), ("yes", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("tags", pa.list_(pa.string())),
    ]
)  # fmt: skip


@given(ROWS)
def test_the_source_reads_what_the_sink_writes(rows) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    values = json_values(table, table.column_names)
    parsed = as_json(values, {field.name: field.type for field in SCHEMA})
    assert not parsed.bad
    assert parsed.table.to_pylist() == table.to_pylist()


def test_what_json_has_no_form_for() -> None:
    table = pa.table(
        {
            "x": [float("nan"), float("inf"), -float("inf")],
            "bytes": [b"\x00\xff", b"", None],
            "price": pa.array(
                [Decimal("1.10"), Decimal("12345678901234567890.12"), None], pa.decimal128(38, 2)
            ),
            "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "in": [{"at": datetime(2026, 1, 31, tzinfo=UTC), "day": date(2026, 1, 31)}, None, None],
        }
    )
    first, second, third = json_values(table, table.column_names)
    encoded = base64.b64encode(b"\x00\xff").decode()
    assert json.loads(first) == {
        "x": "NaN", "bytes": encoded, "price": 1.1, "map": {"a": 1}, "in": {"at": "2026-01-31T00:00:00Z", "day": "2026-01-31"},
    }  # fmt: skip
    assert b'"price":12345678901234567890.12' in second
    assert json.loads(third) == {"x": "-Infinity", "bytes": None, "price": None, "map": None, "in": None}


def test_columns_may_be_chosen_and_there_may_be_none() -> None:
    table = pa.table({"a": [1, 2], 'b"': ["x", "y"]})
    assert json_values(table, ['b"']) == [b'{"b\\"":"x"}', b'{"b\\"":"y"}']
    assert json_values(table.slice(0, 0), ["a"]) == []


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array([b"\x00", None]), [b"\x00", None]),
        (pa.array(['say "hi"', None]), [b'say "hi"', None]),
        (pa.array([7, None]), [b"7", None]),
        (pa.array([date(2026, 1, 31), None]), [b"2026-01-31", None]),
        (pa.array([[1], None]), [b"[1]", None]),
    ],
    ids=["bytes", "text", "a number", "a day", "a list"],
)
def test_one_column_as_bytes(column, wanted) -> None:
    assert column_values(pa.table({"c": column}), "c") == wanted
