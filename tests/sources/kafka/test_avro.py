"""Avro values: what fastavro writes comes back, by fastavro's own rules where schemas differ; and what
does not parse is told apart.
"""

import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sources.kafka.avro_world import LOGICAL, PLAIN, Names, encoded, expected, records, rows

from headgate.errors import ConfigError, UnsupportedType
from headgate.sources.kafka import avro
from headgate.sources.kafka.avro import Avro
from headgate.sources.kafka.avro_program import program
from headgate.sources.kafka.avro_types import Schema, Tree
from headgate.sources.kafka.codec import halved


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    listed = [{"name": name, "type": kind, **dict(*rest)} for name, kind, *rest in fields]
    return {"type": "record", "name": "R", "fields": listed, **more}


def codec(schema: Any) -> Avro:
    return Avro.of(json.dumps(schema), None, None)


@given(st.data())
def test_what_fastavro_writes_comes_back(data) -> None:
    schema, values = data.draw(records(Names()))
    drawn = data.draw(st.lists(st.none() | values, max_size=6))
    written = [None if one is None else encoded(schema, one) for one in drawn]
    found, bad = rows(codec(schema), written)
    nothing = {field["name"]: None for field in schema["fields"]}
    assert found == [nothing if one is None else expected(one, schema) for one in written]
    assert bad == {}


@given(st.data())
def test_a_value_that_is_cut_or_has_more_bytes_is_told_apart(data) -> None:
    schema, values = data.draw(records(Names()))
    good = [encoded(schema, one) for one in data.draw(st.lists(values, min_size=1, max_size=5))]
    at = data.draw(st.integers(0, len(good) - 1))
    cut = data.draw(st.integers(0, len(good[at]) - 1)) if good[at] else 0
    wrong = data.draw(st.sampled_from([good[at][:cut], good[at] + b"\0"]))
    mixed = [*good[:at], wrong, *good[at:]]
    found, bad = rows(codec(schema), mixed)
    if wrong == good[at]:
        return
    assert list(bad) == [at]
    assert found == [expected(one, schema) for one in good]


@given(st.data())
def test_random_bytes_are_rows_or_told_apart(data) -> None:
    schema, _ = data.draw(records(Names()))
    drawn = data.draw(st.lists(st.binary(max_size=30), max_size=8))
    found, bad = rows(codec(schema), drawn)
    assert len(found) + len(bad) == len(drawn)
    for at, one in zip((at for at in range(len(drawn)) if at not in bad), found, strict=True):
        assert set(one) == {field["name"] for field in schema["fields"]}, at


PROMOTED = {
    "int": ["long", "double"], "long": ["double"], "float": ["double"], "string": ["bytes"], "bytes": ["string"],
}  # fmt: skip
"""Without float: fastavro does not round to it."""


@st.composite
def readers(draw: Any, kind: Any, names: Names) -> Any:
    """A type of a reader for a writer's: fields are dropped, added, moved and renamed; numbers widened; and
    what is null may not be, or the other way round.
    """
    if isinstance(kind, list):
        (other,) = [one for one in kind if one != "null"]
        inner = draw(readers(other, names))
        return ["null", inner] if draw(st.integers(0, 3)) and not isinstance(inner, list) else inner
    if isinstance(kind, str):
        found = draw(st.sampled_from([kind, kind, kind, *PROMOTED.get(kind, []), "boolean"]))
        return ["null", found] if draw(st.booleans()) else found
    if kind["type"] == "record":
        return draw(reader_records(kind, names))
    if kind["type"] == "array":
        return {**kind, "items": draw(readers(kind["items"], names))}
    if kind["type"] == "map":
        return {**kind, "values": draw(readers(kind["values"], names))}
    if kind["type"] == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDE"), min_size=1, unique=True))
        other = {"default": symbols[0]} if draw(st.booleans()) else {}
        return {**kind, "symbols": symbols, **other}
    return kind


