"""Statements of the subset, and what a row's code does at its end."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from headgate.operators.user_kernel import containers
from headgate.operators.user_kernel.arithmetic import binary, convert
from headgate.operators.user_kernel.body import SHORT_OF_OUTPUT, Body, Value
from headgate.operators.user_kernel.expressions import (
    column_of,
    condition,
    container,
    field_of,
    value,
)
from headgate.operators.user_kernel.face import emit
from headgate.operators.user_kernel.fields import Map, Ring, Scalar, Sort, Text

INT, FLOAT, BOOL, INSTANT, TEXT = Sort.INT, Sort.FLOAT, Sort.BOOL, Sort.INSTANT, Sort.TEXT
FINISH = "# finish"
NO_END = "it takes more than {} steps"
ZEROS = {FLOAT: "0.0", BOOL: "False"}
RAISES = "it raises"
TOO_SOON = "a timer wakes at its own time or before"
TOO_LONG = "a text has more bytes than field {!r} may hold ({})"


def block(body: Body, nodes: Sequence[ast.stmt]) -> None:
    """Statements in order; what follows a return cannot be reached."""
    for node in nodes:
        if body.assigned is None:
            return
        statement(body, node)


def statement(body: Body, node: ast.stmt) -> None:
    """One statement."""
    if isinstance(node, ast.Expr):
        _expression(body, node.value)
    elif isinstance(node, ast.Assign):
        for target in node.targets[1:]:
            body.refuse(target, "two targets of one assignment", "assign in lines of their own")
        _assign(body, node.targets[0], node.value)
    elif isinstance(node, ast.AnnAssign):
        if node.value is None:
            body.refuse(node, "a name without a value", "give it one")
        _assign(body, node.target, node.value)
    elif isinstance(node, ast.AugAssign):
        _augmented(body, node)
    elif isinstance(node, ast.If):
        _if(body, node)
    elif isinstance(node, ast.While):
        _while(body, node)
    elif isinstance(node, ast.For):
        _for(body, node)
    elif isinstance(node, ast.Return):
        _return(body, node)
    elif isinstance(node, ast.Delete):
        _delete(body, node)
    elif isinstance(node, ast.Raise | ast.Assert):
        _raise(body, node)
    elif isinstance(node, ast.Break | ast.Continue):
        body.put("break" if isinstance(node, ast.Break) else "continue")
        body.assigned = None
    elif not isinstance(node, ast.Pass):
        body.refuse(
            node,
            f"`{ast.unparse(node).splitlines()[0]}` cannot be compiled",
            "use assignments, if, for, while, return and emit, or pass compiled=False",
        )


# -- assignment


def _assign(body: Body, target: ast.expr, given: ast.expr) -> None:
    if isinstance(target, ast.Tuple):
        if not isinstance(given, ast.Tuple) or len(given.elts) != len(target.elts):
            body.refuse(target, "the sides do not match", "write as many values as names: a, b = x, y")
        held = [_held(body, value(body, one)) for one in given.elts]
        for one, new in zip(target.elts, held, strict=True):
            store(body, one, new)
        return
    store(body, target, value(body, given))


def _held(body: Body, new: Value) -> Value:
    """A value that later assignments do not change."""
    if new.literal is not None:
        return new
    if new.sort is TEXT:
        return body.text(*(body.temp(INT, part).code for part in new.parts))
    return body.temp(new.sort, new.code)


def store(body: Body, target: ast.expr, new: Value) -> None:
    """Give a value to a local, a state field or an entry of a map."""
    if isinstance(target, ast.Name):
        _local(body, target, new)
        return
    if isinstance(target, ast.Subscript):
        kept = container(body, target.value)
        if kept is not None and isinstance(kept[1], Map):
            containers.map_put(body, target, kept[0], kept[1], value(body, target.slice), new)
            return
        body.refuse(target, "only a map's entries are assigned", "a ring has append")
    name = field_of(body, target)
    if name is None:
        what = "the row cannot be changed" if column_of(body, target) else "this is not assigned"
        body.refuse(target, what, "assign to a local or to a field of state")
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


def _local(body: Body, target: ast.Name, new: Value) -> None:
    name = target.id
    if name in body.source.parameters:
        body.refuse(target, f"{name} is a parameter", "use another name")
    known = body.locals.get(name)
    if known is None:
        known = FLOAT if name in body.floats and new.sort is INT else new.sort
        body.locals[name] = known
    if known is INT and new.sort is FLOAT and name not in body.floats:
        body.floats.add(name)  # the next pass takes it as a float from its first assignment on
        new = Value(INT, "0")
    elif known is FLOAT and new.sort is INT and new.literal is None:
        body.refuse(
            target, f"{name} is a float elsewhere and a whole number here", "write float(...) around it"
        )
    new = convert(body, target, new, known, name)
    if new.sort is TEXT:
        b, o, n = new.parts
        body.put(f"u_{name}_b, u_{name}_o, u_{name}_n = {b}, {o}, {n}")
    else:
        body.put(f"u_{name} = {new.code}")
    if body.assigned is not None:
        body.assigned = body.assigned | {name}


def _augmented(body: Body, node: ast.AugAssign) -> None:
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


def _delete(body: Body, node: ast.Delete) -> None:
    for target in node.targets:
        kept = container(body, target.value) if isinstance(target, ast.Subscript) else None
        if kept is None or not isinstance(kept[1], Map) or not isinstance(target, ast.Subscript):
            body.refuse(node, "only a map's entries are deleted", "write del state.map[key]")
        containers.map_delete(body, node, kept[0], kept[1], value(body, target.slice))


# -- control


def _if(body: Body, node: ast.If) -> None:
    test = condition(body, node.test)
    before = body.assigned
    with body.block(f"if {test}:"):
        block(body, node.body)
    after, body.assigned = body.assigned, before
    if node.orelse:
        with body.block("else:"):
            block(body, node.orelse)
    body.assigned = _both(after, body.assigned)


def _both(a: set[str] | None, b: set[str] | None) -> set[str] | None:
    return b if a is None else (a if b is None else a & b)


def _step(body: Body, node: ast.stmt) -> None:
    body.put("steps += 1")
    body.check(f"steps > {body.max_steps}", node, NO_END.format(body.max_steps))


def _while(body: Body, node: ast.While) -> None:
    if node.orelse:
        body.refuse(node, "else of a loop cannot be compiled", "use a name for what happened")
    before = body.assigned
    with body.block("while True:"):
        _step(body, node)
        test = condition(body, node.test)
        body.put(f"if not ({test}):")
        body.put("    break")
        block(body, node.body)
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    leaves = any(isinstance(n, ast.Break) for n in ast.walk(node))
    body.assigned = None if endless and not leaves else before
    if body.assigned is None:
        body.put("return 0")  # not reached; a function's last line is a return


def _for(body: Body, node: ast.For) -> None:
    if node.orelse:
        body.refuse(node, "else of a loop cannot be compiled", "use a name for what happened")
    if not isinstance(node.target, ast.Name):
        body.refuse(node, "a loop has one name", "write for x in ...")
    before = body.assigned
    kept = container(body, node.iter)
    if kept is not None:
        changed = [n for n in ast.walk(node) if _changes(body, n, kept[0])]
        if changed:
            body.refuse(
                changed[0], f"state.{kept[0]} is changed while it is walked", "change it after the loop"
            )
        _walk(body, node, node.target, *kept)
    else:
        _range(body, node, node.target)
    body.assigned = before


def _changes(body: Body, node: ast.AST, name: str) -> bool:
    def mine(part: ast.expr) -> bool:
        return isinstance(part, ast.Attribute) and part.attr == name and field_of(body, part) == name

    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("append", "clear") and mine(node.func.value)
    return isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and mine(node.value)


def _walk(body: Body, node: ast.For, target: ast.Name, name: str, kind: Ring | Map) -> None:
    at = body.fresh()
    if isinstance(kind, Ring):
        heap, first, end = containers.ring_bounds(body, name, kind)
        item, bounds = Value(kind.sort, f"{heap}[{at}]"), f"{first}, {end}"
    else:
        item, bounds = Value(kind.key, f"m_{name}_w[m_{name}_o + 2 * {at}]"), f"m_{name}_n"
    with body.block(f"for {at} in range({bounds}):"):
        _step(body, node)
        _local(body, target, item)
        block(body, node.body)


def _range(body: Body, node: ast.For, target: ast.Name) -> None:
    call = node.iter
    if (
        not (isinstance(call, ast.Call) and body.source.value_of(call.func) is range)
        or not 0 < len(call.args) < 4
    ):
        body.refuse(node, "a loop goes over range(...), a ring or a map", "write for i in range(n)")
    bounds = [_held(body, convert(body, a, value(body, a), INT, "a bound")).code for a in call.args]
    start, stop, step = ("0", bounds[0], "1") if len(bounds) == 1 else (*bounds[:2], *bounds[2:], "1")[:3]
    if len(bounds) == 3:
        body.check(f"{step} == 0", node, "range() has a step of zero")
    at = body.fresh()
    with body.block(f"for {at} in range(turns({start}, {stop}, {step})):"):
        _step(body, node)
        _local(body, target, Value(INT, f"{start} + {at} * {step}"))
        block(body, node.body)


def _raise(body: Body, node: ast.Raise | ast.Assert) -> None:
    said = RAISES
    given = node.exc if isinstance(node, ast.Raise) else node.msg
    if isinstance(given, ast.Call) and given.args:
        given = given.args[0]
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        said = given.value
    if isinstance(node, ast.Assert):
        body.check(f"not ({condition(body, node.test)})", node, said)
        return
    body.put(f"return {body.site(node, said)}")
    body.assigned = None


# -- what a kernel does beside computing


def _expression(body: Body, node: ast.expr) -> None:
    """A call for its effect, or a docstring."""
    if isinstance(node, ast.Constant):
        return
    if isinstance(node, ast.Yield):
        if node.value is None:
            body.refuse(node, "yield gives no row", "yield a value for each output column")
        _rows(body, node, node.value)
        return
    if isinstance(node, ast.Call):
        if body.source.value_of(node.func) is emit:
            _emit(body, node, node.args, {k.arg: k.value for k in node.keywords})
            return
        if isinstance(node.func, ast.Attribute) and _effect(body, node, node.func):
            return
    body.refuse(
        node,
        f"{ast.unparse(node)} does nothing here",
        "assign its value, or call emit, append or state.forget",
    )


def _effect(body: Body, node: ast.Call, func: ast.Attribute) -> bool:
    kept = container(body, func.value) if not isinstance(func.value, ast.Name) else None
    if kept is not None:
        name, kind = kept
        if isinstance(kind, Ring) and func.attr == "append" and len(node.args) == 1:
            containers.ring_append(body, node, name, kind, value(body, node.args[0]))
            return True
        if isinstance(kind, Map) and func.attr == "clear" and not node.args:
            containers.map_clear(body, name)
            return True
        return False
    if not (isinstance(func.value, ast.Name) and func.value.id == body.source.parameters[0]):
        return False
    if func.attr == "forget" and not node.args:
        body.forgets = True
        body.put("gone = True")
        return True
    if func.attr == "wake_at" and len(node.args) == 1:
        if not body.wakes:
            body.refuse(
                node,
                "this kernel has no event time or no on_timer",
                "write hg.kernel(time='ts', ...) and a function for timers",
            )
        when = convert(body, node, value(body, node.args[0]), INSTANT, "the time to wake")
        if body.timed:
            body.check(f"{when.code} <= now", node, TOO_SOON)
        body.put(f"wake = {when.code} if {when.code} != 0 else 1")  # 0 is a row that is new
        return True
    return False


def _return(body: Body, node: ast.Return) -> None:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        if any(isinstance(n, ast.Yield) for n in ast.walk(body.source.tree)):
            body.refuse(node, "a kernel that yields returns nothing", "yield this row too")
        _rows(body, node, node.value)
    finish(body)
    body.assigned = None


def _rows(body: Body, node: ast.AST, given: ast.expr) -> None:
    """What is returned or yielded: a row, a list of rows, or None on one side of an `if`."""
    if isinstance(given, ast.IfExp):
        test = condition(body, given.test)
        for head, branch in ((f"if {test}:", given.body), ("else:", given.orelse)):
            with body.block(head):
                if not (isinstance(branch, ast.Constant) and branch.value is None):
                    _rows(body, node, branch)
    elif isinstance(given, ast.List):
        for one in given.elts:
            _rows(body, node, one)
    elif isinstance(given, ast.Dict):
        names = [str(k.value) if isinstance(k, ast.Constant) else None for k in given.keys]
        _emit(body, node, (), dict(zip(names, given.values, strict=True)))
    else:
        _emit(body, node, given.elts if isinstance(given, ast.Tuple) else (given,), {})


def _emit(body: Body, node: ast.AST, given: Sequence[ast.expr], named: dict[str | None, ast.expr]) -> None:
    """One row: values in order, or by name; None is a null."""
    wanted = list(body.output)
    known = dict(zip(wanted, given, strict=False)) | {str(k): v for k, v in named.items()}
    if len(given) > len(wanted) or set(known) != set(wanted) or (given and named):
        got = ", ".join(map(str, named)) if named else f"{len(given)} values"
        body.refuse(
            node,
            f"a row has {', '.join(wanted) or 'no columns'}, and here are {got}",
            "emit a value for each column",
        )
    values = {name: _nullable(body, known[name], name) for name in wanted}
    body.put("if out == len(O_row):")
    body.put(f"    return {SHORT_OF_OUTPUT}")
    for at, (name, (held, null)) in enumerate(values.items()):
        sort = body.output[name]
        if sort is TEXT:
            b, o, n = held.parts
            body.put(f"if tail{at} + {n} > len(B_{at}):")
            body.put(f"    return {SHORT_OF_OUTPUT}")
            body.put(f"copy({b}, {o}, {n}, B_{at}, tail{at})")
            body.put(f"tail{at} += {n}")
            body.put(f"O_{at}[out + 1] = tail{at}")
        else:
            body.put(f"O_{at}[out] = {held.code}")
        body.put(f"N_{at}[out] = {null}")
    body.put("O_row[out] = r")
    body.put("out += 1")


def _nullable(body: Body, node: ast.expr, name: str) -> tuple[Value, str]:
    """(value, 1 or 0 for null) of an output column."""
    sort = body.output[name]
    nothing = body.literal("") if sort is TEXT else Value(sort, ZEROS.get(sort, "0"))
    if isinstance(node, ast.Constant) and node.value is None:
        return nothing, "0"
    if isinstance(node, ast.IfExp) and any(
        isinstance(x, ast.Constant) and x.value is None for x in (node.body, node.orelse)
    ):
        test = condition(body, node.test)
        valid = body.fresh()
        names = [body.fresh() for _ in range(3 if sort is TEXT else 1)]
        for head, branch in ((f"if {test}:", node.body), ("else:", node.orelse)):
            with body.block(head):
                held, there = _nullable(body, branch, name)
                body.put(f"{valid} = {there}")
                for one, code in zip(names, held.parts if sort is TEXT else (held.code,), strict=True):
                    body.put(f"{one} = {code}")
        return (body.text(*names) if len(names) == 3 else Value(sort, names[0])), valid
    return convert(body, node, value(body, node), sort, f"output column {name!r}"), "1"


def finish(body: Body) -> None:
    """A place for the lines that write the row's changes; they are known when all of the function is."""
    body.put(FINISH)
