"""Computes typed expressions over Arrow rows, value for value as Spark does.

What can fail on a row (an overflow, a division by zero) is computed only on the rows for which Spark
computes it: not behind a condition that excludes the row, nor beside a null that decides the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.streams.sql_dates import PARTS, UNIX, days_of, micros_of, truncated
from headgate.streams.sql_tokens import NotColumnar

LARGEST, DEEPEST = 2000, 100
"""How many parts an expression can have, and how many one in another: it is computed by recursion."""
Value = Any
"""A `pa.Array` with one value for each row, or a `pa.Scalar` that stands for all rows."""


@dataclass(frozen=True)
class Expr:
    """An operation with its type and arguments. `can_fail` if some row can make it fail."""

    op: str
    type: pa.DataType
    args: tuple[Expr, ...] = ()
    value: Any = None
    fails: bool = False
    can_fail: bool = field(init=False)
    size: int = field(init=False)
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "can_fail", self.fails or any(arg.can_fail for arg in self.args))
        object.__setattr__(self, "size", 1 + sum(arg.size for arg in self.args))
        object.__setattr__(self, "depth", 1 + max((arg.depth for arg in self.args), default=0))
        if self.size > LARGEST or self.depth > DEEPEST:
            raise NotColumnar("the expression has too many parts, and is left to Spark")

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        if self.op == "column":
            return frozenset([self.value])
        return frozenset[str]().union(*(arg.columns for arg in self.args))


def evaluate(expr: Expr, rows: pa.Table) -> pa.ChunkedArray:
    """One value for each row. Raises `ArithmeticError` or `pa.ArrowInvalid` if a row makes it fail."""
    columns = sorted(expr.columns)
    if columns:
        batches = rows.select(columns).to_batches()
    else:  # constants: any column tells the number of rows
        counted = pa.table({"": pa.nulls(rows.num_rows)})
        batches = counted.to_batches()
    parts = [_array(compute(expr, batch), len(batch)) for batch in batches if len(batch)]
    return pa.chunked_array(parts, expr.type)


def negative_zero(expr: Expr) -> bool:
    """Whether a part of an expression is always -0.0; Spark takes branches that differ only in this as the same."""
    if expr.columns:
        return any(map(negative_zero, expr.args))
    if not pa.types.is_floating(expr.type):
        return False
    try:
        value = evaluate(expr, pa.table({"": pa.nulls(1)}))[0].as_py()
    except (ArithmeticError, pa.ArrowInvalid):
        return False
    return value == 0 and bool(np.signbit(value))


def compute(expr: Expr, rows: pa.RecordBatch) -> Value:
    """The values of an expression over at least one row."""
    return _OPERATIONS[expr.op](expr, rows)


def _array(value: Value, n: int) -> pa.Array:
    return pa.repeat(value, n) if isinstance(value, pa.Scalar) else value


def _on(expr: Expr, rows: pa.RecordBatch, wanted: pa.Array | None) -> Value:
    """The values on the wanted rows. On other rows they are null, or what the expression gives if it cannot fail."""
    if wanted is None or not expr.can_fail or wanted.true_count == len(rows):
        return compute(expr, rows)
    nothing = pa.nulls(len(rows), expr.type)
    if wanted.true_count == 0:
        return nothing
    some = rows.filter(wanted)
    return pc.replace_with_mask(nothing, wanted, _array(compute(expr, some), len(some)))


def _both(expr: Expr, rows: pa.RecordBatch) -> tuple[Value, Value]:
    """Two arguments, the second one on rows where the first is not null."""
    left = compute(expr.args[0], rows)
    second = expr.args[1]
    known = _array(pc.is_valid(left), len(rows)) if second.can_fail else None
    return left, _on(second, rows, known)


def _divided(expr: Expr, rows: pa.RecordBatch) -> tuple[Value, Value]:
    """Dividend and divisor; Spark looks at the divisor first."""
    right = compute(expr.args[1], rows)
    first = expr.args[0]
    known = _array(pc.is_valid(right), len(rows)) if first.can_fail else None
    return _on(first, rows, known), right


def _literal(expr: Expr, rows: pa.RecordBatch) -> Value:
    return pa.scalar(expr.value, expr.type)


def _column(expr: Expr, rows: pa.RecordBatch) -> Value:
    return rows.column(expr.value)


def _plain(function: str, **options: Any) -> Callable[[Expr, pa.RecordBatch], Value]:
    """A function of Arrow over all arguments."""

    def call(expr: Expr, rows: pa.RecordBatch) -> Value:
        return getattr(pc, function)(*(compute(arg, rows) for arg in expr.args), **options)

    return call


def _pair(function: str) -> Callable[[Expr, pa.RecordBatch], Value]:
    return lambda expr, rows: getattr(pc, function)(*_both(expr, rows))


def _given(function: str, option: str, **more: Any) -> Callable[[Expr, pa.RecordBatch], Value]:
    """A function of Arrow that has the expression's value as an option."""

    def call(expr: Expr, rows: pa.RecordBatch) -> Value:
        return getattr(pc, function)(compute(expr.args[0], rows), **{option: expr.value}, **more)

    return call