@st.composite
def reader_records(draw: Any, kind: Any, names: Names) -> Any:
    fields = []
    for field in kind["fields"]:
        if draw(st.integers(0, 4)):
            one = {**field, "type": draw(readers(field["type"], names))}
            renamed = {"name": f"new_{field['name']}", "aliases": [field["name"]]}
            fields.append({**one, **renamed} if draw(st.booleans()) else one)
    added: list[Any] = [
        {"name": "a1", "type": "long", "default": 7},
        {"name": "a2", "type": ["null", {"type": "array", "items": "string"}], "default": None},
        {"name": "a3", "type": {"type": "array", "items": "string"}, "default": ["ö", ""]},
        {"name": "a4", "type": {"type": "map", "values": "double"}, "default": {"x": 1.5}},
        {"name": "a5", "type": {"type": "record", "name": names(), "fields": [{"name": "y", "type": "float"}]}, "default": {"y": 0.5}},
        {"name": "a6", "type": {"type": "enum", "name": names(), "symbols": ["P", "Q"]}, "default": "Q"},
        {"name": "a7", "type": "boolean", "default": True},
        {"name": "a8", "type": "string"},
    ]  # fmt: skip
    fields += draw(
        st.lists(
            st.sampled_from(added[:7] if draw(st.integers(0, 5)) else added),
            max_size=2,
            unique_by=lambda f: f["name"],
        )
    )
    return {**kind, "fields": draw(st.permutations(fields or added[:1]))}


@given(st.data())
def test_schemas_that_differ_are_resolved_as_fastavro_does(data) -> None:
    names = Names()
    writer, values = data.draw(records(names))
    reader = data.draw(reader_records(writer, names))
    made = program(Schema.of(json.dumps(writer)), Tree(Schema.of(json.dumps(reader))))
    reading = codec(reader)
    written = [encoded(writer, one) for one in data.draw(st.lists(values, min_size=1, max_size=4))]
    table, bad = decoded(reading, made, written)
    found = table.to_pylist(maps_as_pydicts="strict")
    wanted, failed = [], []
    for at, one in enumerate(written):
        try:
            wanted.append(expected(one, writer, reader))
        except (fastavro.read.SchemaResolutionError, UnicodeDecodeError):
            failed.append(at)
    assert (found, sorted(bad)) == (wanted, failed)


def decoded(reading: Avro, made: Any, some: Any) -> Any:
    found = halved(some, lambda few: avro._decoded(few, 0, made, reading._tree()), reading.schema())
    return found.table, dict(found.bad)


def resolved(writer: Any, reader: Any, *values: Any) -> tuple[list[Any], dict[int, str]]:
    made = program(Schema.of(json.dumps(writer)), Tree(Schema.of(json.dumps(reader))))
    table, bad = decoded(codec(reader), made, [encoded(writer, one) for one in values])
    return table.to_pylist(), bad


def test_every_type_has_a_column() -> None:
    kinds = [kind for kind, _ in (*PLAIN, *LOGICAL)]
    schema = codec(record(*((f"f{at}", kind) for at, kind in enumerate(kinds)))).schema()
    moment, local = pa.timestamp("us", "UTC"), pa.timestamp("us")
    assert schema.types == [
        pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.binary(), pa.string(), pa.date32(), pa.time64("us"),
        pa.time64("us"), moment, moment, local, local, pa.string(), pa.decimal128(28, 4),
    ]  # fmt: skip


def test_a_uuid_of_sixteen_bytes_is_text() -> None:
    kind = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    text = "01234567-89ab-cdef-0123-456789abcdef"
    found, _ = rows(codec(record(("id", kind))), [bytes.fromhex(text.replace("-", ""))])
    assert found == [{"id": text}]


def test_a_default_of_bytes() -> None:
    reader = record(("b", "bytes", {"default": "\u00ff\u0001"}), ("n", "int"))
    assert resolved(record(("n", "int")), reader, {"n": 1}) == ([{"b": b"\xff\x01", "n": 1}], {})


def test_whole_numbers_as_floats_are_rounded() -> None:
    writer, reader = record(("i", "int"), ("l", "long")), record(("i", "float"), ("l", "float"))
    found = resolved(writer, reader, {"i": 2**24 + 1, "l": 2**60 + 1})
    assert found == ([{"i": float(2**24), "l": float(2**60)}], {})


