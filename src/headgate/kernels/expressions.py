"""Lowering of expressions. The order of evaluation is Python's; `and`, `or` and `if` short-circuit."""

from __future__ import annotations

import ast
import datetime as dt
from typing import Any

from headgate.kernels import containers
from headgate.kernels.arithmetic import (
    as_int,
    binary,
    compared,
    convert,
    joined,
    negated,
    truth,
)
from headgate.kernels.body import BOOL, FLOAT, INSTANT, INT, SPAN, TEXT, Body, Value, number
from headgate.kernels.calls import FUNCTIONS, moment, names
from headgate.kernels.fields import Field, Map, Ring, Scalar, Text, micros_of, unread_column
from headgate.kernels.function_source import MISSING, is_constant


def value(body: Body, node: ast.expr) -> Value:
    """The value of an expression."""
    if isinstance(node, ast.Constant):
        return constant(body, node, node.value)
    if isinstance(node, ast.Name):
        return _name(body, node)
    if isinstance(node, ast.Attribute | ast.Subscript):
        return _member(body, node)
    if isinstance(node, ast.BinOp):
        return binary(body, node, node.op, value(body, node.left), value(body, node.right))
    if isinstance(node, ast.UnaryOp):
        return _unary(body, node)
    if isinstance(node, ast.Compare):
        return _comparison(body, node)
    if isinstance(node, ast.BoolOp):
        return _either(body, node)
    if isinstance(node, ast.IfExp):
        return _choice(body, node)
    if isinstance(node, ast.Call):
        return _call(body, node)
    remedies: dict[type[ast.expr], str] = {
        ast.JoinedStr: "texts can be compared, stored and cut; build new ones before or after the stage",
        ast.ListComp: "write a for loop",
        ast.GeneratorExp: "write a for loop",
        ast.DictComp: "write a for loop",
        ast.SetComp: "write a for loop",
        ast.List: "keep values in a state field, as in hg.kernels.ring(float, 100)",
        ast.Dict: "keep values in a state field, as in hg.kernels.mapping(int, float, 8)",
        ast.Tuple: "use a name for each value",
        ast.NamedExpr: "assign on a separate line",
        ast.Lambda: "write its expression where it is used",
    }
    remedy = remedies.get(type(node), "write it with numbers, texts and state, or pass compiled=False")
    body.refuse(node, f"{ast.unparse(node)} cannot be compiled", remedy)


def condition(body: Body, node: ast.expr) -> str:
    """The condition that an expression is true, whatever its sort."""
    if isinstance(node, ast.BoolOp):
        result = body.fresh()
        body.put(f"{result} = {condition(body, node.values[0])}")
        for other in node.values[1:]:
            with body.block(f"if {result}:" if isinstance(node.op, ast.And) else f"if not {result}:"):
                body.put(f"{result} = {condition(body, other)}")
        return result
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"not ({condition(body, node.operand)})"
    kept = container(body, node)
    if kept is not None:
        return f"{length_of(body, node, kept).code} > 0"
    return truth(body, node, value(body, node))


def constant(body: Body, node: ast.expr, held: Any) -> Value:
    """A literal, or the value of a name outside the function."""
    if isinstance(held, bool):
        return Value(BOOL, str(held), literal=held)
    if isinstance(held, int):
        if not -(2**63) <= held < 2**63:
            body.refuse(node, f"{held} does not fit 64 bits", "write it as a float")
        at = (node.lineno, node.col_offset) if isinstance(node, ast.Constant) else None
        return Value(INT, number(held), literal=held, at=at)
    if isinstance(held, float):
        return Value(FLOAT, number(held), literal=held)
    if isinstance(held, str):
        return body.literal(held)
    if isinstance(held, dt.timedelta | dt.datetime):
        micros = micros_of(held)
        sort = SPAN if isinstance(held, dt.timedelta) else INSTANT
        return Value(sort, number(micros), literal=micros)
    if held is None:
        body.refuse(
            node,
            "None cannot be used as a value",
            "test a column with `row.x is None`; None can only be emitted, as a null",
        )
    body.refuse(
        node,
        f"a {type(held).__name__} cannot be used as a value",
        "use numbers, texts and booleans, or pass compiled=False",
    )


