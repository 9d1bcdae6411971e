"""Two inputs of a join as one stream: each row says its side, and has the other side's columns as nulls."""

from __future__ import annotations

import pyarrow as pa

from headgate.errors import ConfigError, MissingColumn
from headgate.operators.stream_join import LEFT, RIGHT, SIDE, TIME
from headgate.state.payload import Payload
from headgate.streams.step import BoundStep

NAMES = ("left", "right")


class SideStep(BoundStep):
    """The last step of one side. Its columns are the key, `side` (0 left, 1 right), `time`, and
    each side's other columns as `left_...` and `right_...`.
    """

    repeatable = True

    def __init__(
        self, side: int, key: tuple[str, ...], times: tuple[str, str], sides: tuple[pa.Schema, pa.Schema]
    ):
        self.side, self.key, self.time = side, key, times[side]
        for schema, time, name in zip(sides, times, NAMES, strict=True):
            missing = [n for n in (*key, time) if n not in schema.names]
            if missing:
                raise MissingColumn(
                    f"the {name} stream has no column {missing[0]!r}; it has {', '.join(map(repr, schema.names))}"
                )
        for name in key:
            kinds = [schema.field(name).type for schema in sides]
            if kinds[0] != kinds[1]:
                raise ConfigError(
                    f"key column {name!r} is {kinds[0]} on the left and {kinds[1]} on the right; cast one"
                )
            if name in (SIDE, TIME):
                raise ConfigError(f"key column {name!r} has a name that the join uses itself; rename it")
        time_types = [schema.field(time).type for schema, time in zip(sides, times, strict=True)]
        if time_types[0] != time_types[1]:
            raise ConfigError(
                f"the time is {time_types[0]} on the left and {time_types[1]} on the right; cast one"
            )
        fields = [sides[0].field(name) for name in key]
        fields += [pa.field(SIDE, pa.int32()), pa.field(TIME, time_types[0])]
        self._from: list[tuple[str, int, str]] = []
        for other, prefix in enumerate((LEFT, RIGHT)):
            for field in sides[other]:
                if field.name not in key:
                    fields.append(pa.field(prefix + field.name, field.type))
                    self._from.append((prefix + field.name, other, field.name))
        self.schema = pa.schema(fields)

    def __repr__(self) -> str:
        return f"the {NAMES[self.side]} side of a join"

    def apply(self, rows: pa.Table) -> pa.Table:
        columns = [rows.column(name) for name in self.key]
        columns += [_constant(self.side, pa.int32(), rows.num_rows), rows.column(self.time)]
        for name, side, own in self._from:
            kind = self.schema.field(name).type
            columns.append(rows.column(own) if side == self.side else _nulls(kind, rows.num_rows))
        return pa.Table.from_arrays(columns, schema=self.schema)


def _constant(value: int, kind: pa.DataType, count: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(pa.scalar(value, kind), count)], kind)


def _nulls(kind: pa.DataType, count: int) -> pa.ChunkedArray:
    if isinstance(kind, Payload):
        array = pa.ExtensionArray.from_storage(kind, pa.nulls(count, kind.storage_type))
    else:
        array = pa.nulls(count, kind)
    return pa.chunked_array([array], kind)
