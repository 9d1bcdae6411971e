"""A writer's and a reader's schema as a program of `avro_machine`, by Avro's rules of resolution:

- Fields are matched by name, or by an alias of the reader's. Others of the writer are skipped; others of
  the reader have their default.
- int becomes long, float and double; long becomes float and double; float becomes double; string and
  bytes become one another. Symbols that the reader's enum lacks become its default.
- Names of records, enums and fixed types are not compared: topics are often read under other names.

Schemas that do not fit together still make a program. It tells why, for each record that needs what
does not fit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.sources.kafka import avro_machine as m
from headgate.sources.kafka.avro_types import Node, Schema, Tree, logical_of

_SAME = {
    "boolean": m.BOOL,
    "int": m.INT,
    "long": m.LONG,
    "float": m.FLOAT,
    "double": m.DOUBLE,
    "bytes": m.BYTES,
}
_READ = {
    **{(kind, kind): op for kind, op in _SAME.items()},
    **{(a, b): m.BYTES for a in ("string", "bytes") for b in ("string", "bytes")},
    ("int", "long"): m.LONG,
    ("int", "float"): m.LONG_AS_FLOAT,
    ("int", "double"): m.LONG_AS_DOUBLE,
    ("long", "float"): m.LONG_AS_FLOAT,
    ("long", "double"): m.LONG_AS_DOUBLE,
    ("float", "double"): m.FLOAT_AS_DOUBLE,
}


@dataclass(frozen=True)
class Program:
    """Instructions, the numbers and bytes that they refer to, and what its own codes mean."""

    code: NDArray[np.int64]
    aux: NDArray[np.int64]
    consts: bytes
    told: Mapping[int, str]
    room: NDArray[np.int64]
    """How many items the columns had room for when it ran last."""

    def reason(self, code: int) -> str:
        """A code in words, as the rest of a sentence about a record."""
        return self.told.get(code) or m.TOLD[code]


def program(writer: Schema, tree: Tree) -> Program:
    """The program that reads records of a writer's schema into the columns of the reader."""
    return _Builder(writer, tree).built()


