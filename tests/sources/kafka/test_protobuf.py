"""Protobuf values: messages come back by the rules of proto3, with the library's JSON as the oracle."""

import base64
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st
from tests.schema_registry import SchemaRegistry, framed
from tests.sources.kafka.protobuf_world import F, class_of, expected, file_of, filled, messages, rows

from headgate.errors import ConfigError, UnsupportedType
from headgate.sources.kafka import protobuf
from headgate.sources.kafka.codec import halved
from headgate.sources.kafka.protobuf import Protobuf
from headgate.sources.kafka.registry import Registry


def message(name: str, *fields: tuple[str, int, Any], oneof: bool = False) -> Any:
    """A message with fields of scalar types, or of messages by name."""
    made = descriptor_pb2.DescriptorProto(name=name)
    if oneof:
        made.oneof_decl.add(name="choice")
    for at, (field, kind, of) in enumerate(fields):
        one = made.field.add(name=field, number=at + 1, type=kind, label=F.LABEL_OPTIONAL)
        if of:
            one.type_name = of
        if oneof:
            one.oneof_index = 0
    return made


SALE = message("M", ("n", F.TYPE_INT64, ""), ("shop", F.TYPE_STRING, ""))


@given(st.data())
def test_what_the_library_writes_comes_back(data) -> None:
    kind = class_of(file_of(data.draw(messages())))
    codec = Protobuf.of(kind, None, None)
    drawn = [None if data.draw(st.integers(0, 4)) == 0 else filled(data.draw, kind()) for _ in range(4)]
    found, bad = rows(codec, [None if one is None else one.SerializeToString() for one in drawn])
    nothing = dict.fromkeys(codec.schema().names)
    assert found == [nothing if one is None else expected(one) for one in drawn]
    assert bad == {}


def shown(value: Any) -> Any:
    """A value whose parts can be compared: NaN equals NaN, and maps have no order."""
    if isinstance(value, dict):
        return sorted(((repr(name), shown(one)) for name, one in value.items()), key=repr)
    return [shown(one) for one in value] if isinstance(value, list) else repr(value)


def by_library(kind: Any, codec: Protobuf, values: Any) -> tuple[list[Any], list[int]]:
    _, fields = protobuf._message(codec.files, codec.name)
    found = halved(values, lambda some: protobuf._decoded(some, kind, fields, codec.schema()), codec.schema())
    return found.table.to_pylist(maps_as_pydicts="strict"), list(found.bad)


@given(st.data())
def test_compiled_code_parses_as_the_library_does(data) -> None:
    """Messages one after another are merged; and bytes are lost, changed or added."""
    kind = class_of(file_of(data.draw(messages()), syntax=data.draw(st.sampled_from(["proto2", "proto3"]))))
    codec = Protobuf.of(kind, None, None)
    values = []
    for _ in range(data.draw(st.integers(1, 6))):
        whole = b"".join(
            filled(data.draw, kind()).SerializeToString() for _ in range(data.draw(st.integers(1, 3)))
        )
        for _ in range(data.draw(st.integers(0, 2))):
            at = data.draw(st.integers(0, len(whole)))
            whole = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + data.draw(st.integers(0, 2)) :]
        values.append(whole)
    found, bad = rows(codec, values)
    wanted, wrong = by_library(kind, codec, values)
    assert (shown(found), list(bad)) == (shown(wanted), wrong)


def test_fields_that_are_not_set() -> None:
    one_of = message("One", ("a", F.TYPE_INT32, ""), ("b", F.TYPE_STRING, ""), oneof=True)
    outer = message(
        "M", ("n", F.TYPE_INT32, ""), ("word", F.TYPE_STRING, ""), ("one", F.TYPE_MESSAGE, ".shop.One")
    )
    made = outer.field.add(
        name="maybe", number=9, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL, proto3_optional=True
    )
    outer.oneof_decl.add(name="_maybe")
    made.oneof_index = 0
    kind = class_of(file_of(outer, one_of))
    values = [kind(), kind(maybe=0, one={}), kind(one={"a": 0})]
    found, _ = rows(Protobuf.of(kind, None, None), [one.SerializeToString() for one in values])
    assert found == [
        {"n": 0, "word": "", "one": None, "maybe": None},
        {"n": 0, "word": "", "one": {"a": None, "b": None}, "maybe": 0},
        {"n": 0, "word": "", "one": {"a": 0, "b": None}, "maybe": None},
    ]


def test_nanoseconds_are_cut_to_microseconds() -> None:
    kind = class_of(file_of(message("M", ("at", F.TYPE_MESSAGE, ".google.protobuf.Timestamp"))))
    value = kind()
    value.at.seconds, value.at.nanos = -1, 999_999_999
    found, _ = rows(Protobuf.of(kind, None, None), [value.SerializeToString()])
    assert found[0]["at"].isoformat() == "1969-12-31T23:59:59.999999+00:00"