def _cast(expr: Expr, rows: pa.RecordBatch) -> Value:
    return pc.cast(compute(expr.args[0], rows), expr.type, safe=not pa.types.is_floating(expr.type))


def _and(expr: Expr, rows: pa.RecordBatch) -> Value:
    left = compute(expr.args[0], rows)
    return pc.and_kleene(left, _on(expr.args[1], rows, _open(expr, left, rows, decided=False)))


def _or(expr: Expr, rows: pa.RecordBatch) -> Value:
    left = compute(expr.args[0], rows)
    return pc.or_kleene(left, _on(expr.args[1], rows, _open(expr, left, rows, decided=True)))


def _open(expr: Expr, left: Value, rows: pa.RecordBatch, *, decided: bool) -> pa.Array | None:
    """The rows that the first argument does not decide."""
    if not expr.args[1].can_fail:
        return None
    return _array(pc.fill_null(pc.not_equal(left, decided), True), len(rows))


_IEEE = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def _compare(expr: Expr, rows: pa.RecordBatch) -> Value:
    left, right = _both(expr, rows)
    return _compared(expr.op, left, right)


def _compared(op: str, left: Value, right: Value) -> Value:
    """A comparison in which a NaN equals a NaN and is greater than everything else."""
    if op in (">", ">="):
        return _compared(op.replace(">", "<"), right, left)
    plain = getattr(pc, _IEEE[op])(left, right)
    if not pa.types.is_floating(left.type):
        return plain
    if op == "<=":
        return pc.or_(plain, pc.is_nan(right))
    if op == "<":
        return pc.or_(plain, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    both = pc.and_(pc.is_nan(left), pc.is_nan(right))
    return pc.or_(plain, both) if op == "=" else pc.and_(plain, pc.invert(both))


def _same(expr: Expr, rows: pa.RecordBatch) -> Value:
    left, right = (compute(arg, rows) for arg in expr.args)
    equal = pc.fill_null(_compared("=", left, right), False)
    return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))


def _in(expr: Expr, rows: pa.RecordBatch) -> Value:
    """Whether a value is one of constants. If one of them is null, what is not found is null."""
    value, kind = compute(expr.args[0], rows), expr.args[0].type
    known = [item for item in expr.value if item is not None]
    if pa.types.is_floating(kind):
        found = pa.scalar(False)
        for item in known:
            found = pc.or_(found, _compared("=", value, pa.scalar(item, kind)))
    else:
        found = pc.is_in(value, value_set=pa.array(known, kind))
    nothing = pa.scalar(None, pa.bool_())
    if len(known) < len(expr.value):
        found = pc.if_else(found, True, nothing)
    return pc.if_else(pc.is_valid(value), found, nothing)


def _remainder(expr: Expr, rows: pa.RecordBatch) -> Value:
    left, right = (_array(value, len(rows)) for value in _divided(expr, rows))
    known = _numpy(pc.and_(left.is_valid(), right.is_valid()), False)
    divisor = _numpy(right, 1)
    if bool((known & (divisor == 0)).any()):
        raise ArithmeticError("remainder by zero")
    with np.errstate(all="ignore"):
        return pa.array(np.fmod(_numpy(left, 0), np.where(known, divisor, 1)), expr.type, mask=~known)


def _numpy(array: pa.Array, fill: Any) -> Any:
    return array.fill_null(fill).to_numpy(zero_copy_only=False)


def _whole(expr: Expr, rows: pa.RecordBatch) -> Value:
    """The next whole number below or above a double."""
    value = _array(compute(expr.args[0], rows), len(rows))
    numbers = getattr(np, expr.op)(_numpy(value, 0.0))
    numbers = np.where(np.isnan(numbers), 0.0, numbers)
    if bool(((numbers >= 2.0**63) | (numbers < -(2.0**63))).any()):
        raise ArithmeticError(f"{expr.op} gives a number that is no bigint")
    return pa.array(numbers.astype(np.int64), mask=~_numpy(value.is_valid(), False))