class _Builder:
    def __init__(self, writer: Schema, tree: Tree) -> None:
        self.writer, self.tree = writer, tree
        self.code: list[list[int]] = []
        self.aux: list[int] = []
        self.consts = bytearray()
        self.told: dict[int, str] = {}
        self.calls: list[tuple[int, str]] = []
        """Where a record that nobody wants is skipped by a call, and its name."""

    def built(self) -> Program:
        self.read(self.writer.resolved(self.writer.root), self.tree.root, top=True)
        self.put(m.END)
        begun: dict[str, int] = {}
        while waiting := [name for _, name in self.calls if name not in begun]:
            begun[waiting[0]] = len(self.code)
            for field in self.writer.names[waiting[0]]["fields"]:
                self.skip(field["type"])
            self.put(m.RETURN)
        for at, name in self.calls:
            self.code[at][2] = begun[name]
        code = np.array(self.code, np.int64).reshape(-1, 4)
        room = np.zeros(self.tree.columns, np.int64)
        return Program(code, np.array(self.aux or [0], np.int64), bytes(self.consts), self.told, room)

    def put(self, op: int, column: int = -1, a: int = 0, b: int = 0) -> int:
        self.code.append([op, column, a, b])
        return len(self.code) - 1

    def bad(self, reason: str) -> int:
        """The code of a reason."""
        code = next(
            (code for code, told in self.told.items() if told == reason), m.FIRST_OWN + len(self.told)
        )
        self.told[code] = reason
        return code

    def const(self, number: int) -> int:
        self.aux.append(number)
        return len(self.aux) - 1

    def there(self, node: Node) -> None:
        self.put(m.CONST, node.column, self.const(1))

    # -- what the reader wants

    def read(self, kind: Any, node: Node, *, top: bool = False) -> None:
        """Read a value of the writer's type into the columns of a node."""
        kind = self.writer.resolved(kind)
        if isinstance(kind, list):
            self.branches(kind, lambda one: self.read(one, node))
        elif kind["type"] == "null":
            self.null(node)
        elif kind["type"] == "record" and node.kind == "record":
            if not top:
                self.there(node)
            self.record(kind, node)
        elif not self.fits(kind, node):
            self.misfit(_shown(kind), _shown(node.schema), node)
        elif kind["type"] == "array":
            self.repeated(kind["items"], node.column, lambda: self.read(kind["items"], node.inner[0][1]))
        elif kind["type"] == "map":
            self.repeated("string", node.column, lambda: self.entry(kind["values"], node))
        else:
            self.scalar(kind, node)

    def fits(self, kind: Any, node: Node) -> bool:
        """Whether a type can be read as another, as far as no value decides it."""
        kind = self.writer.resolved(kind)
        if isinstance(kind, list):
            return True
        base = kind["type"]
        if base in ("array", "map") and base == node.kind:
            item = node.inner[-1][1]
            return item.nullable or self.fits(kind["items" if base == "array" else "values"], item)
        if base == node.kind == "fixed":
            return bool(kind["size"] == node.schema["size"])
        return (base == node.kind and base in ("record", "enum")) or (base, node.kind) in _READ

    def branches(self, kinds: list[Any], each: Callable[[Any], None]) -> None:
        begin = len(self.aux)
        self.aux += [0] * len(kinds)
        self.put(m.UNION, -1, begin, len(kinds))
        jumps = []
        for at, kind in enumerate(kinds):
            self.aux[begin + at] = len(self.code)
            each(kind)
            jumps.append(self.put(m.JUMP))
        for jump in jumps:
            self.code[jump][2] = len(self.code)

    def null(self, node: Node) -> None:
        if not node.nullable:
            self.put(
                m.BAD, -1, self.bad(f"has null in {node.label}, which is never null in the reader's schema")
            )
            return
        self.nothing(node)

    def nothing(self, node: Node) -> None:
        self.put(m.NULL, node.column)
        for _, inner in node.inner if node.kind == "record" else ():
            self.nothing(inner)

    def record(self, kind: Mapping[str, Any], node: Node) -> None:
        wanted = dict(node.inner)
        known = {field["name"] for field in kind["fields"]}
        given: dict[str, str] = {}
        defaults: list[tuple[Mapping[str, Any], Node]] = []
        for field in node.schema["fields"]:
            names = [field["name"], *field.get("aliases", ())]
            found = next((name for name in names if name in known and name not in given), None)
            if found is not None:
                given[found] = field["name"]
            else:
                defaults.append((field, wanted[field["name"]]))
        for field in kind["fields"]:
            if field["name"] in given:
                self.read(field["type"], wanted[given[field["name"]]])
            else:
                self.skip(field["type"])
        for field, inner in defaults:
            said = "has no default in the reader's schema"
            if "default" in field:
                try:
                    self.default(field["default"], field["type"], inner)
                    continue
                except (LookupError, TypeError, AttributeError, ValueError, struct.error, StopIteration):
                    said = "has a default of another type in the reader's schema"
            self.put(m.BAD, -1, self.bad(f"lacks {inner.label}, which {said}"))

    def repeated(self, item: Any, column: int, each: Callable[[], None]) -> None:
        self.put(m.ENTER)
        head = self.put(m.BLOCK, column, 0, int(self.can_be_empty(item, ())))
        each()
        self.put(m.NEXT, -1, head)
        self.code[head][2] = len(self.code)

    def entry(self, kind: Any, node: Node) -> None:
        self.put(m.BYTES, node.inner[0][1].column)
        self.read(kind, node.inner[1][1])

    def can_be_empty(self, kind: Any, within: tuple[str, ...]) -> bool:
        kind = self.writer.resolved(kind)
        if isinstance(kind, list) or kind.get("name") in within:
            return False
        if kind["type"] == "record":
            inside = (*within, kind["name"])
            return all(self.can_be_empty(field["type"], inside) for field in kind["fields"])
        return kind["type"] == "null" or (kind["type"] == "fixed" and not kind["size"])

    def scalar(self, kind: Mapping[str, Any], node: Node) -> None:
        base, column = kind["type"], node.column
        means, wanted = logical_of(kind), logical_of(node.schema)
        if means and wanted and means != wanted:
            self.misfit(means, wanted, node)
        elif base == "enum":
            self.enum(kind, node)
        elif base == "fixed":
            self.put(m.FIXED, column, kind["size"])
        else:
            self.put(_READ[base, node.kind], column)

    def misfit(self, have: str, want: str, node: Node) -> None:
        said = f"has {node.label} as {have}, which the reader's schema has as {want}"
        self.put(m.BAD, -1, self.bad(said))

    def enum(self, kind: Mapping[str, Any], node: Node) -> None:
        symbols, otherwise = node.schema["symbols"], node.schema.get("default")
        begin = len(self.aux)
        for symbol in kind["symbols"]:
            found = symbol if symbol in symbols else otherwise
            if found in symbols:
                self.aux.append(symbols.index(found))
            else:
                said = f"has {symbol} in field {node.path}, which the reader's enum does not have"
                self.aux.append(self.bad(said) << 32)
        self.put(m.ENUM, node.column, begin, len(kind["symbols"]))

    # -- what the reader has and the writer lacks

    def default(self, value: Any, kind: Any, node: Node) -> None:
        kind = self.tree.schema.resolved(kind)
        if isinstance(kind, list):
            kinds = [self.tree.schema.resolved(one) for one in kind]
            kind = next(one for one in kinds if (one["type"] == "null") == (value is None))
        column = node.column
        if value is None:
            self.nothing(node)
        elif node.kind == "record":
            self.there(node)
            for field, (name, inner) in zip(kind["fields"], node.inner, strict=True):
                self.default(value[name] if name in value else field["default"], field["type"], inner)
        elif node.kind == "array":
            for item in value:
                self.default(item, kind["items"], node.inner[0][1])
            self.put(m.CONST, column, self.const(len(value)))
        elif node.kind == "map":
            for key, item in value.items():
                self.default(key, "string", node.inner[0][1])
                self.default(item, kind["values"], node.inner[1][1])
            self.put(m.CONST, column, self.const(len(value)))
        elif node.kind in ("string", "bytes", "fixed"):
            data = value.encode("utf-8" if node.kind == "string" else "latin-1")
            self.put(m.CONST_BYTES, column, self.const((len(self.consts) << 32) | len(data)))
            self.consts += data
        else:
            self.put(m.CONST, column, self.const(_bits(value, node)))

    # -- what the writer has and the reader does not want

    def skip(self, kind: Any) -> None:
        kind = self.writer.resolved(kind)
        if isinstance(kind, list):
            self.branches(kind, self.skip)
            return
        base = kind["type"]
        if base == "record":
            self.calls.append((self.put(m.CALL), kind["name"]))
        elif base == "array":
            self.repeated(kind["items"], -1, lambda: self.skip(kind["items"]))
        elif base == "map":
            self.repeated("string", -1, lambda: self.skip_entry(kind["values"]))
        elif base in ("int", "long", "enum"):
            self.put(m.SKIP_LONG)
        elif base in ("string", "bytes"):
            self.put(m.BYTES)
        elif base == "boolean":
            self.put(m.BOOL)
        elif base != "null":
            self.put(m.FIXED, -1, {"float": 4, "double": 8}.get(base) or kind["size"])

    def skip_entry(self, kind: Any) -> None:
        self.put(m.BYTES)
        self.skip(kind)


def _bits(value: Any, node: Node) -> int:
    if node.kind == "enum":
        return int(node.schema["symbols"].index(value))
    if node.kind == "float":
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    if node.kind == "double":
        return int(struct.unpack("<q", struct.pack("<d", value))[0])
    return int(value)


def _shown(kind: Mapping[str, Any]) -> str:
    if kind["type"] in ("array", "map"):
        item = kind.get("items", kind.get("values"))
        inner = item["type"] if isinstance(item, Mapping) else "a union" if isinstance(item, list) else item
        return f"{kind['type']} of {inner}"
    return f"fixed of size {kind['size']}" if kind["type"] == "fixed" else str(kind["type"])