def test_a_message_that_does_not_parse_is_told_beside_others() -> None:
    kind = class_of(file_of(SALE))
    good = kind(n=1, shop="a").SerializeToString()
    found, bad = rows(Protobuf.of(kind, None, None), [good, good[:-1], b"\x12\x01\xff", good, b"\xff"])
    assert found == [{"n": 1, "shop": "a"}] * 2
    assert list(bad) == [1, 2, 4]
    assert all(why.startswith("is not a message of type shop.M") for why in bad.values())


def test_a_message_from_a_file_of_descriptors(tmp_path) -> None:
    path = tmp_path / "shop.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file_of(SALE)]).SerializeToString())
    codec = Protobuf.of((str(path), "shop.M"), None, None)
    assert codec.schema() == pa.schema([("n", pa.int64()), ("shop", pa.string())])
    with pytest.raises(ConfigError, match=r"has no message 'shop.X'; it has .*shop.M"):
        Protobuf.of((str(path), "shop.X"), None, None)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not a FileDescriptorSet"):
        Protobuf.of((str(path), "shop.M"), None, None)
    with pytest.raises(ConfigError, match="not a FileDescriptorSet"):
        Protobuf.of((str(tmp_path / "gone"), "shop.M"), None, None)


def test_a_file_of_descriptors_that_lacks_an_import_is_named(tmp_path) -> None:
    path = tmp_path / "shop.desc"
    file = file_of(SALE)
    file.dependency.append("other.proto")
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    with pytest.raises(ConfigError, match="--include_imports"):
        Protobuf.of((str(path), "shop.M"), None, None)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ([message("M", ("next", F.TYPE_MESSAGE, ".shop.M"))], "field next is a shop.M within a shop.M"),
        (
            [message("M", ("e", F.TYPE_MESSAGE, ".shop.E")), message("E")],
            "field e is a message with no field",
        ),
        ([message("M")], "shop.M is a message with no field"),
    ],
)
def test_a_type_that_cannot_be_a_column_names_the_field(made, said) -> None:
    with pytest.raises(UnsupportedType, match=said):
        Protobuf.of(class_of(file_of(*made)), None, None)
    with pytest.raises(
        UnsupportedType, match=r"field fields\.value\.struct_value is a google.protobuf.Struct within"
    ):
        Protobuf.of(struct_pb2.Struct, None, None)


@pytest.fixture
def registry():
    made = SchemaRegistry()
    yield made
    made.close()


def test_the_wire_format_of_a_registry(registry, monkeypatch) -> None:
    monkeypatch.setattr("headgate.sources.kafka.registry._schemas", {})
    outer = message("Other", ("x", F.TYPE_BOOL, ""))
    outer.nested_type.append(message("Inner", ("y", F.TYPE_INT32, "")))
    file = file_of(SALE, outer)
    number = registry.register("sales-value", base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    plain = registry.register("text-value", 'syntax = "proto3";', "PROTOBUF")
    avro = registry.register("avro-value", '"string"')
    known = Registry.of(registry.url, None, 5.0)
    data = class_of(file)(n=7, shop="a").SerializeToString()
    values = [
        framed(number, data, 0), framed(number, data, 2, 0), framed(number, b"", 2, 2), framed(number, b"", 4, 2, 0),
        framed(number, b"", 2, 6), framed(avro, data, 0), framed(plain, data, 0), framed(number, b""), b"\x01abcde", None,
    ]  # fmt: skip
    for codec in (Protobuf.of(class_of(file), known, None), Protobuf.of(None, known, "sales-value")):
        found, bad = rows(codec, values)
        assert found == [{"n": 7, "shop": "a"}] * 3 + [{"n": None, "shop": None}]
        assert bad == {
            2: "is a message of type shop.Other, and not of type shop.M",
            3: "is a message of type shop.Other.Inner, and not of type shop.M",
            4: "names message [3], which its schema does not have",
            5: f"has schema {avro}, which is not one of PROTOBUF but of AVRO",
            7: "ends within its list of message indexes",
            8: "begins with byte 1 and not with 0, so it is not in the wire format of a schema registry",
        }
    nested = Protobuf.of("shop.Other.Inner", known, "sales-value")
    assert (
        rows(nested, [framed(number, b"\x08\x05", 4, 2, 0)] * 2 + [framed(number, b"\x08", 4, 2, 0)])[0]
        == [{"y": 5}] * 2
    )
    assert Protobuf.of("shop.Other.Inner", known, "sales-value").schema().names == ["y"]
    with pytest.raises(ConfigError, match="does not hand out compiled schemas"):
        Protobuf.of(None, known, "text-value")


def test_a_class_of_the_library_itself() -> None:
    assert Protobuf.of(timestamp_pb2.Timestamp, None, None).schema().names == ["seconds", "nanos"]