def test_a_field_within_itself_is_skipped() -> None:
    writer = record(
        ("next", ["null", "R"]),
        ("tags", {"type": "map", "values": {"type": "array", "items": "R"}}),
        ("n", "int"),
    )
    inner: dict[str, Any] = {"next": None, "tags": {}, "n": 2}
    value = {"next": inner, "tags": {"a": [inner, inner]}, "n": 1}
    assert resolved(writer, record(("n", "int")), value) == ([{"n": 1}], {})
    deep = inner
    for _ in range(100):
        deep = {"next": deep, "tags": {}, "n": 1}
    assert resolved(writer, record(("n", "int")), deep) == ([], {0: "is nested deeper than 64 levels"})


def test_units_that_differ_are_told_and_not_mixed_up() -> None:
    millis, micros = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
    found, bad = resolved(record(("at", millis)), record(("at", micros)), {"at": 1000})
    assert found == []
    assert bad == {0: "has field at as timestamp-millis, which the reader's schema has as timestamp-micros"}


@pytest.mark.parametrize(
    ("writer", "reader", "value", "said"),
    [
        ("string", "long", "x", "has field x as string, which the reader's schema has as long"),
        (["null", "int"], "int", None, "has null in field x, which is never null"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, {"type": "enum", "name": "E", "symbols": ["B"]}, "A", "has A in field x"),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, b"ab", "as fixed of size 2"),
        ("bytes", "string", b"\xff", "has text in field x that is not UTF-8"),
        ("long", {"type": "long", "logicalType": "time-micros"}, -1, "is not within a day"),
        ("long", {"type": "long", "logicalType": "timestamp-millis"}, 2**62, "does not fit into microseconds"),
        ("bytes", {"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x64", "more digits than decimal128"),
        ("bytes", {"type": "bytes", "logicalType": "decimal", "precision": 38}, b"\x01" * 17, "more digits than decimal128"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_told_beside_others_that_do(writer, reader, value, said) -> None:
    kind = [reader, "null"] if not isinstance(writer, list) else reader
    wide = writer if isinstance(writer, list) else [writer, "null"]
    good: Any = 5 if isinstance(writer, list) else None
    found, bad = resolved(record(("x", wide)), record(("x", kind)), {"x": good}, {"x": value}, {"x": good})
    assert found == [{"x": good}] * 2
    assert list(bad) == [1]
    assert said in bad[1]


def test_a_list_of_nulls_has_an_end() -> None:
    writer = record(("x", {"type": "array", "items": "null"}))
    assert resolved(writer, record(("n", "int", {"default": 1})), {"x": [None] * 5}) == ([{"n": 1}], {})
    reading = codec(record(("x", {"type": "array", "items": "long"})))
    absurd = bytes([0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F])
    assert rows(reading, [absurd, b"\0"])[1] == {0: "has a list with more items than it has bytes for"}


def test_blocks_with_their_size_are_read() -> None:
    reading = codec(record(("x", {"type": "array", "items": "long"})))
    assert rows(reading, [bytes([3, 4, 2, 4, 2, 6, 0])]) == ([{"x": [1, 2, 3]}], {})


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (["int", "string"], r'field x is the union \["int", "string"\]'),
        (["null"], "field x is the union"),
        ("null", "field x is null"),
        (["null", "R"], "field x is a R within a R"),
        ({"type": "array", "items": {"type": "record", "name": "S", "fields": []}}, r"field x\[\] is a record with no field"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "field x is timestamp-nanos"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "field x is a decimal of 39 digits"),
    ],
)  # fmt: skip
def test_a_type_that_cannot_be_a_column_names_the_field(kind, said) -> None:
    with pytest.raises(UnsupportedType, match=said):
        codec(record(("x", kind)))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('{"type": "record"', "this is not an Avro schema: it is not JSON"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "lng"}]}',
            "lacks or does not define lng",
        ),
        ('"string"', "not a record with fields"),
        ("nowhere/schema.avsc", "neither JSON nor a file"),
        (7, "needs registry="),
        (None, "needs schema="),
    ],
)
def test_a_schema_that_cannot_be_is_refused(schema, said) -> None:
    with pytest.raises(ConfigError, match=said):
        Avro.of(schema, None, None)


def test_a_schema_from_a_file(tmp_path) -> None:
    (tmp_path / "r.avsc").write_text(json.dumps(record(("x", "int"))))
    assert Avro.of(str(tmp_path / "r.avsc"), None, None).schema() == pa.schema([("x", pa.int32())])
