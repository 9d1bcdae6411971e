"""Values as an interpreted kernel sees them: Python's own, within the bounds of the compiled ones.

Integers have 64 bits, instants are a type of their own (no time zones, no limit at the year 9999), rings
and mappings are bounded.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from headgate.kernels import runtime
from headgate.kernels.arithmetic import OVERFLOW, ZERO
from headgate.kernels.assignment import TOO_LONG
from headgate.kernels.containers import EMPTY, FULL_MAP, MISSING_KEY, OUT_OF_RANGE, TOO_FEW
from headgate.kernels.fields import MICRO, Map, Ring, Sort, Text
from headgate.operators.history import total_of


class Failure(Exception):
    """A row failed; the message is that of compiled code."""


class Int64(int):
    """An integer of 64 bits: an overflow is a failure. An operation with a float gives a float."""

    def __truediv__(self, other: Any) -> Any:
        return float(self) / float(other) if isinstance(other, int) else int.__truediv__(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return float(other) / float(self) if isinstance(other, int) else int.__rtruediv__(self, other)

    def __lshift__(self, places: Any) -> Any:
        if self != 0 and places > 63:
            raise Failure(OVERFLOW)
        return whole(int(self) << int(places)) if self != 0 or places < 0 else self

    def __rlshift__(self, number: Any) -> Any:
        return Int64(number) << self


def whole(value: int) -> Int64:
    """An integer as `Int64`; a failure if it does not fit 64 bits."""
    if not -(2**63) <= value < 2**63:
        raise Failure(OVERFLOW)
    return Int64(value)


def _checked(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def method(self: Int64, *others: Any) -> Any:
        result = plain(self, *others)
        return whole(result) if type(result) is int else result

    return method


for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "rshift"):
    setattr(Int64, f"__{_name}__", _checked(f"__{_name}__"))
    setattr(Int64, f"__r{_name}__", _checked(f"__r{_name}__"))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Int64, f"__{_name}__", _checked(f"__{_name}__"))


class Instant:
    """A point in time, in microseconds since 1970, UTC."""

    __slots__ = ("micros",)

    def __init__(self, micros: int) -> None:
        self.micros = whole(micros)

    def __add__(self, other: Any) -> Any:
        return Instant(self.micros + other // MICRO) if isinstance(other, dt.timedelta) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Instant):
            return dt.timedelta(microseconds=int(self.micros - other.micros))
        return Instant(self.micros - other // MICRO) if isinstance(other, dt.timedelta) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instant) and self.micros == other.micros

    def __lt__(self, other: Instant) -> bool:
        return self.micros < other.micros

    def __le__(self, other: Instant) -> bool:
        return self.micros <= other.micros

    def __gt__(self, other: Instant) -> bool:
        return self.micros > other.micros

    def __ge__(self, other: Instant) -> bool:
        return self.micros >= other.micros

    def __hash__(self) -> int:
        return hash(self.micros)

    def __repr__(self) -> str:
        return f"Instant({np.datetime64(int(self.micros), 'us')})"


def from_raw(sort: Sort, raw: Any) -> Any:
    """A value from what state and lanes hold."""
    if sort is Sort.FLOAT:
        return float(raw)
    if sort is Sort.BOOL:
        return bool(raw)
    if sort is Sort.INSTANT:
        return Instant(int(raw))
    return dt.timedelta(microseconds=int(raw)) if sort is Sort.SPAN else Int64(raw)


def to_raw(sort: Sort, value: Any, what: str) -> Any:
    """What state and output hold for a value; a value of another sort is a failure."""
    if sort is Sort.FLOAT and isinstance(value, bool | int | float):
        return float(value)
    if sort is Sort.BOOL and isinstance(value, bool | np.bool_):
        return int(value)
    if sort is Sort.INT and isinstance(value, bool | int):
        return int(whole(value))
    if sort is Sort.INSTANT and isinstance(value, Instant):
        return int(value.micros)
    if sort is Sort.SPAN and isinstance(value, dt.timedelta):
        return int(whole(value // MICRO))
    if sort is Sort.TEXT and isinstance(value, str):
        return value.encode()
    raise Failure(f"{what} is {sort}, but the value is {value!r}")


class RingView:
    """A ring as a row sees it: the values from before, and those that the row appends."""

    def __init__(self, name: str, kind: Ring, raw: list[Any]) -> None:
        self.name, self.kind, self.added = name, kind, 0
        self._raw = raw

    def append(self, value: Any) -> None:
        """Append the newest value."""
        self._raw.append(to_raw(self.kind.sort, value, f"ring {self.name!r}"))
        self.added += 1

    @property
    def raw(self) -> list[Any]:
        """The values that the ring keeps."""
        return self._raw[-self.kind.most :]

    @property
    def new(self) -> list[Any]:
        """The values that the row appended."""
        return self._raw[len(self._raw) - self.added :]

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[Any]:
        return iter([from_raw(self.kind.sort, v) for v in self.raw])

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise Failure(OUT_OF_RANGE)
        return from_raw(self.kind.sort, self.raw[index])

    def _array(self) -> Any:
        return np.array(self.raw, np.float64 if self.kind.sort is Sort.FLOAT else np.int64)

    def sum(self) -> Any:
        """The sum, added in the same order as in compiled code."""
        if self.kind.sort is Sort.FLOAT:
            return float(total_of(self._array(), 0, len(self)))
        total = Int64(0)
        for value in self.raw:
            total = total + value
        return total

    def mean(self) -> float:
        """The mean."""
        if not len(self):
            raise Failure(ZERO)
        return float(self.sum()) / len(self)

    def std(self) -> float:
        """The sample standard deviation."""
        if len(self) < 2:
            raise Failure(TOO_FEW)
        return float(runtime.deviation(self._array(), 0, len(self)))

    def min(self) -> Any:
        """The least."""
        return self._extreme(runtime.smallest)

    def max(self) -> Any:
        """The greatest."""
        return self._extreme(runtime.largest)

    def _extreme(self, pick: Callable[..., Any]) -> Any:
        if not len(self):
            raise Failure(EMPTY)
        return from_raw(self.kind.sort, pick(self._array(), 0, len(self)))


class MapView(dict[Any, Any]):
    """A bounded dictionary."""

    def __init__(self, name: str, kind: Map, entries: dict[Any, Any]) -> None:
        super().__init__(entries)
        self.name, self.kind = name, kind

    def __getitem__(self, key: Any) -> Any:
        if key not in self:
            raise Failure(MISSING_KEY)
        return super().__getitem__(key)

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise Failure(MISSING_KEY)
        super().__delitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        to_raw(self.kind.key, key, f"a key of mapping {self.name!r}")
        raw = to_raw(self.kind.value, value, f"a value of mapping {self.name!r}")
        if key not in self and len(self) == self.kind.most:
            raise Failure(FULL_MAP)
        super().__setitem__(key, from_raw(self.kind.value, raw))


def bounded(name: str, kind: Text, value: Any) -> str:
    """A text that fits its field; a longer one is a failure."""
    if len(to_raw(Sort.TEXT, value, f"state.{name}")) > kind.most:
        raise Failure(TOO_LONG.format(name, kind.most))
    return str(value)
