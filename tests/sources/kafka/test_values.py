"""Values as columns: a record that does not parse is found among those that do, whatever stands
beside it.
"""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ConfigError
from headgate.sources.kafka.records import Layout
from headgate.sources.kafka.values import as_json, as_text

KINDS = {"n": pa.int64(), "word": pa.string()}
GOOD = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"n": st.none() | st.integers(-(2**63), 2**63 - 1), "word": st.none() | st.text()}
    ).map(lambda row: json.dumps(row).encode()),
    st.integers(0, 9).map(lambda n: json.dumps({"n": n, "more": [n]}, indent=2).encode()),
)
BAD = st.sampled_from(
    [
        b"", b" ", b"null", b"1", b"[]", b"oh", b"{", b"}", b'{"n": "x"}', b'{"n": 1.5}', b"{}{}", b'{"n":1} {"n":2}', b'{"n": 1,',
        b'"word": "a"}', b'{"word": "\xff"}', b'{"word": "a\nb"}', b'{"n": 9223372036854775808}',
    ]
)  # fmt: skip


@given(st.lists(st.tuples(st.booleans(), GOOD, BAD), max_size=40))
def test_every_value_is_a_row_or_is_told_apart(drawn) -> None:
    values = [good if use else bad for use, good, bad in drawn]
    parsed = as_json(values, KINDS)
    assert sorted(parsed.bad) == [at for at, (use, _, _) in enumerate(drawn) if not use]
    wanted = [{} if good is None else json.loads(good) for use, good, _ in drawn if use]
    assert parsed.table.to_pylist() == [{name: row.get(name) for name in KINDS} for row in wanted]


def test_objects_that_only_together_make_as_many_as_there_are_values_are_found() -> None:
    parsed = as_json([b'{"n": 1', b"}", b'{"n": 2}{"n": 3}', b'{"n": 4}'], KINDS)
    assert (parsed.table["n"].to_pylist(), sorted(parsed.bad)) == ([4], [0, 1, 2])


def test_the_reason_is_in_words() -> None:
    parsed = as_json([b"", b"[1]", b'{"n": true}'], KINDS)
    assert parsed.bad[0] == "is empty"
    assert parsed.bad[1].startswith("is not an object")
    assert parsed.bad[2] == "has true in column n, which is int64"


def test_types_that_arrow_does_not_parse_are_parsed_one_by_one() -> None:
    kinds = {"tags": pa.map_(pa.string(), pa.int64()), "day": pa.date32()}
    parsed = as_json([b'{"tags": {"a": 1}, "day": "2026-01-31"}'] * 20 + [b'{"tags": 3}'], kinds)
    assert parsed.table["tags"].to_pylist() == [[("a", 1)]] * 20
    assert list(parsed.bad) == [20]


def test_text_is_utf8() -> None:
    parsed = as_text([b"a", None, b"\xff", "ö".encode()], "value")
    assert parsed.table["value"].to_pylist() == ["a", None, "ö"]
    assert list(parsed.bad) == [2]


SCHEMA = pa.schema([("n", pa.int64())])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("xml", "raw", SCHEMA, None), "values are 'json', 'avro', 'protobuf', 'text', 'raw'"),
        (("json", "raw", None, None), r"needs schema="),
        (("raw", "raw", SCHEMA, None), "has one column, 'value'"),
        (("json", "hash", SCHEMA, None), "keys are 'raw', 'text', 'avro'"),
        (("json", "raw", SCHEMA, ["age"]), "takes some of key, topic, partition, offset, timestamp, headers"),
        (("json", "raw", SCHEMA, {"key": "n"}), "two columns 'n'"),
        (("json", "raw", pa.schema([("b", pa.binary())]), None), "not read from JSON"),
        (("json", "raw", "n long", None), "not a pyarrow.Schema"),
    ],
)
def test_columns_that_cannot_be_are_refused(arguments, said) -> None:
    with pytest.raises(ConfigError, match=said):
        Layout.of(*arguments)


def test_columns_of_the_value_and_of_the_record() -> None:
    assert Layout.of("raw", "raw", None, None).schema.names == [
        "value", "key", "topic", "partition", "offset", "timestamp", "headers",
    ]  # fmt: skip
    layout = Layout.of("json", "text", SCHEMA, {"key": "who", "offset": "at"})
    assert [(field.name, str(field.type)) for field in layout.schema] == [
        ("n", "int64"), ("who", "string"), ("at", "int64"),
    ]  # fmt: skip
    assert layout.only(["at"]).schema.names == ["at"]
    assert layout.only([]).schema.names == ["n"]
