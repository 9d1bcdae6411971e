"""JSON lines parsed one by one in Python: what Arrow's own parser refuses, and where a line is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headgate.sources.text import to_times


class Unread(ValueError):
    """A line cannot be parsed, or a value does not have the declared type; `end` is the position after the line."""

    def __init__(self, message: str, end: int = 0) -> None:
        super().__init__(message)
        self.end = end


class _Number(str):
    """A number as it is written."""


def parse_lines(data: bytes, kinds: Mapping[str, pa.DataType], at: int) -> pa.Table:
    """The rows of some lines; `at` is the position of the first byte in the file."""
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    for line in data.split(b"\n"):
        end = at + len(line) + 1
        if line.strip():
            try:
                _row(line, kinds, columns)
            except (ValueError, pa.ArrowException) as error:
                raise Unread(f"the line at byte {at} {error}", min(end, at + len(line))) from error
        at = end
    return pa.table({name: pa.array(columns[name], kind) for name, kind in kinds.items()})


def _row(line: bytes, kinds: Mapping[str, pa.DataType], columns: dict[str, list[Any]]) -> None:
    try:
        row = json.loads(line.decode(), parse_float=_Number, parse_int=_Number, parse_constant=_Number)
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("is not an object: write one object a line")
    for name, kind in kinds.items():
        columns[name].append(_value(row.get(name), kind, name))


def _value(value: Any, kind: pa.DataType, name: str) -> Any:
    """A parsed value as one that Arrow takes for the type; raise ValueError if it does not fit."""
    t = pa.types
    if value is None:
        return None
    if t.is_list(kind) and isinstance(value, list):
        return [_value(item, kind.value_type, name) for item in value]
    if t.is_struct(kind) and isinstance(value, dict):
        return {
            field.name: _value(value.get(field.name), field.type, f"{name}.{field.name}") for field in kind
        }
    if t.is_map(kind) and isinstance(value, dict):
        return [(key, _value(item, kind.item_type, f"{name}.{key}")) for key, item in value.items()]
    if t.is_boolean(kind) and isinstance(value, bool):
        return value
    try:
        if isinstance(value, str) and not t.is_nested(kind) and not t.is_boolean(kind):
            return _scalar(value, kind)
    except (ValueError, ArithmeticError, pa.ArrowException):
        pass
    raise ValueError(f"has {_shown(value)} in column {name}, which is {kind}")


def _scalar(value: str, kind: pa.DataType) -> Any:
    t = pa.types
    number = isinstance(value, _Number)
    if t.is_string(kind):
        return str(value)
    if t.is_decimal(kind):
        return pa.scalar(Decimal(value), kind).as_py()  # numbers, and strings that hold one
    if number and t.is_integer(kind):
        return pa.scalar(int(value), kind).as_py()
    if number and t.is_floating(kind):
        return float(value)
    if not number and t.is_timestamp(kind):
        return to_times(pa.chunked_array([[str(value)]]), kind)[0].as_py()
    if not number and t.is_date32(kind):
        return pa.array([str(value)]).cast(kind)[0].as_py()
    raise ValueError


def _shown(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