def _name(body: Body, node: ast.Name) -> Value:
    if node.id in body.names:
        if body.assigned is not None and node.id not in body.assigned:
            body.refuse(node, f"{node.id} may be unassigned here", "assign it before the if or the loop")
        sort = body.locals[node.id]
        if sort is TEXT:
            return body.text(f"u_{node.id}_b", f"u_{node.id}_o", f"u_{node.id}_n")
        return Value(sort, f"u_{node.id}")
    if node.id in body.source.parameters:
        if body.timed and node.id == body.source.parameters[1]:
            return Value(INSTANT, "now")
        body.refuse(node, f"{node.id} is not a value", f"name one of its fields, as in {node.id}.x")
    held = body.source.value_of(node)
    if held is MISSING:
        body.refuse(node, f"{node.id} is not defined", "import it, or define it above the kernel")
    if not is_constant(held):
        body.refuse(
            node,
            f"{node.id} is a {type(held).__name__}",
            "a kernel can use numbers, texts and booleans from outside; keep what changes in state",
        )
    return constant(body, node, held)


def field_of(body: Body, node: ast.expr) -> str | None:
    """The name of the state field if the expression is `state.x`; otherwise None."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return None
    if node.value.id != body.source.parameters[0]:
        return None
    if node.attr not in body.state:
        body.refuse(node, f"state has no field {node.attr!r}", f"it has {', '.join(body.state)}")
    return node.attr


def container(body: Body, node: ast.expr) -> tuple[str, Ring | Map] | None:
    """The ring or mapping that an expression names."""
    name = field_of(body, node)
    held: Field | None = body.state[name] if name is not None else None
    return (name, held) if name is not None and isinstance(held, Ring | Map) else None


def column_of(body: Body, node: ast.expr) -> str | None:
    """The column if the expression is `row.x` or `row["x"]`; otherwise None."""
    if not isinstance(node, ast.Attribute | ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    if body.timed or node.value.id != body.source.parameters[1]:
        return None
    if isinstance(node, ast.Subscript):
        if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, str):
            body.refuse(node, "the name of a column must be a literal", f'write {node.value.id}["column"]')
        name = node.slice.value
    else:
        name = node.attr
    if name in body.unread:
        body.refuse(node, *unread_column(name, body.unread[name]))
    if name not in body.row:
        there = ", ".join([*body.row, *body.unread])
        body.refuse(node, f"the stream has no column {name!r}", f"it has {there}")
    body.reads.add(name)
    return name


def row_code(body: Body, name: str) -> str:
    """The name of a column in generated code, where names from the stream would not be safe."""
    return f"c{list(body.row).index(name)}"


def _member(body: Body, node: ast.Attribute | ast.Subscript) -> Value:
    column = column_of(body, node)
    if column is not None:
        code, sort = row_code(body, column), body.row[column]
        body.check(f"{code}_null", node, f"column {column!r} is null")
        return body.text(f"R_{code}", f"{code}_o", f"{code}_n") if sort is TEXT else Value(sort, code)
    if isinstance(node, ast.Subscript):
        return _item(body, node)
    name = field_of(body, node)
    if name is not None:
        kind = body.state[name]
        if isinstance(kind, Text):
            return body.text(f"s_{name}_b", f"s_{name}_o", f"s_{name}_n")
        if isinstance(kind, Scalar):
            return Value(kind.sort, f"s_{name}")
        body.refuse(
            node,
            f"state.{name} is a {kind}",
            f"use an entry or its length, as in state.{name}[0] or len(state.{name})",
        )
    held = body.source.value_of(node)
    if held is not MISSING and is_constant(held):
        return constant(body, node, held)
    body.refuse(node, f"{ast.unparse(node)} cannot be compiled", "use fields of state and columns of the row")


def _item(body: Body, node: ast.Subscript) -> Value:
    kept = container(body, node.value)
    if kept is not None:
        if isinstance(node.slice, ast.Slice):
            body.refuse(node, "a ring or a mapping cannot be sliced", "write a for loop")
        name, kind = kept
        key = value(body, node.slice)
        if isinstance(kind, Ring):
            return containers.ring_item(body, node, name, kind, key)
        return containers.map_item(body, node, name, kind, key)
    held = value(body, node.value)
    cut = node.slice
    if held.sort is TEXT and isinstance(cut, ast.Slice) and cut.upper and not (cut.lower or cut.step):
        return containers.text_prefix(body, node, held, value(body, cut.upper))
    body.refuse(
        node,
        f"{ast.unparse(node)} cannot be compiled",
        "the only slice of a text is a prefix, as in text[:8]",
    )


def _unary(body: Body, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        return body.temp(BOOL, condition(body, node))
    held = value(body, node.operand)
    if isinstance(node.op, ast.USub):
        return negated(body, node, held)
    held = as_int(held)
    if isinstance(node.op, ast.UAdd) and held.sort in (INT, FLOAT, SPAN):
        return held
    if isinstance(node.op, ast.Invert) and held.sort is INT:
        return body.temp(INT, f"~{held.code}")
    body.refuse(node, f"{ast.unparse(node)} cannot be compiled", "convert it to a number")


def _comparison(body: Body, node: ast.Compare) -> Value:
    result = body.fresh()
    depth = body.depth
    left = node.left
    before: Value | None = None
    for at, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
        if at:
            body.put(f"if {result}:")
            body.depth += 1
        if isinstance(op, ast.Is | ast.IsNot):
            code = _null(body, node, left, op, right)
        elif isinstance(op, ast.In | ast.NotIn):
            code = _membership(body, node, before or value(body, left), op, right)
            before = None
        else:
            first = before or value(body, left)
            before = value(body, right)
            code = compared(body, node, op, first, before)
        body.put(f"{result} = {code}")
        left = right
    body.depth = depth
    return Value(BOOL, result)


def _null(body: Body, node: ast.Compare, left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
    column = column_of(body, left)
    if not (isinstance(right, ast.Constant) and right.value is None) or column is None:
        body.refuse(
            node,
            "only a column of the row can be None",
            "write `row.x is None`, before the column is assigned to a local variable",
        )
    return f"{'not ' if isinstance(op, ast.IsNot) else ''}{row_code(body, column)}_null"


def _membership(body: Body, node: ast.Compare, held: Value, op: ast.cmpop, right: ast.expr) -> str:
    kept = container(body, right)
    if kept is not None and isinstance(kept[1], Map):
        result = containers.map_has(body, node, kept[0], kept[1], held)
    elif isinstance(right, ast.Tuple | ast.List | ast.Set):
        if not right.elts:
            body.refuse(node, "an empty list contains nothing", "list the values")
        tests = [compared(body, node, ast.Eq(), held, value(body, element)) for element in right.elts]
        result = " or ".join(f"({test})" for test in tests)
    else:
        other = value(body, right)
        if held.sort is not TEXT or other.sort is not TEXT:
            body.refuse(node, "`in` works on a mapping, a text, or a list of values", 'write x in ("a", "b")')
        result = f"contains({', '.join((*other.parts, *held.parts))})"
    return f"not ({result})" if isinstance(op, ast.NotIn) else result


def _either(body: Body, node: ast.BoolOp) -> Value:
    """The value of `a and b` or `a or b` is one of its operands, so all of them must be of one sort."""
    with body.trial():
        held = value(body, node.values[0])
    if held.sort is BOOL:
        return body.temp(BOOL, condition(body, node))
    held = value(body, node.values[0])
    if held.sort is TEXT:
        body.refuse(
            node, "`and` and `or` between texts are not supported", "write x if c else y, or compare each"
        )
    result = body.temp(held.sort, held.code)
    for other in node.values[1:]:
        is_true = truth(body, node, result)
        with body.block(f"if {is_true}:" if isinstance(node.op, ast.And) else f"if not ({is_true}):"):
            body.put(f"{result.code} = {convert(body, node, value(body, other), held.sort, 'this').code}")
    return result


def _choice(body: Body, node: ast.IfExp) -> Value:
    """Both branches are lowered once to learn their sorts, and then again with one common sort."""
    test = condition(body, node.test)
    with body.trial():
        sort = joined(body, node, value(body, node.body), value(body, node.orelse))[0].sort
    names = (body.fresh(), body.fresh(), body.fresh()) if sort is TEXT else (body.fresh(),)
    for head, branch in ((f"if {test}:", node.body), ("else:", node.orelse)):
        with body.block(head):
            held = convert(body, branch, value(body, branch), sort, "this")
            for name, code in zip(names, held.parts if sort is TEXT else (held.code,), strict=True):
                body.put(f"{name} = {code}")
    return body.text(*names) if len(names) == 3 else Value(sort, names[0])


def length_of(body: Body, node: ast.expr, kept: tuple[str, Ring | Map]) -> Value:
    """`len` of a ring or mapping."""
    name, kind = kept
    return containers.ring_length(name) if isinstance(kind, Ring) else containers.map_length(name)


def _call(body: Body, node: ast.Call) -> Value:
    if isinstance(node.func, ast.Attribute):
        result = _method(body, node, node.func)
        if result is not None:
            return result
    function = body.source.value_of(node.func)
    if function is dt.timedelta or function is dt.datetime:
        return moment(body, node, function)
    kept = container(body, node.args[0]) if len(node.args) == 1 else None
    if function is len and len(node.args) == 1:
        if kept is not None:
            return length_of(body, node, kept)
        held = value(body, node.args[0])
        if held.sort is TEXT:
            return containers.text_length(body, held)
        body.refuse(node, f"a {held.sort} has no length", "len takes a text, a ring or a mapping")
    if kept is not None and function in (sum, min, max) and isinstance(kept[1], Ring):
        of_ring = containers.ring_statistic(body, node, kept[0], kept[1], function.__name__)
        assert of_ring is not None
        return of_ring
    known = FUNCTIONS.get(function) if function is not MISSING and _hashable(function) else None
    if known is None or node.keywords:
        what = "is not defined" if function is MISSING else "cannot be called in a compiled kernel"
        body.refuse(node, f"{ast.unparse(node.func)} {what}", f"a kernel may call {names()}")
    return known(body, node, [value(body, a) for a in node.args])


def _hashable(function: Any) -> bool:
    return getattr(type(function), "__hash__", None) is not None


def _method(body: Body, node: ast.Call, func: ast.Attribute) -> Value | None:
    """`state.ring.mean()`, `state.entries.get(k, 0)`, `row.text.startswith("a")`, `span.total_seconds()`."""
    kept = container(body, func.value)
    if kept is not None:
        name, kind = kept
        if isinstance(kind, Ring):
            result = (
                containers.ring_statistic(body, node, name, kind, func.attr)
                if not (node.args or node.keywords)
                else None
            )
        else:
            args = [value(body, a) for a in node.args]
            result = containers.map_get(body, node, name, kind, args) if func.attr == "get" else None
        if result is None:
            body.refuse(
                node,
                f"{ast.unparse(node)} has no value",
                "a ring has append, sum, mean, min, max and std; a mapping has get and clear",
            )
        return result
    if func.attr == "total_seconds":
        span = value(body, func.value)
        if span.sort is SPAN and not node.args:
            return body.temp(FLOAT, f"float({span.code}) / 1e6")
    if func.attr in ("startswith", "endswith"):
        return containers.text_method(
            body, node, value(body, func.value), func.attr, [value(body, a) for a in node.args]
        )
    return None
