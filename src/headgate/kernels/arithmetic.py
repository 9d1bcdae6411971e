"""Operators between values: the sorts that they accept, their results, and the checks that Python makes.

Integers have 64 bits and every operation is checked for overflow. Division by zero is an error for floats
too. Between an integer and a float, the integer is converted to a float first, but comparisons are exact.
The difference of two instants is a span; spans can be added, and multiplied by integers.
"""

from __future__ import annotations

import ast

from headgate.kernels.body import BOOL, FLOAT, INSTANT, INT, SPAN, TEXT, Body, Value, number
from headgate.kernels.fields import Sort

SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
LARGEST_POWER = 16
EXACT = 2**53
"""Integers up to this are exact as floats."""
OVERFLOW, ZERO, DOMAIN = "integer overflow beyond 64 bits", "division by zero", "math domain error"


def as_int(value: Value) -> Value:
    """A boolean as 0 or 1; other values unchanged."""
    return Value(INT, f"(1 if {value.code} else 0)") if value.sort is BOOL else value


def as_float(body: Body, node: ast.AST, value: Value) -> Value:
    """A number as a float."""
    if value.sort is FLOAT:
        return value
    if value.sort in (INT, BOOL):
        if isinstance(value.literal, int):
            if value.at is not None:
                body.promoted.add(value.at)
            return Value(FLOAT, number(float(value.literal)), literal=float(value.literal))
        return Value(FLOAT, f"float({as_int(value).code})")
    body.refuse(node, f"a number is needed here, but this is a {value.sort}", "convert it first")


def convert(body: Body, node: ast.AST, value: Value, sort: Sort, what: str) -> Value:
    """A value converted to a declared sort."""
    if value.sort is sort:
        return value
    if sort is FLOAT and value.sort in (INT, BOOL):
        return as_float(body, node, value)
    if sort is INT and value.sort is BOOL:
        return as_int(value)
    remedy = "write int(...) or round(...)" if (sort, value.sort) == (INT, FLOAT) else "convert it"
    body.refuse(
        node, f"{what} is {sort}, but the value is {value.sort}", f"{remedy}, or declare it as {value.sort}"
    )


def truth(body: Body, node: ast.AST, value: Value) -> str:
    """The condition that a value is true."""
    if value.sort is BOOL:
        return value.code
    if value.sort in (INT, SPAN):
        return f"{value.code} != 0"
    if value.sort is FLOAT:
        return f"{value.code} != 0.0"
    if value.sort is TEXT:
        return f"{value.parts[2]} > 0"
    body.refuse(node, "a datetime is always true", "compare it with another")


def binary(body: Body, node: ast.AST, op: ast.operator, a: Value, b: Value) -> Value:
    """`a op b`."""
    symbol = SYMBOLS.get(type(op))
    if symbol is None:
        body.refuse(node, "this operator is not supported", "use + - * / // % ** & | ^ << >>")
    if a.sort is BOOL and b.sort is BOOL and symbol in "&|^":
        return body.temp(BOOL, f"{a.code} {symbol} {b.code}" if symbol != "^" else f"{a.code} != {b.code}")
    a, b = as_int(a), as_int(b)
    sorts = (a.sort, b.sort)
    if sorts == (INT, INT):
        return _whole(body, node, symbol, a, b)
    if set(sorts) <= {INT, FLOAT}:
        return _floating(body, node, symbol, a, b)
    moments: dict[tuple[Sort, str, Sort], Sort] = {
        (INSTANT, "-", INSTANT): SPAN,
        (INSTANT, "+", SPAN): INSTANT,
        (SPAN, "+", INSTANT): INSTANT,
        (INSTANT, "-", SPAN): INSTANT,
        (SPAN, "+", SPAN): SPAN,
        (SPAN, "-", SPAN): SPAN,
        (SPAN, "*", INT): SPAN,
        (INT, "*", SPAN): SPAN,
        (SPAN, "//", INT): SPAN,
        (SPAN, "//", SPAN): INT,
        (SPAN, "%", SPAN): SPAN,
    }
    sort = moments.get((a.sort, symbol, b.sort))
    if sort is not None:
        return Value(sort, _whole(body, node, symbol, a, b).code)
    if sorts == (SPAN, SPAN) and symbol == "/":
        return _whole(body, node, "/", a, b)
    remedy = "texts can be compared, stored and cut; build new ones before or after the stage"
    body.refuse(
        node,
        f"{a.sort} {symbol} {b.sort} is not supported",
        remedy if TEXT in sorts else "convert one of them",
    )


def _whole(body: Body, node: ast.AST, symbol: str, a: Value, b: Value) -> Value:
    x, y = a.code, b.code
    if symbol == "**":
        return _power(body, node, a, b)
    if symbol in "&|^":
        return body.temp(INT, f"{x} {symbol} {y}")
    if symbol in ("<<", ">>"):
        body.check(f"{y} < 0", node, "negative shift count")
        if symbol == ">>":
            return body.temp(INT, f"{x} >> min({y}, 63)")
        body.check(f"{x} != 0 and ({y} > 63 or (({x} << {y}) >> {y}) != {x})", node, OVERFLOW)
        return body.temp(INT, f"{x} << min({y}, 63)")
    if symbol == "+":
        result = body.temp(INT, f"wrapped_sum({x}, {y})")
        body.check(f"(({x} ^ {result.code}) & ({y} ^ {result.code})) < 0", node, OVERFLOW)
        return result
    if symbol == "-":
        result = body.temp(INT, f"wrapped_difference({x}, {y})")
        body.check(f"(({x} ^ {y}) & ({x} ^ {result.code})) < 0", node, OVERFLOW)
        return result
    if symbol == "*":
        result = body.temp(INT, f"wrapped_product({x}, {y})")
        body.check(f"mul_overflows({x}, {y}, {result.code})", node, OVERFLOW)
        return result
    if not b.literal:
        body.check(f"{y} == 0", node, ZERO)
    if symbol == "/":
        return body.temp(FLOAT, f"float({x}) / float({y})")
    if symbol == "%":
        return body.temp(INT, f"{x} % {y} if {y} != -1 else 0")  # the processor traps on -2**63 % -1
    if not b.literal or b.literal == -1:
        body.check(f"{y} == -1 and {x} == LEAST", node, OVERFLOW)
    return body.temp(INT, f"{x} // {y}")


