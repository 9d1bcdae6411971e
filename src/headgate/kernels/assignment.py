"""Assignments: to local variables, fields of state, and entries of mappings."""

from __future__ import annotations

import ast

from headgate.kernels import containers
from headgate.kernels.arithmetic import binary, convert
from headgate.kernels.body import FLOAT, INT, TEXT, Body, Value
from headgate.kernels.expressions import column_of, container, field_of, value
from headgate.kernels.fields import Map, Scalar, Text

TOO_LONG = "a text has more bytes than field {!r} may hold ({})"


def assign(body: Body, target: ast.expr, given: ast.expr) -> None:
    """`target = given`, or several at once."""
    if isinstance(target, ast.Tuple):
        if not isinstance(given, ast.Tuple) or len(given.elts) != len(target.elts):
            body.refuse(
                target, "the two sides differ in length", "write as many values as names: a, b = x, y"
            )
        values = [held(body, value(body, element)) for element in given.elts]
        for part, new in zip(target.elts, values, strict=True):
            store(body, part, new)
        return
    store(body, target, value(body, given))


def held(body: Body, new: Value) -> Value:
    """The value in a variable of its own, so that later assignments do not change it."""
    if new.literal is not None:
        return new
    if new.sort is TEXT:
        return body.text(*(body.temp(INT, part).code for part in new.parts))
    return body.temp(new.sort, new.code)


def store(body: Body, target: ast.expr, new: Value) -> None:
    """Assign a value to a local variable, a state field or an entry of a mapping."""
    if isinstance(target, ast.Name):
        local(body, target, new)
        return
    if isinstance(target, ast.Subscript):
        kept = container(body, target.value)
        if kept is not None and isinstance(kept[1], Map):
            containers.map_put(body, target, kept[0], kept[1], value(body, target.slice), new)
            return
        body.refuse(target, "only entries of a mapping can be assigned", "use append for a ring")
    name = field_of(body, target)
    if name is None:
        what = "the row cannot be changed" if column_of(body, target) else "this cannot be assigned"
        body.refuse(target, what, "assign to a local variable or to a field of state")
    kind = body.state[name]
    body.written.add(name)
    if isinstance(kind, Scalar):
        body.put(f"s_{name} = {convert(body, target, new, kind.sort, f'state.{name}').code}")
    elif isinstance(kind, Text):
        b, o, n = convert(body, target, new, TEXT, f"state.{name}").parts
        body.check(f"{n} > {kind.most}", target, TOO_LONG.format(name, kind.most))
        body.put(f"s_{name}_b, s_{name}_o, s_{name}_n, s_{name}_d = {b}, {o}, {n}, True")
    else:
        body.refuse(target, f"state.{name} is a {kind}", "change it with append, or entry by entry")


def local(body: Body, target: ast.Name, new: Value) -> None:
    """Assign a value to a local variable; its first value decides its sort."""
    name = target.id
    if name in body.source.parameters:
        body.refuse(target, f"{name} is a parameter", "use another name")
    known = body.locals.get(name)
    if known is None:
        known = FLOAT if name in body.floats and new.sort is INT else new.sort
        body.locals[name] = known
    if known is INT and new.sort is FLOAT and name not in body.floats:
        body.floats.add(name)  # in the next pass it is a float from its first assignment on
        new = Value(INT, "0")
    elif known is FLOAT and new.sort is INT and new.literal is None:
        body.refuse(target, f"{name} is a float elsewhere and an integer here", "write float(...) around it")
    new = convert(body, target, new, known, name)
    if new.sort is TEXT:
        b, o, n = new.parts
        body.put(f"u_{name}_b, u_{name}_o, u_{name}_n = {b}, {o}, {n}")
    else:
        body.put(f"u_{name} = {new.code}")
    if body.assigned is not None:
        body.assigned = body.assigned | {name}


def augmented(body: Body, node: ast.AugAssign) -> None:
    """`target += value` and the like."""
    target = node.target
    read: ast.expr
    if isinstance(target, ast.Name):
        read = ast.copy_location(ast.Name(target.id, ast.Load()), target)
    elif isinstance(target, ast.Attribute):
        read = ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    else:
        read = ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    old = value(body, read)
    store(body, target, binary(body, node, node.op, old, value(body, node.value)))


def delete(body: Body, node: ast.Delete) -> None:
    """`del mapping[key]`."""
    for target in node.targets:
        kept = container(body, target.value) if isinstance(target, ast.Subscript) else None
        if kept is None or not isinstance(kept[1], Map) or not isinstance(target, ast.Subscript):
            body.refuse(node, "only entries of a mapping can be deleted", "write del state.field[key]")
        containers.map_delete(body, node, kept[0], kept[1], value(body, target.slice))