def _case(expr: Expr, rows: pa.RecordBatch) -> Value:
    """Pairs of a condition and a value, and the value of all other rows."""
    result: Value = pa.scalar(None, expr.type)
    wanted = pa.repeat(pa.scalar(True), len(rows))
    for condition, value in zip(expr.args[:-1:2], expr.args[1::2], strict=True):
        found = _array(pc.fill_null(_on(condition, rows, wanted), False), len(rows))
        found = pc.and_(wanted, found)
        result = pc.if_else(found, _on(value, rows, found), result)
        wanted = pc.and_not(wanted, found)
    return pc.if_else(wanted, _on(expr.args[-1], rows, wanted), result)


def _coalesce(expr: Expr, rows: pa.RecordBatch) -> Value:
    result = compute(expr.args[0], rows)
    for arg in expr.args[1:]:
        result = pc.coalesce(result, _on(arg, rows, _array(pc.is_null(result), len(rows))))
    return result


def _substring(expr: Expr, rows: pa.RecordBatch) -> Value:
    start, stop = expr.value
    return pc.utf8_slice_codeunits(compute(expr.args[0], rows), start, stop)


def _concat(expr: Expr, rows: pa.RecordBatch) -> Value:
    return pc.binary_join_element_wise(*(compute(arg, rows) for arg in expr.args), "")


def _extreme(function: str) -> Callable[[Expr, pa.RecordBatch], Value]:
    """The greatest or least argument that is not null; Arrow compares timestamps only as numbers."""

    def call(expr: Expr, rows: pa.RecordBatch) -> Value:
        values = [compute(arg, rows) for arg in expr.args]
        if pa.types.is_timestamp(expr.type):
            values = [value.cast(pa.int64()) for value in values]
        return getattr(pc, function)(*values).cast(expr.type)

    return call


def _date_part(expr: Expr, rows: pa.RecordBatch) -> Value:
    value = _array(compute(expr.args[0], rows), len(rows))
    numbers = UNIX[expr.op](micros_of(value)) if expr.op in UNIX else PARTS[expr.op](value)
    return pa.array(numbers, mask=~_numpy(value.is_valid(), False)).cast(expr.type)


def _timestamp_micros(expr: Expr, rows: pa.RecordBatch) -> Value:
    return compute(expr.args[0], rows).cast(pa.int64()).cast(expr.type)


def _to_date(expr: Expr, rows: pa.RecordBatch) -> Value:
    value = _array(compute(expr.args[0], rows), len(rows))
    days = pa.array(days_of(value), mask=~_numpy(value.is_valid(), False))
    return days.cast(pa.int32()).cast(pa.date32())


def _date_trunc(expr: Expr, rows: pa.RecordBatch) -> Value:
    value = _array(compute(expr.args[0], rows), len(rows))
    floor = truncated(micros_of(value), expr.value)
    return pa.array(floor, mask=~_numpy(value.is_valid(), False)).cast(expr.type)


_OPERATIONS: dict[str, Callable[[Expr, pa.RecordBatch], Value]] = {
    "literal": _literal, "column": _column, "cast": _cast,
    "and": _and, "or": _or, "not": _plain("invert"), "is null": _plain("is_null"), "<=>": _same, "in": _in,
    **dict.fromkeys(_IEEE, _compare),
    "+": _pair("add_checked"), "-": _pair("subtract_checked"), "*": _pair("multiply_checked"),
    "/": lambda expr, rows: pc.divide_checked(*_divided(expr, rows)),
    "div": lambda expr, rows: pc.divide_checked(*_divided(expr, rows)), "%": _remainder,
    "neg": _plain("negate_checked"), "abs": _plain("abs_checked"), "sqrt": _plain("sqrt"),
    "floor": _whole, "ceil": _whole, "case": _case, "coalesce": _coalesce,
    "greatest": _extreme("max_element_wise"), "least": _extreme("min_element_wise"),
    "isnan": lambda expr, rows: pc.fill_null(pc.is_nan(compute(expr.args[0], rows)), False),
    "length": _plain("utf8_length"), "byte length": _plain("binary_length"), "concat": _concat, "substring": _substring,
    "trim": _plain("ascii_trim", characters=" "), "ltrim": _plain("ascii_ltrim", characters=" "),
    "rtrim": _plain("ascii_rtrim", characters=" "), "contains": _given("match_substring", "pattern"),
    "startswith": _given("starts_with", "pattern"), "endswith": _given("ends_with", "pattern"),
    **dict.fromkeys((*PARTS, *UNIX), _date_part), "to_date": _to_date, "timestamp_micros": _timestamp_micros, "date_trunc": _date_trunc,
}  # fmt: skip
