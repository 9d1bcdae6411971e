"""Messages that the library has parsed as Arrow columns, column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.sources.kafka.protobuf_types import DURATION, FIXED64, TIMESTAMP, UINT64, Field

_SECOND = 1_000_000


def column_of(field: Field, messages: Sequence[Any]) -> pa.Array:
    """The values of a field in messages, of which some may be None."""
    get = attrgetter(field.name)
    if field.shape == "list":
        lists = [() if one is None else get(one) for one in messages]
        return pa.ListArray.from_arrays(
            _offsets(lists, messages), values_of(field, list(chain.from_iterable(lists))), field.arrow
        )
    if field.shape == "map":
        maps = [{} if one is None else get(one) for one in messages]
        key, value = field.inner
        keys = values_of(key, [name for one in maps for name in one])
        items = values_of(value, [one[name] for one in maps for name in one])
        return pa.MapArray.from_arrays(_offsets(maps, messages), keys, items, field.arrow)
    if field.presence:
        name = field.name
        return values_of(
            field, [get(one) if one is not None and one.HasField(name) else None for one in messages]
        )
    if None in messages:
        return values_of(field, [None if one is None else get(one) for one in messages])
    return values_of(field, list(map(get, messages)))


def values_of(field: Field, values: list[Any]) -> pa.Array:
    """Values of one field, or items of a repeated one."""
    kind = field.item
    if field.special:
        return pa.array([None if one is None else _special(field.special)(one) for one in values], kind)
    if pa.types.is_struct(kind):
        there = pa.array([one is None for one in values], pa.bool_())
        columns = [column_of(inner, values) for inner in field.inner]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=there)
    if field.symbols is not None:
        symbols = field.symbols
        return pa.array([None if one is None else symbols.get(one) or str(one) for one in values], kind)
    if field.kind in (UINT64, FIXED64):
        return _unsigned(values).cast(kind)
    return pa.array(values, kind)


def _unsigned(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.uint64())


def _special(name: str) -> Callable[[Any], Any]:
    if name == TIMESTAMP:
        return lambda one: _micros(one.seconds, one.nanos // 1000)
    if name == DURATION:
        return lambda one: _micros(one.seconds, int(one.nanos / 1000))
    return attrgetter("value")


def _micros(seconds: int, micros: int) -> int:
    return seconds * _SECOND + micros


def _offsets(lists: Sequence[Any], messages: Sequence[Any]) -> pa.Array:
    """Where the items of each list begin. The list of a message that is not there is null."""
    ends = [0, *accumulate(map(len, lists))]
    if None not in messages:
        return pa.array(ends, pa.int32())
    gone = np.array([*(one is None for one in messages), False])
    return pa.array(np.array(ends, np.int32), mask=gone)
