"""The reader's schema as a tree of columns with Arrow types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headgate.errors import ConfigError, UnsupportedType, required

_SIMPLE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time64("us"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("string", "uuid"): pa.string(),
    ("fixed", "uuid"): pa.string(),
}
_NANOS = ("timestamp-nanos", "local-timestamp-nanos")
_DIGITS, _UUID = 38, 16
REMEDY = "Give a reader's schema with schema=... that lacks this field, or has another type for it"


@dataclass(frozen=True)
class Schema:
    """A schema with the named types that it uses."""

    root: Any
    names: Mapping[str, Any]

    @classmethod
    def of(cls, text: str, references: Iterable[str] = ()) -> Schema:
        """Parse JSON; raise `ValueError` with the reason if it is no Avro schema. `references` are schemas
        whose names it uses.
        """
        fastavro = required("fastavro", "Kafka(value='avro')")
        names: dict[str, Any] = {}
        try:
            for one in references:
                fastavro.parse_schema(json.loads(one), named_schemas=names)
            root = fastavro.parse_schema(json.loads(text), named_schemas=names)
        except json.JSONDecodeError as error:
            raise ValueError(f"it is not JSON: {error}") from error
        except (KeyError, fastavro.schema.UnknownType) as error:
            raise ValueError(f"it lacks or does not define {error}") from error
        except (fastavro.schema.SchemaParseException, TypeError, ValueError, AttributeError) as error:
            raise ValueError(str(error)) from error
        return cls(root, names)

    def resolved(self, kind: Any) -> Any:
        """A type as a dict or a list; names are followed."""
        if isinstance(kind, str):
            kind = self.names.get(kind, {"type": kind})
        if isinstance(kind, Mapping) and not isinstance(kind["type"], str):
            return self.resolved(kind["type"])
        return kind


def logical_of(kind: Mapping[str, Any]) -> str:
    """What a type means besides its bytes, as far as it is known; two that differ cannot be read as one
    another.

    >>> logical_of({"type": "long", "logicalType": "time-micros"}), logical_of({"type": "int", "logicalType": "x"})
    ('time-micros', '')
    """
    name, base = str(kind.get("logicalType", "")), kind["type"]
    if base == "fixed" and name == "uuid" and kind["size"] != _UUID:
        return ""
    if name == "decimal" and base in ("bytes", "fixed"):
        return f"decimal with scale {kind.get('scale', 0)}"
    return name if (base, name) in _LOGICAL or name in _NANOS else ""


@dataclass(frozen=True)
class Node:
    """A type of the reader, and the column that holds its values: of a record whether it is there, of a
    list or a map the number of its items.
    """

    kind: str
    arrow: pa.DataType
    column: int
    path: str
    nullable: bool
    schema: Mapping[str, Any]
    inner: Sequence[tuple[str, Node]] = ()
    """The fields of a record by name; the items of a list; the keys and the items of a map."""

    @property
    def label(self) -> str:
        """What a message calls it."""
        return f"field {self.path}" if self.path else "the whole value"


@dataclass
class Tree:
    """The reader's schema."""

    schema: Schema
    root: Node = field(init=False)
    columns: int = 0

    def __post_init__(self) -> None:
        top = self.schema.resolved(self.schema.root)
        if isinstance(top, list) or top["type"] != "record" or not top["fields"]:
            raise ConfigError(
                "Kafka(value='avro'): the schema is not a record with fields, which are the columns of the stream"
            )
        self.root = self._node(top, "", ())

    def arrow(self) -> pa.Schema:
        """The columns of the stream."""
        return pa.schema([(name, node.arrow) for name, node in self.root.inner])

    def _node(self, kind: Any, path: str, within: tuple[str, ...]) -> Node:
        kind, nullable = self.schema.resolved(kind), False
        if isinstance(kind, list):
            others = [one for one in kind if self.schema.resolved(one) != {"type": "null"}]
            if len(others) != 1:
                shown = json.dumps([_name(self.schema.resolved(one)) for one in kind])
                raise UnsupportedType(
                    f"Kafka(value='avro'): field {path} is the union {shown}; a column has one type, or null. {REMEDY}"
                )
            nullable = len(kind) > 1
            kind = self.schema.resolved(others[0])
        base = kind["type"]
        column, self.columns = self.columns, self.columns + 1
        inner: list[tuple[str, Node]] = []
        if base == "record":
            inner, arrow = self._record(kind, path, within)
        elif base == "array":
            inner = [("", self._node(kind["items"], f"{path}[]", within))]
            arrow = pa.list_(pa.field("element", inner[0][1].arrow))
        elif base == "map":
            key = self._node("string", f"{path}{{}}", within)
            inner = [("", key), ("", self._node(kind["values"], f"{path}{{}}", within))]
            arrow = pa.map_(pa.string(), pa.field("value", inner[1][1].arrow))
        else:
            arrow = _scalar(kind, path)
        return Node(base, arrow, column, path, nullable, kind, inner)

    def _record(
        self, kind: Mapping[str, Any], path: str, within: tuple[str, ...]
    ) -> tuple[list[tuple[str, Node]], pa.DataType]:
        name = kind["name"]
        if name in within:
            raise UnsupportedType(
                f"Kafka(value='avro'): field {path} is a {name} within a {name}; a column has a fixed depth. {REMEDY}"
            )
        names = [one["name"] for one in kind["fields"]]
        if not names or len(set(names)) < len(names):
            raise UnsupportedType(
                f"Kafka(value='avro'): field {path or name} is a record with no field, or with two of one name. {REMEDY}"
            )
        inner = [
            (one["name"], self._node(one["type"], f"{path}.{one['name']}".strip("."), (*within, name)))
            for one in kind["fields"]
        ]
        return inner, pa.struct([(name, node.arrow) for name, node in inner])


def _scalar(kind: Mapping[str, Any], path: str) -> pa.DataType:
    base, logical = kind["type"], kind.get("logicalType")
    if logical == "decimal" and base in ("bytes", "fixed"):
        digits, scale = int(kind.get("precision", 0)), int(kind.get("scale", 0))
        if not 0 < digits <= _DIGITS or not 0 <= scale <= digits:
            raise UnsupportedType(
                f"Kafka(value='avro'): field {path} is a decimal of {digits} digits with scale {scale}; decimals have up to "
                f"{_DIGITS} digits. {REMEDY}"
            )
        return pa.decimal128(digits, scale)
    if logical in _NANOS or base not in _SIMPLE or (base == "fixed" and not kind["size"]):
        shown = logical if logical in _NANOS else "fixed of size 0" if base == "fixed" else base
        raise UnsupportedType(
            f"Kafka(value='avro'): field {path} is {shown}, for which there is no type of a column. {REMEDY}"
        )
    return _LOGICAL.get((base, logical_of(kind)), _SIMPLE[base])


def _name(kind: Any) -> str:
    return str(kind.get("name", kind["type"])) if isinstance(kind, Mapping) else "union"
