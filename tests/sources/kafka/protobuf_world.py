"""Random messages of Protobuf: their descriptors, their values, and what they are in Arrow, by the library's
own conversion to JSON.
"""

import base64
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    json_format,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)
from hypothesis import strategies as st

from headgate.sources.kafka.protobuf import Protobuf

F = descriptor_pb2.FieldDescriptorProto
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
FLOATS = st.integers(-1000, 1000).map(lambda n: n / 4)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SCALARS: dict[int, Any] = {
    F.TYPE_DOUBLE: FLOATS, F.TYPE_FLOAT: FLOATS, F.TYPE_INT64: INT64, F.TYPE_UINT64: UINT64, F.TYPE_INT32: INT32,
    F.TYPE_FIXED64: UINT64, F.TYPE_FIXED32: UINT32, F.TYPE_BOOL: st.booleans(), F.TYPE_STRING: TEXTS,
    F.TYPE_BYTES: st.binary(max_size=6), F.TYPE_UINT32: UINT32, F.TYPE_SFIXED32: INT32, F.TYPE_SFIXED64: INT64,
    F.TYPE_SINT32: INT32, F.TYPE_SINT64: INT64,
}  # fmt: skip
KNOWN = {
    ".google.protobuf.Timestamp": st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999).map(
        lambda micros: timestamp_pb2.Timestamp(seconds=micros // 10**6, nanos=micros % 10**6 * 1000)
    ),
    ".google.protobuf.Duration": st.integers(-(10**12), 10**12).map(
        lambda micros: duration_pb2.Duration(
            seconds=int(micros / 10**6), nanos=(abs(micros) % 10**6) * 1000 * (1 if micros > 0 else -1)
        )
    ),
    ".google.protobuf.Int64Value": INT64.map(lambda n: wrappers_pb2.Int64Value(value=n)),
    ".google.protobuf.UInt64Value": UINT64.map(lambda n: wrappers_pb2.UInt64Value(value=n)),
    ".google.protobuf.StringValue": TEXTS.map(lambda text: wrappers_pb2.StringValue(value=text)),
    ".google.protobuf.BoolValue": st.booleans().map(lambda one: wrappers_pb2.BoolValue(value=one)),
    ".google.protobuf.DoubleValue": FLOATS.map(lambda one: wrappers_pb2.DoubleValue(value=one)),
}
IMPORTS = [f"google/protobuf/{name}.proto" for name in ("timestamp", "duration", "wrappers")]


def file_of(*messages: Any, syntax: str = "proto3") -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax=syntax, dependency=IMPORTS
    )
    file.enum_type.add(name="Colour").value.extend(
        [
            descriptor_pb2.EnumValueDescriptorProto(name=name, number=n)
            for n, name in enumerate(["NONE", "RED", "BLUE"])
        ]
    )
    file.message_type.extend(messages)
    return file


