"""The types of a kernel's state and output: Python's own, and three bounded ones that are defined here.

| declared | holds | in state |
|---|---|---|
| `int`, `float`, `bool` | 64-bit integers, doubles, booleans | one column |
| `datetime`, `timedelta` | an instant (UTC), a span, in microseconds | one column |
| `text(16)` | at most 16 bytes of UTF-8 | heap |
| `ring(float, 100)` | the last hundred values | heap, and only new values in a delta |
| `mapping(int, float, 8)` | at most eight entries, in the order of insertion | heap |

Every field starts as zero, false, the start of 1970, or empty.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.errors import ConfigError
from headgate.state.layout import Kind, StateColumn

LONGEST_TEXT, LONGEST_RING, LARGEST_MAP = 1 << 16, 1 << 20, 1 << 12
METHODS = ("forget", "wake_at")
"""The methods of `state`."""
INSTANT, SPAN = pa.timestamp("us", tz="UTC"), pa.duration("us")


class Sort(StrEnum):
    """The sorts of values that compiled code distinguishes."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    INSTANT = "datetime"
    SPAN = "timedelta"
    TEXT = "str"


SORTS: dict[Any, Sort] = {
    int: Sort.INT,
    float: Sort.FLOAT,
    bool: Sort.BOOL,
    dt.datetime: Sort.INSTANT,
    dt.timedelta: Sort.SPAN,
    str: Sort.TEXT,
}
ARROW: dict[Sort, pa.DataType] = {
    Sort.INT: pa.int64(),
    Sort.FLOAT: pa.float64(),
    Sort.BOOL: pa.bool_(),
    Sort.INSTANT: INSTANT,
    Sort.SPAN: SPAN,
    Sort.TEXT: pa.string(),
}
DTYPES: dict[Sort, type[np.generic]] = {
    Sort.INT: np.int64,
    Sort.FLOAT: np.float64,
    Sort.BOOL: np.uint8,
    Sort.INSTANT: np.int64,
    Sort.SPAN: np.int64,
    Sort.TEXT: np.int64,
}
"""numpy's type of a value; for a text, the type of the offset where its bytes end."""
_KINDS = {np.int64: Kind.I64, np.float64: Kind.F64, np.uint8: Kind.U8}


@dataclass(frozen=True)
class Scalar:
    """One number, boolean, instant or span."""

    sort: Sort

    def column(self, name: str) -> StateColumn:
        """The state column that holds it."""
        return StateColumn(name, _KINDS[DTYPES[self.sort]])

    def __str__(self) -> str:
        return str(self.sort)


@dataclass(frozen=True)
class Text:
    """A string of at most `most` bytes."""

    most: int

    def column(self, name: str) -> StateColumn:
        """The state column that holds it."""
        return StateColumn(name, Kind.BYTES)

    def __str__(self) -> str:
        return f"text({self.most})"


@dataclass(frozen=True)
class Ring:
    """The last `most` values."""

    sort: Sort
    most: int

    def column(self, name: str) -> StateColumn:
        """The state column that holds it."""
        return StateColumn(name, Kind.RING, self.most)

    def __str__(self) -> str:
        return f"ring({self.sort}, {self.most})"


@dataclass(frozen=True)
class Map:
    """At most `most` entries."""

    key: Sort
    value: Sort
    most: int

    def column(self, name: str) -> StateColumn:
        """The state column that holds it: pairs of eight bytes, one after the other."""
        return StateColumn(name, Kind.BYTES)

    def __str__(self) -> str:
        return f"mapping({self.key}, {self.value}, {self.most})"


Field = Scalar | Text | Ring | Map


def text(most: int) -> Text:
    """A string of at most `most` bytes in UTF-8. A longer one is an error; it is never cut silently.

    >>> text(16)
    Text(most=16)
    """
    return Text(_bound(most, LONGEST_TEXT, "text(16)", "bytes"))


def ring(kind: type, most: int) -> Ring:
    """The last `most` numbers that were appended, oldest first.

    >>> ring(float, 100)
    Ring(sort=<Sort.FLOAT: 'float'>, most=100)
    """
    sort = SORTS.get(kind)
    if sort not in (Sort.INT, Sort.FLOAT, Sort.INSTANT, Sort.SPAN):
        raise ConfigError(f"ring({_name(kind)}, ...): a ring keeps int, float, datetime or timedelta")
    return Ring(sort, _bound(most, LONGEST_RING, "ring(float, 100)", "values"))


