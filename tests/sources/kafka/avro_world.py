"""Random Avro schemas and values, and fastavro as writer and as oracle."""

import io
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
from hypothesis import strategies as st

from headgate.sources.kafka.avro import Avro

INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
SINGLES = st.floats(width=32, allow_nan=False)
DOUBLES = st.floats(allow_nan=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
MILLIS = st.integers(-62_135_596_800_000, 253_402_300_799_999)


class Names:
    """Names that no other type of a schema has."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"T{self.count}"


def logical(base: Any, name: str, **more: Any) -> dict[str, Any]:
    return {**(base if isinstance(base, dict) else {"type": base}), "logicalType": name, **more}


PLAIN: list[tuple[Any, Any]] = [
    ("boolean", st.booleans()),
    ("int", INTS),
    ("long", LONGS),
    ("float", SINGLES),
    ("double", DOUBLES),
    ("bytes", st.binary(max_size=8)),
    ("string", TEXTS),
]
LOGICAL: list[tuple[Any, Any]] = [
    (logical("int", "date"), st.integers(-719_162, 2_932_896)),
    (logical("int", "time-millis"), st.integers(0, 86_399_999)),
    (logical("long", "time-micros"), st.integers(0, 86_399_999_999)),
    (logical("long", "timestamp-millis"), MILLIS),
    (logical("long", "timestamp-micros"), MICROS),
    (logical("long", "local-timestamp-millis"), MILLIS),
    (logical("long", "local-timestamp-micros"), MICROS),
    (logical("string", "uuid"), st.uuids()),
    (
        logical("bytes", "decimal", precision=28, scale=4),
        st.integers(-(10**28) + 1, 10**28 - 1).map(lambda n: Decimal(n).scaleb(-4)),
    ),
]


@st.composite
def types(draw: Any, names: Names, depth: int = 2) -> tuple[Any, Any]:
    """A type, and a strategy for its values."""
    shape = draw(st.sampled_from(["plain", "logical", "enum", "fixed", "union", "array", "map", "record"]))
    if shape == "logical":
        return draw(st.sampled_from(LOGICAL))
    if shape == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDE"), min_size=1, unique=True))
        return {"type": "enum", "name": names(), "symbols": symbols}, st.sampled_from(symbols)
    if shape == "fixed":
        size = draw(st.integers(1, 20))
        kind: Any = {"type": "fixed", "name": names(), "size": size}
        if draw(st.booleans()):
            digits = min(38, (size * 8 - 1) * 3 // 10)
            if digits:
                most = 10**digits - 1
                return logical(kind, "decimal", precision=digits, scale=0), st.integers(-most, most).map(
                    Decimal
                )
        return kind, st.binary(min_size=size, max_size=size)
    if shape == "plain" or depth == 0:
        return draw(st.sampled_from(PLAIN))
    if shape == "record":
        return draw(records(names, depth - 1))
    inner, values = draw(types(names, depth - 1))
    if shape == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=4)
    if shape == "map":
        return {"type": "map", "values": inner}, st.dictionaries(TEXTS, values, max_size=3)
    if isinstance(inner, list):
        return inner, values
    branches = ["null", inner] if draw(st.booleans()) else [inner, "null"]
    return branches, st.none() | values


@st.composite
def records(draw: Any, names: Names, depth: int = 2) -> tuple[Any, Any]:
    """A record, and a strategy for its values."""
    count = draw(st.integers(1, 4))
    name, fields, values = names(), [], {}
    for at in range(count):
        kind, value = draw(types(names, depth))
        fields.append({"name": f"f{at}", "type": kind})
        values[f"f{at}"] = value
    return {"type": "record", "name": name, "fields": fields}, st.fixed_dictionaries(values)


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def expected(data: bytes, writer: Any, reader: Any = None) -> Any:
    """What fastavro reads, in the words of Arrow."""
    parsed: list[Any] = [
        fastavro.parse_schema(json.loads(json.dumps(one))) for one in (writer, reader) if one
    ]
    return in_words(fastavro.schemaless_reader(io.BytesIO(data), *parsed, *[None] * (2 - len(parsed))))


def in_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: in_words(one) for name, one in value.items()}
    if isinstance(value, list):
        return [in_words(one) for one in value]
    return str(value) if isinstance(value, UUID) else value


def rows(codec: Avro, values: Any) -> tuple[list[Any], dict[int, str]]:
    """What a codec reads. Maps are dicts, as fastavro has them."""
    found = codec.parse(values)
    found.table.validate(full=True)
    return found.table.to_pylist(maps_as_pydicts="strict"), dict(found.bad)