def class_of(file: Any, name: str = "shop.M") -> Any:
    pool = descriptor_pool.DescriptorPool()
    for one in (timestamp_pb2, duration_pb2, wrappers_pb2):
        pool.AddSerializedFile(one.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@st.composite
def messages(draw: Any, name: str = "M", path: str = ".shop", depth: int = 2) -> Any:
    """The descriptor of a message with nested ones, lists, maps, enums, a oneof and well-known types."""
    message = descriptor_pb2.DescriptorProto(name=name)
    shapes = ["scalar", "enum", "known", "oneof", *(["message", "map"] if depth else [])]
    numbers = draw(
        st.lists(
            st.sampled_from([*range(1, 8), 15, 16, 2047, 2048, 18999]), min_size=1, max_size=5, unique=True
        )
    )
    for at, number in enumerate(numbers):
        field = message.field.add(name=f"f{at}", number=number, label=F.LABEL_OPTIONAL)
        shape = draw(st.sampled_from(shapes))
        if shape == "map":
            entry = message.nested_type.add(name=f"F{at}Entry")
            entry.options.map_entry = True
            kinds = [
                draw(st.sampled_from([F.TYPE_STRING, F.TYPE_INT32, F.TYPE_UINT64, F.TYPE_BOOL])),
                draw(st.sampled_from([*SCALARS])),
            ]
            for place, kind in enumerate(kinds):
                entry.field.add(
                    name=["key", "value"][place], number=place + 1, type=kind, label=F.LABEL_OPTIONAL
                )
            field.type, field.type_name, field.label = (
                F.TYPE_MESSAGE,
                f"{path}.{name}.F{at}Entry",
                F.LABEL_REPEATED,
            )
            continue
        if shape == "message":
            message.nested_type.append(draw(messages(f"N{at}", f"{path}.{name}", depth - 1)))
            field.type, field.type_name = F.TYPE_MESSAGE, f"{path}.{name}.N{at}"
        elif shape == "enum":
            field.type, field.type_name = F.TYPE_ENUM, ".shop.Colour"
        elif shape == "known":
            field.type, field.type_name = F.TYPE_MESSAGE, draw(st.sampled_from([*KNOWN]))
        else:
            field.type = draw(st.sampled_from([*SCALARS]))
        if shape == "oneof":
            if not message.oneof_decl:
                message.oneof_decl.add(name="choice")
            field.oneof_index = 0
        elif draw(st.booleans()):
            field.label = F.LABEL_REPEATED
    return message


def filled(draw: Any, message: Any) -> Any:
    """Set some fields of a message, and return it."""
    for field in message.DESCRIPTOR.fields:
        if draw(st.integers(0, 3)) == 0:
            continue
        entry = field.message_type is not None and field.message_type.GetOptions().map_entry
        if entry:
            key, value = (SCALARS[one.type] for one in field.message_type.fields)
            for name, one in draw(st.dictionaries(key, value, max_size=3)).items():
                getattr(message, field.name)[name] = one
        elif field.is_repeated:
            for _ in range(draw(st.integers(0, 3))):
                one = drawn(draw, field)
                getattr(message, field.name).append(
                    one if one is not None else filled(draw, _new(message, field))
                )
        elif field.message_type is not None:
            one = drawn(draw, field)
            getattr(message, field.name).CopyFrom(
                one if one is not None else filled(draw, _new(message, field))
            )
        else:
            setattr(message, field.name, drawn(draw, field))
    return message


def _new(message: Any, field: Any) -> Any:
    return message_factory.GetMessageClass(field.message_type)()


def drawn(draw: Any, field: Any) -> Any:
    if field.enum_type is not None:
        return draw(st.sampled_from([0, 1, 2] if field.enum_type.is_closed else [0, 1, 2, 7]))
    if field.message_type is None:
        return draw(SCALARS[field.type])
    known = f".{field.message_type.full_name}"
    if known not in KNOWN:
        return None
    value = _class(field.message_type)()
    value.ParseFromString(draw(KNOWN[known]).SerializeToString())
    return value


def _class(descriptor: Any) -> Any:
    return message_factory.GetMessageClass(descriptor)


def expected(message: Any) -> Any:
    """A row, by way of JSON."""
    written = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _row(message.DESCRIPTOR, written)


def _row(descriptor: Any, written: Any) -> Any:
    return {field.name: _field(field, written.get(field.name)) for field in descriptor.fields}


def _field(field: Any, value: Any) -> Any:
    if value is None:
        return None
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, item = field.message_type.fields
        return {_key(key, name): _value(item, one) for name, one in value.items()}
    return [_value(field, one) for one in value] if field.is_repeated else _value(field, value)


def _key(field: Any, name: str) -> Any:
    return name == "true" if field.type == F.TYPE_BOOL else _value(field, name)


def _value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        known = field.message_type.full_name
        if known == "google.protobuf.Timestamp":
            return _moment(value)
        if known == "google.protobuf.Duration":
            return timedelta(microseconds=round(Decimal(value.removesuffix("s")) * 10**6))
        if known.startswith("google.protobuf."):
            return _value(field.message_type.fields[0], value)
        return _row(field.message_type, value)
    if field.type in (F.TYPE_UINT64, F.TYPE_FIXED64):
        return Decimal(value)
    if field.type == F.TYPE_BYTES:
        return base64.b64decode(value)
    if field.enum_type is not None:
        return str(value)
    return float(value) if field.type in (F.TYPE_DOUBLE, F.TYPE_FLOAT) else _number(field, value)


def _number(field: Any, value: Any) -> Any:
    return value if field.type in (F.TYPE_STRING, F.TYPE_BOOL) else int(value)


def _moment(text: str) -> datetime:
    whole, _, part = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(whole).replace(tzinfo=UTC) + timedelta(
        microseconds=int((part or "0").ljust(6, "0"))
    )


def rows(codec: Protobuf, values: Any) -> tuple[list[Any], dict[int, str]]:
    found = codec.parse(values)
    found.table.validate(full=True)
    return found.table.to_pylist(maps_as_pydicts="strict"), dict(found.bad)
