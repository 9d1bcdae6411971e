"""The type of a column that is passed on without being read: an engine's own type, stored as an Arrow type."""

from __future__ import annotations

import json

import pyarrow as pa

from headgate.errors import UnsupportedType


class Payload(pa.ExtensionType):  # type: ignore[misc]
    """Values of the Arrow type `storage` that represent another type, called `name`.

    `origin` is that type as its engine writes it. An operator passes such a column on, and keeps it in
    state like a plain column of the same storage; no operator reads it. With a `refusal` the column
    cannot even be passed on, and using it raises that message. The storage cannot be Arrow's null type.

    >>> kind = Payload(pa.list_(pa.string()), "array<string>")
    >>> str(kind), kind.storage_type
    ('array<string>', ListType(list<item: string>))
    """

    def __init__(self, storage: pa.DataType, name: str, origin: str = "", refusal: str = "") -> None:
        self.name, self.origin, self.refusal = name, origin, refusal
        super().__init__(storage, "headgate.payload")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps([self.name, self.origin, self.refusal]).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Payload:
        return cls(storage, *json.loads(serialized))

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Payload)
            and self.storage_type == other.storage_type
            and self.__arrow_ext_serialize__() == other.__arrow_ext_serialize__()
        )

    def __ne__(self, other: object) -> bool:  # pyarrow's own compares only storage and extension name
        return not self == other

    def __hash__(self) -> int:
        return hash(self.__arrow_ext_serialize__())


pa.register_extension_type(Payload(pa.bool_(), ""))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type in which values are stored."""
    return kind.storage_type if isinstance(kind, Payload) else kind


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The same values in their Arrow type, without a copy."""
    if not isinstance(column.type, Payload):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column.storage


def check_carried(kind: pa.DataType) -> None:
    """Refuse a column that cannot be passed on."""
    if isinstance(kind, Payload) and kind.refusal:
        raise UnsupportedType(kind.refusal)
