"""Functions that a kernel may call: Python's built-in ones for numbers, and `math`, with Python's errors."""

from __future__ import annotations

import ast
import datetime as dt
import math
from collections.abc import Callable, Sequence
from typing import Any

from headgate.kernels.arithmetic import (
    DOMAIN,
    OVERFLOW,
    as_float,
    as_int,
    compared,
    joined,
    negated,
    power,
    truth,
)
from headgate.kernels.body import BOOL, FLOAT, INT, TEXT, Body, Value, number
from headgate.kernels.fields import SORTS, micros_of

Call = Callable[[Body, ast.Call, Sequence[Value]], Value]
TOO_LARGE = "float overflow"
_DOMAINS: dict[Any, tuple[str, str]] = {
    math.sqrt: ("{x} < 0.0", DOMAIN),
    math.log: ("{x} <= 0.0", DOMAIN),
    math.log2: ("{x} <= 0.0", DOMAIN),
    math.log10: ("{x} <= 0.0", DOMAIN),
    math.sin: ("np.isinf({x})", DOMAIN),
    math.cos: ("np.isinf({x})", DOMAIN),
    math.tan: ("np.isinf({x})", DOMAIN),
    math.asin: ("{x} < -1.0 or {x} > 1.0", DOMAIN),
    math.acos: ("{x} < -1.0 or {x} > 1.0", DOMAIN),
    math.atan: ("", ""),
    math.tanh: ("", ""),
    math.fabs: ("", ""),
    math.exp: ("", TOO_LARGE),
}
_TESTS = {math.isnan: "np.isnan", math.isinf: "np.isinf", math.isfinite: "np.isfinite"}
_ROUNDINGS = {math.floor: "np.floor", math.ceil: "np.ceil", math.trunc: "np.trunc"}


def _function(function: Any) -> Call:
    wrong, what = _DOMAINS[function]

    def call(body: Body, node: ast.Call, args: Sequence[Value]) -> Value:
        x = as_float(body, node, only_argument(body, node, args))
        if wrong:
            body.check(wrong.format(x=x.code), node, what)
        result = body.temp(FLOAT, f"math.{function.__name__}({x.code})")
        if what == TOO_LARGE:
            body.check(f"np.isinf({result.code}) and not np.isinf({x.code})", node, what)
        return result

    return call


def _test(name: str) -> Call:
    def call(body: Body, node: ast.Call, args: Sequence[Value]) -> Value:
        return body.temp(BOOL, f"{name}({as_float(body, node, only_argument(body, node, args)).code})")

    return call


def _rounding(name: str) -> Call:
    def call(body: Body, node: ast.Call, args: Sequence[Value]) -> Value:
        x = as_int(only_argument(body, node, args))
        if x.sort is INT:
            return x
        rounded = body.temp(FLOAT, f"{name}({as_float(body, node, x).code})")
        body.check(f"not whole({rounded.code})", node, OVERFLOW)
        return body.temp(INT, f"np.int64({rounded.code})")

    return call


def _float(body: Body, node: ast.Call, args: Sequence[Value]) -> Value:
    return as_float(body, node, only_argument(body, node, args))


def _bool(body: Body, node: ast.Call, args: Sequence[Value]) -> Value:
    return body.temp(BOOL, truth(body, node, only_argument(body, node, args)))


def _abs(body: Body, node: ast.Call, args: Sequence[Value]) -> Value:
    x = as_int(only_argument(body, node, args))
    if x.sort is FLOAT:
        return body.temp(FLOAT, f"abs({x.code})")
    result = body.temp(x.sort, x.code)
    with body.block(f"if {x.code} < 0:"):
        body.put(f"{result.code} = {negated(body, node, x).code}")
    return result


def _extreme(op: ast.cmpop) -> Call:
    """As in Python, the first argument wins if two are equal or cannot be ordered (NaN)."""

    def call(body: Body, node: ast.Call, args: Sequence[Value]) -> Value:
        if len(args) < 2:
            body.refuse(node, "min and max take two or more numbers, or a ring", "add an argument")
        best = args[0]
        for other in args[1:]:
            first, second = joined(body, node, best, other)
            if first.sort is TEXT:
                body.refuse(node, "min and max of texts are not supported", "compare them with <")
            best = body.temp(first.sort, first.code)
            with body.block(f"if {compared(body, node, op, second, first)}:"):
                body.put(f"{best.code} = {second.code}")
        return best

    return call


def _atan2(body: Body, node: ast.Call, args: Sequence[Value]) -> Value:
    y, x = (as_float(body, node, v).code for v in two_arguments(body, node, args))
    return body.temp(FLOAT, f"math.atan2({y}, {x})")


def _pow(body: Body, node: ast.Call, args: Sequence[Value]) -> Value:
    a, b = (as_float(body, node, v) for v in two_arguments(body, node, args))
    return power(body, node, a, b)


FUNCTIONS: dict[Any, Call] = {
    **{function: _function(function) for function in _DOMAINS},
    **{function: _test(name) for function, name in _TESTS.items()},
    **{function: _rounding(name) for function, name in _ROUNDINGS.items()},
    int: _rounding("np.trunc"),
    round: _rounding("np.rint"),
    float: _float,
    bool: _bool,
    abs: _abs,
    min: _extreme(ast.Lt()),
    max: _extreme(ast.Gt()),
    math.atan2: _atan2,
    math.pow: _pow,
}


def only_argument(body: Body, node: ast.Call, args: Sequence[Value]) -> Value:
    """The only argument of a call."""
    if len(args) != 1 or node.keywords:
        body.refuse(node, "this function takes one argument", "pass one")
    return args[0]


def two_arguments(body: Body, node: ast.Call, args: Sequence[Value]) -> tuple[Value, Value]:
    """The two arguments of a call."""
    if len(args) != 2 or node.keywords:
        body.refuse(node, "this function takes two arguments", "pass two")
    return args[0], args[1]


def moment(body: Body, node: ast.Call, kind: type[dt.datetime] | type[dt.timedelta]) -> Value:
    """`timedelta(...)` or `datetime(...)` with literal arguments."""
    try:
        given = [ast.literal_eval(a) for a in node.args]
        named = {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
        micros = micros_of(kind(*given, **named))
    except (ValueError, TypeError, OverflowError):
        body.refuse(
            node,
            f"{kind.__name__} takes literal numbers only",
            "write timedelta(minutes=5) or datetime(2024, 1, 1)",
        )
    return Value(SORTS[kind], number(micros), literal=micros)


def names() -> str:
    """The functions that can be called, as a text."""
    of_math = sorted(f.__name__ for f in FUNCTIONS if f.__module__ == "math")
    return (
        "abs, bool, datetime, float, int, len, max, min, range, round, sum, timedelta, and math's "
        + ", ".join(of_math)
    )