def _power(body: Body, node: ast.AST, a: Value, b: Value) -> Value:
    """A literal integer power becomes multiplications, for floats too: the same bits on every machine."""
    if not isinstance(b.literal, int) or not 0 <= b.literal <= LARGEST_POWER:
        body.refuse(
            node,
            f"an integer can only be raised to a literal power from 0 to {LARGEST_POWER}",
            "write float(x) ** y",
        )
    result = Value(a.sort, "1" if a.sort is INT else "1.0")
    for _ in range(b.literal):
        result = a if result.code in ("1", "1.0") else binary(body, node, ast.Mult(), result, a)
    return result


def _floating(body: Body, node: ast.AST, symbol: str, a: Value, b: Value) -> Value:
    if symbol in ("&", "|", "^", "<<", ">>"):
        body.refuse(node, f"{symbol} is for integers", "write int(...)")
    if symbol == "**":
        if isinstance(b.literal, int) and 0 <= b.literal <= LARGEST_POWER:
            return _power(body, node, a, b)
        return power(body, node, as_float(body, node, a), as_float(body, node, b))
    x, y = as_float(body, node, a).code, as_float(body, node, b).code
    if symbol in ("/", "//", "%") and not b.literal:
        body.check(f"{y} == 0.0", node, ZERO)
    helpers = {"//": "float_floordiv", "%": "float_mod"}
    return body.temp(FLOAT, f"{helpers[symbol]}({x}, {y})" if symbol in helpers else f"{x} {symbol} {y}")


def power(body: Body, node: ast.AST, a: Value, b: Value) -> Value:
    """`a ** b` for floats, with Python's errors."""
    x, y = a.code, b.code
    body.check(f"{x} == 0.0 and {y} < 0.0", node, ZERO)
    body.check(f"{x} < 0.0 and np.isfinite({x}) and np.isfinite({y}) and {y} != np.floor({y})", node, DOMAIN)
    result = body.temp(FLOAT, f"math.pow({x}, {y})")
    finite = f"np.isfinite({x}) and np.isfinite({y})"
    body.check(f"np.isinf({result.code}) and {finite}", node, "float overflow")
    return result


def negated(body: Body, node: ast.AST, value: Value) -> Value:
    """`-value`."""
    if value.literal is not None and value.sort in (INT, FLOAT):
        return Value(value.sort, number(-value.literal), literal=-value.literal, at=value.at)
    value = as_int(value)
    if value.sort is FLOAT:
        return body.temp(FLOAT, f"-{value.code}")
    if value.sort in (INT, SPAN):
        body.check(f"{value.code} == LEAST", node, OVERFLOW)
        return body.temp(value.sort, f"-{value.code}")
    body.refuse(node, f"-{value.sort} is not supported", "convert it to a number")


def compared(body: Body, node: ast.AST, op: ast.cmpop, a: Value, b: Value) -> str:
    """The condition `a op b`."""
    symbol = SYMBOLS.get(type(op))
    if symbol is None:
        body.refuse(node, "`is` compares with None only", "use == or !=")
    if a.sort is TEXT and b.sort is TEXT:
        parts = ", ".join((*a.parts, *b.parts))
        if symbol in ("==", "!="):
            return f"{'not ' if symbol == '!=' else ''}same({parts})"
        return f"compare({parts}) {symbol} 0"
    if a.sort is BOOL and b.sort is BOOL and symbol in ("==", "!="):
        return f"{a.code} {symbol} {b.code}"
    a, b = as_int(a), as_int(b)
    if {a.sort, b.sort} == {INT, FLOAT}:
        whole = a if a.sort is INT else b
        if whole.literal is None or abs(whole.literal) > EXACT:
            mixed = f"order({a.code}, {b.code})" if whole is a else f"-order({b.code}, {a.code})"
            return {"<": f"{mixed} == -1", "<=": f"-1 <= {mixed} <= 0", ">": f"{mixed} == 1"}.get(
                symbol, f"0 <= {mixed} <= 1" if symbol == ">=" else f"{mixed} {symbol} 0"
            )
        a, b = as_float(body, node, a), as_float(body, node, b)
    if a.sort is not b.sort or a.sort is TEXT:
        body.refuse(node, f"{a.sort} cannot be compared with {b.sort}", "convert one of them")
    return f"{a.code} {symbol} {b.code}"


def joined(body: Body, node: ast.AST, a: Value, b: Value) -> tuple[Value, Value]:
    """Two values converted to one sort: for `x if c else y`, `min(x, y)` and the like."""
    if a.sort is b.sort:
        return a, b
    if {a.sort, b.sort} <= {INT, BOOL}:
        return as_int(a), as_int(b)
    if {a.sort, b.sort} <= {INT, BOOL, FLOAT}:
        whole = a if a.sort is not FLOAT else b
        if whole.literal is None:
            body.refuse(
                node,
                f"this is a {a.sort} in one case and a {b.sort} in the other",
                "write float(...) around the integer",
            )
        return as_float(body, node, a), as_float(body, node, b)
    body.refuse(node, f"this is a {a.sort} in one case and a {b.sort} in the other", "make both the same")
