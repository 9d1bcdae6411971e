"""A message type as the tables of `protobuf_machine`, and its columns as Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.sources.kafka import protobuf_machine as m
from headgate.sources.kafka import protobuf_types as t
from headgate.sources.kafka.lanes import Ints, Lanes, bytes_of, decimals_of, offsets_of, packed, packed_bits

_OPS = {
    **dict.fromkeys((t.DOUBLE, t.FIXED64, t.SFIXED64), (m.WIDE, m.SAME)),
    **dict.fromkeys((t.FLOAT, t.FIXED32), (m.NARROW, m.SAME)),
    **dict.fromkeys((t.INT64, t.UINT64), (m.VARINT, m.SAME)),
    **dict.fromkeys((t.INT32, t.ENUM), (m.VARINT, m.INT32)),
    **dict.fromkeys((t.STRING, t.BYTES), (m.SPAN, m.BYTES)),
    t.UINT32: (m.VARINT, m.UINT32),
    t.SINT32: (m.VARINT, m.SINT32),
    t.SINT64: (m.VARINT, m.SINT64),
    t.SFIXED32: (m.NARROW, m.INT32),
    t.BOOL: (m.VARINT, m.BOOL),
    t.MESSAGE: (m.SPAN, m.MESSAGE),
}
_SECOND, _MOST = 1_000_000, (1 << 63) // 1_000_000 - 1


class Unsure(Exception):
    """The library has to decide what these messages hold."""


@dataclass
class Slot:
    """Where a field is: the column of its value, of its presence or of its length; that of items of a list; and
    the slots within it.
    """

    of: t.Field
    column: int
    item: int = -1
    inner: Sequence[Slot] = ()


@dataclass
class Tables:
    """The tables of a message type."""

    slots: Sequence[Slot]
    arguments: tuple[Any, ...]
    room: Ints


@dataclass
class _Builder:
    there: list[int] = field(default_factory=list)
    levels: list[list[int]] = field(default_factory=lambda: [[]])
    nodes: list[list[int]] = field(default_factory=list)
    fields: list[list[list[int]]] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)
    depth: int = 1

    def column(self, level: int | None, there: bool) -> int:
        self.there.append(int(there))
        if level is not None:
            self.levels[level].append(len(self.there) - 1)
        return len(self.there) - 1

    def message(
        self, fields: Sequence[t.Field], level: int, depth: int, entry: bool = False
    ) -> tuple[int, list[Slot]]:
        """The number of a message type, and the slots of its fields."""
        node = len(self.nodes)
        self.nodes.append([0, 0, level, -1, 0])
        self.fields.append([])
        self.depth = max(self.depth, depth)
        groups: dict[str, int] = {}
        slots = []
        for one in fields:
            slot = self.field(one, node, level, depth, entry)
            slots.append(slot)
            if one.oneof:
                if one.oneof not in groups:
                    groups[one.oneof] = len(self.groups)
                    self.groups.append([])
                self.groups[groups[one.oneof]].append(slot.column)
                self.fields[node][-1][m.GROUP] = groups[one.oneof]
        if entry:
            self.nodes[node][m.KEY] = slots[0].column
            self.nodes[node][m.KEY_BYTES] = int(fields[0].kind in (t.STRING, t.BYTES))
        return node, slots

    def field(self, one: t.Field, node: int, level: int, depth: int, entry: bool) -> Slot:
        many = one.shape != "one"
        wire, op = _OPS[one.kind]
        slot = Slot(one, self.column(level, many or entry or not one.presence))
        row = [one.number, wire, op, slot.column, -1, int(many), -1, -1]
        self.fields[node].append(row)
        if op == m.MESSAGE:
            inside = level
            if many:
                inside = len(self.levels)
                self.levels.append([])
            row[m.NODE], slot.inner = self.message(one.inner, inside, depth + 1, one.shape == "map")
        elif many:
            slot.item = row[m.ITEM] = self.column(None, True)
        return slot

    def built(self, fields: Sequence[t.Field]) -> Tables:
        _, slots = self.message(fields, 0, 1)
        rows: list[list[int]] = []
        for node, own in zip(self.nodes, self.fields, strict=True):
            node[m.FIRST], node[m.AFTER] = len(rows), len(rows) + len(own)
            rows += own
        level_begins, level_columns = _joined(self.levels)
        group_begins, group_columns = _joined(self.groups)
        there = np.array(self.there, np.uint8)
        tables = (np.array(rows, np.int64), np.array(self.nodes, np.int64), level_begins, level_columns)
        arguments = (
            *tables,
            there,
            group_begins,
            group_columns,
            *(np.zeros(self.depth, np.int64) for _ in range(4)),
        )
        return Tables(slots, arguments, np.zeros(len(self.there), np.int64))


def _joined(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    begins = np.cumsum([0, *map(len, lists)])
    return begins.astype(np.int64), np.array([one for some in lists for one in some] or [0], np.int64)


def tables(fields: Sequence[t.Field]) -> Tables:
    """The tables of a message with these fields."""
    return _Builder().built(fields)


def columns(made: Tables, values: Sequence[bytes], skipped: int = 0) -> tuple[list[pa.Array], list[int]]:
    """The columns of messages that begin after `skipped` bytes, and the places of those that the library has
    to parse. Raise `Unsure` or `ValueError` if these are not known.
    """
    lanes = Lanes(values, skipped, b"", made.room)
    lanes.fill(m.run, *made.arguments)
    return [_array(slot, lanes) for slot in made.slots], np.flatnonzero(lanes.status).tolist()


def _array(slot: Slot, lanes: Lanes) -> pa.Array:
    one, values = slot.of, lanes.values(slot.column)
    if one.shape == "one":
        return _values(slot, lanes, slot.column, lanes.mask(slot.column))
    if one.shape == "list":
        child = _values(slot, lanes, slot.item, None)
    else:
        pair = [_array(inner, lanes) for inner in slot.inner]
        kind = pa.struct([one.arrow.key_field, one.arrow.item_field])
        child = pa.Array.from_buffers(kind, len(pair[0]), [None], children=pair)
    return pa.Array.from_buffers(one.arrow, len(values), [None, offsets_of(values)], children=[child])


def _values(slot: Slot, lanes: Lanes, column: int, mask: pa.Buffer | None) -> pa.Array:
    """Values of one field, or items of a list."""
    one, kind = slot.of, slot.of.item
    if one.special in t.WRAPPERS:
        return _values(slot.inner[0], lanes, slot.inner[0].column, mask)
    if one.special:
        micros = _micros(
            *(lanes.values(inner.column) for inner in slot.inner), down=one.special == t.TIMESTAMP
        )
        return pa.Array.from_buffers(kind, len(micros), [mask, packed(micros, np.int64)])
    if slot.inner:
        children = [_array(inner, lanes) for inner in slot.inner]
        return pa.Array.from_buffers(kind, len(children[0]), [mask], children=children)
    values = lanes.values(column)
    rows = len(values)
    if one.kind in (t.STRING, t.BYTES):
        return bytes_of(lanes, values, mask, text=one.kind == t.STRING, what=one.name)
    if one.symbols is not None:
        return _symbols(one, pa.Array.from_buffers(pa.int32(), rows, [mask, packed(values, np.int32)]))
    if one.kind in (t.UINT64, t.FIXED64):
        pairs = np.zeros(2 * rows, np.int64)
        pairs[::2] = values
        return decimals_of(pairs, kind, mask)
    if one.kind == t.BOOL:
        return pa.Array.from_buffers(kind, rows, [mask, packed_bits(values)])
    wide = np.uint32 if one.kind == t.FLOAT else np.int32 if kind == pa.int32() else np.int64
    return pa.Array.from_buffers(kind, rows, [mask, packed(values, wide)])


def _symbols(one: t.Field, numbers: pa.Array) -> pa.Array:
    coded, known = numbers.dictionary_encode(), one.symbols or {}
    names = coded.dictionary.to_pylist()
    if one.closed and not all(number in known for number in names):
        raise Unsure
    texts = pa.array([known.get(number) or str(number) for number in names], pa.string())
    return pa.DictionaryArray.from_arrays(coded.indices, texts).dictionary_decode()


def _micros(seconds: Ints, nanos: Ints, *, down: bool) -> Ints:
    if len(seconds) and (seconds.max() > _MOST or seconds.min() < -_MOST):
        raise Unsure
    part = nanos // 1000 if down else np.sign(nanos) * (np.abs(nanos) // 1000)
    return np.asarray(seconds * _SECOND + part, np.int64)
