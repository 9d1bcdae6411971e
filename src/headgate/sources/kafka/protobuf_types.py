"""A message of Protobuf as a tree of columns with Arrow types.

A field that knows whether it was set is null if it was not: messages, `optional` ones, members of a
`oneof`, all of proto2. Others have their zero. Enums are text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.errors import UnsupportedType, required

_WRAPPED = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
WRAPPERS = frozenset(f"google.protobuf.{name}Value" for name in _WRAPPED)
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_MOMENTS = {TIMESTAMP: pa.timestamp("us", "UTC"), DURATION: pa.duration("us")}
DOUBLE, FLOAT, INT64, UINT64, INT32, FIXED64, FIXED32, BOOL, STRING, GROUP, MESSAGE, BYTES = range(1, 13)
UINT32, ENUM, SFIXED32, SFIXED64, SINT32, SINT64 = range(13, 19)
"""Types of fields, as descriptors number them."""
_SCALARS = {
    DOUBLE: pa.float64(), FLOAT: pa.float32(), BOOL: pa.bool_(), STRING: pa.string(), BYTES: pa.binary(), ENUM: pa.string(),
    **dict.fromkeys((INT32, SINT32, SFIXED32), pa.int32()),
    **dict.fromkeys((INT64, SINT64, SFIXED64, UINT32, FIXED32), pa.int64()),
    **dict.fromkeys((UINT64, FIXED64), pa.decimal128(20, 0)),
}  # fmt: skip
REMEDY = "Leave the field out of a message of your own with the same field numbers, or take value='raw'"


def library() -> Any:
    """The parts of the library that are used."""
    for module in ("descriptor_pb2", "descriptor_pool", "message_factory", "message"):
        required(f"google.protobuf.{module}", "Kafka(value='protobuf')")
    return required("google.protobuf", "Kafka(value='protobuf')")


@dataclass(frozen=True)
class Field:
    """A field of a message: how its values are found, and the type of its column."""

    name: str
    number: int
    kind: int
    arrow: pa.DataType
    shape: str
    """`one`, `list` or `map`."""
    presence: bool
    inner: Sequence[Field] = ()
    """The fields of a message; of a map its key and its value."""
    special: str = ""
    """The name of a well-known type that is one value."""
    symbols: Mapping[int, str] | None = None
    closed: bool = False
    """Whether a number without a symbol counts as not set."""
    oneof: str = ""
    needed: bool = False
    """Whether a message without it is wrong, as in proto2."""

    @property
    def item(self) -> pa.DataType:
        """The type of one value."""
        return self.arrow.value_type if self.shape == "list" else self.arrow


def fields_of(message: Any, path: str = "", within: tuple[str, ...] = ()) -> list[Field]:
    """The fields of a message type; raise `UnsupportedType` for one that cannot be a column."""
    if message.full_name in within:
        raise UnsupportedType(
            f"Kafka(value='protobuf'): field {path} is a {message.full_name} within a {message.full_name}; a column has a fixed depth. "
            f"{REMEDY}"
        )
    if not message.fields:
        raise UnsupportedType(
            f"Kafka(value='protobuf'): {f'field {path}' if path else message.full_name} is a message with no field. {REMEDY}"
        )
    inside = (*within, message.full_name)
    return [_field(one, f"{path}.{one.name}".strip("."), inside) for one in message.fields]


def _field(field: Any, path: str, within: tuple[str, ...]) -> Field:
    kind, message = field.type, field.message_type
    if kind == GROUP:
        raise UnsupportedType(
            f"Kafka(value='protobuf'): field {path} is a group, which is not read. {REMEDY}"
        )
    repeated = bool(field.is_repeated)
    if repeated and message is not None and message.GetOptions().map_entry:
        key, value = (_field(one, f"{path}.{one.name}", within) for one in message.fields)
        arrow = pa.map_(key.arrow, pa.field("value", value.arrow))
        return Field(field.name, field.number, kind, arrow, "map", False, (key, value))
    inner: Sequence[Field] = ()
    special, symbols = "", None
    if message is not None and message.full_name in (*WRAPPERS, *_MOMENTS):
        special = message.full_name
        inner = [_field(one, path, within) for one in message.fields]
        item = _MOMENTS[special] if special in _MOMENTS else inner[0].arrow
    elif message is not None:
        inner = fields_of(message, path, within)
        item = pa.struct([(one.name, one.arrow) for one in inner])
    else:
        item = _SCALARS[kind]
    if field.enum_type is not None:
        symbols = {value.number: value.name for value in reversed(field.enum_type.values)}
    arrow = pa.list_(pa.field("element", item)) if repeated else item
    shape, presence = ("list", False) if repeated else ("one", bool(field.has_presence))
    closed = field.enum_type is not None and bool(field.enum_type.is_closed)
    group = field.containing_oneof
    return Field(
        field.name, field.number, kind, arrow, shape, presence, inner, special, symbols, closed,
        "" if group is None else group.name, bool(field.is_required),
    )  # fmt: skip
