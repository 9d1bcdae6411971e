"""Values that are parsed by a schema: what Avro and Protobuf have in common.

A codec knows the columns of a stream and turns values into them. It is pickled and sent to the tasks.
With a registry, values are in Confluent's wire format: a zero, four bytes with the id of the writer's
schema, and the message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.errors import HeadgateError
from headgate.sources.kafka.registry import Registry
from headgate.sources.kafka.values import Parsed, Values

HEAD = 5
"""The bytes before a message in Confluent's wire format."""
_FEW = 8
"""So few values are parsed one by one."""


class Codec(ABC):
    """Parses the values of records."""

    registry: Registry | None = None

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of a value."""

    @abstractmethod
    def decode(self, written_by: int | None, values: Sequence[bytes]) -> Parsed:
        """Rows of values that one schema of the registry has written, headers included; without a registry
        it is None. Raise `ValueError` with the reason if none of them can be read.
        """

    def parse(self, values: Values) -> Parsed:
        """A row for each value that parses. A record without a value has a row of nulls."""
        size = 0 if self.registry is None else HEAD
        groups: dict[bytes | None, Sequence[int]] = {}
        heads = dict.fromkeys(None if value is None else value[:size] for value in values)
        if len(heads) == 1:
            groups[next(iter(heads))] = range(len(values))
        else:
            found: dict[bytes | None, list[int]] = {head: [] for head in heads}
            for at, value in enumerate(values):
                found[None if value is None else value[:size]].append(at)
            groups.update(found)
        tables, places, bad = [], list[int](), dict[int, str]()
        for head, mine in groups.items():
            if head is None:
                tables.append(nulls(self.schema(), len(mine)))
                places += mine
                continue
            chosen: Any = values if len(mine) == len(values) else [values[at] for at in mine]
            try:
                one = self.decode(schema_id(head) if size else None, chosen)
            except HeadgateError:
                raise  # a registry that refuses, or a library that is missing, is no fault of a record
            except ValueError as error:
                bad |= dict.fromkeys(mine, str(error))
                continue
            bad |= {mine[n]: why for n, why in one.bad.items()}
            tables.append(one.table)
            places += [at for n, at in enumerate(mine) if n not in one.bad] if one.bad else mine
        table = pa.concat_tables(tables) if tables else self.schema().empty_table()
        if len(tables) > 1:
            table = table.take(pa.array(np.argsort(np.array(places, np.int64))))
        return Parsed(table, bad)


def schema_id(head: bytes) -> int:
    """The id of the writer's schema; raise `ValueError` if these are not the first bytes of the wire format.

    >>> schema_id(bytes([0, 0, 0, 1, 2]))
    258
    """
    if len(head) < HEAD:
        raise ValueError(f"has {len(head)} bytes, which is too short for the id of a schema")
    if head[0]:
        raise ValueError(
            f"begins with byte {head[0]} and not with 0, so it is not in the wire format of a schema registry"
        )
    return int.from_bytes(head[1:], "big")


def nulls(schema: pa.Schema, rows: int) -> pa.Table:
    """So many rows of nulls."""
    return pa.Table.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)


def halved(values: Sequence[bytes], decode: Callable[[Sequence[bytes]], Parsed], schema: pa.Schema) -> Parsed:
    """Decode values together. If that raises `ValueError`, halve them until those are found that cannot be
    decoded, and tell why.
    """
    tables, bad = list[pa.Table](), dict[int, str]()

    def part(first: int, last: int) -> None:
        try:
            found = decode(values[first:last])
        except ValueError as error:
            if last - first == 1:
                bad[first] = str(error)
                return
            middle = first + 1 if last - first <= _FEW else (first + last) // 2
            part(first, middle)
            part(middle, last)
        else:
            tables.append(found.table)
            bad.update({first + at: why for at, why in found.bad.items()})

    part(0, len(values))
    return Parsed(pa.concat_tables(tables) if tables else schema.empty_table(), bad)