def mapping(key: type, value: type, most: int) -> Map:
    """A small dictionary of at most `most` entries. Adding one more is an error: delete an entry first.

    >>> mapping(int, float, 8)
    Map(key=<Sort.INT: 'int'>, value=<Sort.FLOAT: 'float'>, most=8)
    """
    keys, values = SORTS.get(key), SORTS.get(value)
    if keys not in (Sort.INT, Sort.INSTANT):
        raise ConfigError(f"mapping({_name(key)}, ...): the keys of a mapping are int or datetime")
    if values is None or values is Sort.TEXT:
        raise ConfigError(
            f"mapping({_name(key)}, {_name(value)}, ...): its values are int, float, bool, datetime or timedelta"
        )
    return Map(keys, values, _bound(most, LARGEST_MAP, "mapping(int, float, 8)", "entries"))


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", repr(kind))


def _bound(most: Any, limit: int, example: str, what: str) -> int:
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= limit:
        raise ConfigError(
            f"{most!r} is not a valid size; give the number of {what}, from 1 to {limit}, as in {example}"
        )
    return most


def state_fields(declared: Mapping[str, Any]) -> dict[str, Field]:
    """The fields of a kernel's state."""
    fields: dict[str, Field] = {}
    for name, kind in _named(declared, "state", 'state={"n": int}').items():
        if name in METHODS:
            raise ConfigError(
                f"a state field cannot be named {name!r}: state.{name}() is a method; choose another name"
            )
        if isinstance(kind, Text | Ring | Map):
            fields[name] = kind
        elif kind is str:
            raise ConfigError(
                f"state field {name!r} is str; give its greatest length, as in hg.kernels.text(16)"
            )
        elif kind in _sorts():
            fields[name] = Scalar(SORTS[kind])
        else:
            raise ConfigError(
                f"state field {name!r} is {kind!r}; it can be int, float, bool, datetime, timedelta, "
                "hg.kernels.text(16), hg.kernels.ring(float, 100) or hg.kernels.mapping(int, float, 8)"
            )
    return fields


def output_fields(declared: Mapping[str, Any]) -> dict[str, Sort]:
    """The columns that a kernel emits."""
    fields: dict[str, Sort] = {}
    for name, kind in _named(declared, "output", 'output={"z": float}').items():
        if kind is dt.timedelta or kind not in _sorts():
            raise ConfigError(
                f"output column {name!r} is {kind!r}; it can be int, float, bool, str or datetime"
            )
        fields[name] = SORTS[kind]
    return fields


def _sorts() -> list[Any]:
    return list(SORTS)


def _named(declared: Any, what: str, example: str) -> Mapping[str, Any]:
    if not isinstance(declared, Mapping):
        raise ConfigError(f"{what}={declared!r}: give names and types, as in {example}")
    for name in declared:
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise ConfigError(f"{what} has the name {name!r}; use plain Python names, as in {example}")
    return declared


MICRO = dt.timedelta(microseconds=1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def micros_of(when: dt.datetime | dt.timedelta) -> int:
    """A span in microseconds, or an instant in microseconds since 1970; without a time zone it is in UTC.

    >>> micros_of(dt.datetime(1970, 1, 2)), micros_of(dt.timedelta(seconds=1))
    (86400000000, 1000000)
    """
    if isinstance(when, dt.timedelta):
        return when // MICRO
    return ((when if when.tzinfo else when.replace(tzinfo=dt.UTC)) - EPOCH) // MICRO


def row_sort(kind: pa.DataType) -> Sort | None:
    """The sort of a stream's column, or None if kernels cannot read its type."""
    t = pa.types
    if t.is_boolean(kind):
        return Sort.BOOL
    if t.is_signed_integer(kind):
        return Sort.INT
    if t.is_floating(kind):
        return Sort.FLOAT
    if t.is_timestamp(kind):
        return Sort.INSTANT
    if t.is_duration(kind):
        return Sort.SPAN
    return Sort.TEXT if t.is_string(kind) else None


def unread_column(name: str, kind: str) -> tuple[str, str]:
    """The message for a column whose type kernels cannot read, and the remedy."""
    remedy = (
        "cast it, or a part of it, to an integer, double, string, boolean, timestamp or day-time interval "
        f"before the stage, or emit it unchanged with keep=[{name!r}]"
    )
    return f"column {name!r} has type {kind}, which a kernel cannot read", remedy
