"""Spark's types of constants, and the common type of two expressions, for typed expressions.

Whatever the session's settings could decide otherwise is not decided here: it is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from math import isinf
from typing import Any

import pyarrow as pa

from headgate.state.payload import Payload
from headgate.streams.sql_compute import Expr
from headgate.streams.sql_dates import DAY_US, date_value, timestamp_micros
from headgate.streams.sql_parse import Node
from headgate.streams.sql_tokens import NotColumnar

t = pa.types
BOOL, INT, LONG, DOUBLE, STRING = pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string()
DATE, TIMESTAMP, LOCAL = pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us")
_INTS = [pa.int8(), pa.int16(), INT, LONG]
_FLOATS = [pa.float32(), DOUBLE]
_DIGITS = dict(zip(_INTS, (3, 5, 10, 20), strict=True))
"""Digits of the decimal type as which Spark compares an integer type."""
_NAMES = {
    BOOL: "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", INT: "int", LONG: "bigint", pa.float32(): "float",
    DOUBLE: "double", STRING: "string", pa.binary(): "binary", DATE: "date", TIMESTAMP: "timestamp",
    LOCAL: "timestamp_ntz", pa.null(): "void",
}  # fmt: skip
CASTS = {
    "boolean": BOOL, "tinyint": pa.int8(), "byte": pa.int8(), "smallint": pa.int16(), "short": pa.int16(), "int": INT,
    "integer": INT, "bigint": LONG, "long": LONG, "double": DOUBLE, "string": STRING, "date": DATE,
}  # fmt: skip
_NUMBER = re.compile(
    r"(-?)(?:(\d+)(BD|[LSYD])?|((?:\d+\.\d*|\.\d+))(BD|D)?|((?:\d+\.?\d*|\.\d+)E[+-]?\d+)D?)"
)
_SIZED = {"L": LONG, "S": pa.int16(), "Y": pa.int8()}


def is_int(kind: pa.DataType) -> bool:
    return kind in _INTS


def is_float(kind: pa.DataType) -> bool:
    return kind in _FLOATS


def comparable(kind: pa.DataType) -> bool:
    """Whether values of this type are compared here."""
    return not isinstance(kind, Payload) and (kind in _NAMES or t.is_decimal128(kind))


def named(kind: pa.DataType) -> str:
    """A type as Spark calls it."""
    if t.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES.get(kind) or str(kind) if not isinstance(kind, Payload) else str(kind)


def literal(value: Any, kind: pa.DataType) -> Expr:
    """A constant."""
    return Expr("literal", kind, value=value)


def number(node: Node) -> Expr:
    """A number with the type that Spark gives it: 1 is an int, 1.5 a decimal(2,1), 1.5D and 1e0 are doubles."""
    match = _NUMBER.fullmatch(node.value)
    if match is None:
        raise NotColumnar(f"the number {node.value} is read by Spark only")
    sign, digits, suffix, point, point_suffix, scientific = match.groups()
    if scientific or "D" in (suffix, point_suffix):
        value = float(sign + (scientific or digits or point))
        if isinf(value):
            raise NotColumnar(f"the number {node.value} is not a double")
        return literal(value, DOUBLE)
    if digits and suffix != "BD":
        whole = int(sign + digits)
        if suffix:
            kinds = [_SIZED[suffix]]
        else:
            kinds = [INT, LONG]
        for kind in kinds:
            if -(1 << kind.bit_width - 1) <= whole < 1 << kind.bit_width - 1:
                return literal(whole, kind)
        if suffix:
            raise NotColumnar(f"the number {node.value} is out of range")
    exact = Decimal(sign + (digits or point))
    scale = -int(exact.as_tuple().exponent)
    precision = max(len(exact.as_tuple().digits), scale)
    if precision > 38:
        raise NotColumnar(f"the number {node.value} has more than 38 digits")
    return literal(exact, pa.decimal128(precision, scale))


def converted(expr: Expr, kind: pa.DataType) -> Expr:
    """The same values in a wider type."""
    if expr.type == kind:
        return expr
    if expr.op != "literal":
        return Expr("cast", kind, (expr,))
    value = expr.value
    if value is not None:
        if t.is_decimal128(kind):
            value = Decimal(value)
        elif is_float(kind):
            value = float(value)
    return literal(value, kind)


def common(exprs: Sequence[Expr], what: str, *, ansi: bool, utc: bool, compared: bool = False) -> list[Expr]:
    """The same expressions in their common type, by the rules of Spark's ANSI mode."""
    kinds = [expr.type for expr in exprs]
    kind = _common(exprs, [k for k in dict.fromkeys(kinds) if not t.is_null(k)], ansi, compared)
    if kind is None:
        listed = " and ".join(dict.fromkeys(map(named, kinds)))
        raise NotColumnar(f"{what} of {listed} is computed by Spark only: cast to one type")
    return [_to(expr, kind, what, utc) for expr in exprs]


def _common(
    exprs: Sequence[Expr], kinds: list[pa.DataType], ansi: bool, compared: bool
) -> pa.DataType | None:
    if not kinds:
        return pa.null()
    if not all(map(comparable, kinds)):
        return None
    if len(kinds) == 1:
        return kinds[0]
    decimals = [kind for kind in kinds if t.is_decimal128(kind)]
    ints, floats = [kind for kind in kinds if is_int(kind)], [kind for kind in kinds if is_float(kind)]
    if len(ints) + len(floats) + len(decimals) == len(kinds):
        if decimals and floats:  # a column of decimals becomes doubles in its own way
            exact = all(expr.op == "literal" for expr in exprs if t.is_decimal128(expr.type))
            return DOUBLE if exact else None
        if decimals:
            return _wider(kinds) if compared else None
        if floats and ints:
            return DOUBLE if DOUBLE in floats or ansi else None
        return DOUBLE if floats else _INTS[max(map(_INTS.index, ints))]
    constant = {expr.type for expr in exprs if expr.op == "literal"}
    fixed = {expr.type for expr in exprs if expr.op != "literal"} - {pa.null()}
    times = {DATE, TIMESTAMP, LOCAL}
    if compared and ansi and len(fixed) == 1 and fixed <= times:  # with constants in a text or a date
        allowed = {STRING, DATE} if fixed == {TIMESTAMP} else {STRING}
        if constant - {pa.null()} - fixed <= allowed:
            return fixed.pop()
    return None


def _wider(kinds: list[pa.DataType]) -> pa.DataType | None:
    """The decimal type that holds every value of these types."""
    sizes = [(_DIGITS[k], 0) if is_int(k) else (k.precision, k.scale) for k in kinds]
    scale = max(s for _, s in sizes)
    precision = max(p - s for p, s in sizes) + scale
    return pa.decimal128(precision, scale) if precision <= 38 else None


def _to(expr: Expr, kind: pa.DataType, what: str, utc: bool) -> Expr:
    if expr.type == kind or expr.value is None or expr.type not in (STRING, DATE):
        return converted(expr, kind)
    if kind == TIMESTAMP and not utc:
        raise NotColumnar(f"{what} of a timestamp and {named(expr.type)} depends on the session's time zone")
    if expr.type == DATE:
        return literal((expr.value.toordinal() - 719_163) * DAY_US, kind)
    value = date_value(expr.value) if kind == DATE else timestamp_micros(expr.value)
    if value is None:
        raise NotColumnar(f"{expr.value!r} as a {named(kind)} is read by Spark only")
    return literal(value, kind)
