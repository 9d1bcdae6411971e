"""Lowering of statements, and what a row's code does at its end."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from headgate.kernels import containers
from headgate.kernels.arithmetic import convert
from headgate.kernels.assignment import assign, augmented, delete, held, local
from headgate.kernels.body import INSTANT, INT, Body, Value
from headgate.kernels.emission import emit_row, rows
from headgate.kernels.emit import emit
from headgate.kernels.expressions import condition, container, field_of, value
from headgate.kernels.fields import Map, Ring

FINISH = "# finish"
NO_LOOP_ELSE = "else of a loop cannot be compiled", "use a variable for what happened"
NO_END = "more than {} loop iterations (max_steps)"
RAISES = "it raises"
TOO_SOON = "a timer must be set to a later time than its own"


def block(body: Body, nodes: Sequence[ast.stmt]) -> None:
    """Lower statements in order; code after a return cannot be reached and is omitted."""
    for node in nodes:
        if body.assigned is None:
            return
        statement(body, node)


def statement(body: Body, node: ast.stmt) -> None:
    """Lower one statement."""
    if isinstance(node, ast.Expr):
        _expression(body, node.value)
    elif isinstance(node, ast.Assign):
        for target in node.targets[1:]:
            body.refuse(target, "an assignment has one target", "assign on separate lines")
        assign(body, node.targets[0], node.value)
    elif isinstance(node, ast.AnnAssign):
        if node.value is None:
            body.refuse(node, "a declaration without a value", "assign a value")
        assign(body, node.target, node.value)
    elif isinstance(node, ast.AugAssign):
        augmented(body, node)
    elif isinstance(node, ast.If):
        _if(body, node)
    elif isinstance(node, ast.While):
        _while(body, node)
    elif isinstance(node, ast.For):
        _for(body, node)
    elif isinstance(node, ast.Return):
        _return(body, node)
    elif isinstance(node, ast.Delete):
        delete(body, node)
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
        body.refuse(node, *NO_LOOP_ELSE)
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
        body.put("return 0")  # never reached, but a function must end with a return


def _for(body: Body, node: ast.For) -> None:
    if node.orelse:
        body.refuse(node, *NO_LOOP_ELSE)
    if not isinstance(node.target, ast.Name):
        body.refuse(node, "a loop has exactly one variable", "write for x in ...")
    before = body.assigned
    kept = container(body, node.iter)
    if kept is not None:
        changed = [n for n in ast.walk(node) if _changes(body, n, kept[0])]
        if changed:
            body.refuse(
                changed[0], f"state.{kept[0]} is changed during iteration", "change it after the loop"
            )
        _walk(body, node, node.target, *kept)
    else:
        _range(body, node, node.target)
    body.assigned = before


def _changes(body: Body, node: ast.AST, name: str) -> bool:
    def is_field(part: ast.expr) -> bool:
        return isinstance(part, ast.Attribute) and part.attr == name and field_of(body, part) == name

    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("append", "clear") and is_field(node.func.value)
    return isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and is_field(node.value)


def _walk(body: Body, node: ast.For, target: ast.Name, name: str, kind: Ring | Map) -> None:
    at = body.fresh()
    if isinstance(kind, Ring):
        heap, first, end = containers.ring_bounds(body, name, kind)
        item, bounds = Value(kind.sort, f"{heap}[{at}]"), f"{first}, {end}"
    else:
        item, bounds = Value(kind.key, f"m_{name}_w[m_{name}_o + 2 * {at}]"), f"m_{name}_n"
    with body.block(f"for {at} in range({bounds}):"):
        _step(body, node)
        local(body, target, item)
        block(body, node.body)


def _range(body: Body, node: ast.For, target: ast.Name) -> None:
    call = node.iter
    if (
        not (isinstance(call, ast.Call) and body.source.value_of(call.func) is range)
        or not 0 < len(call.args) < 4
    ):
        body.refuse(node, "a loop iterates over range(...), a ring or a mapping", "write for i in range(n)")
    bounds = [held(body, convert(body, a, value(body, a), INT, "a bound")).code for a in call.args]
    start, stop, step = ("0", bounds[0], "1") if len(bounds) == 1 else (*bounds[:2], *bounds[2:], "1")[:3]
    if len(bounds) == 3:
        body.check(f"{step} == 0", node, "range() has a step of zero")
    at = body.fresh()
    with body.block(f"for {at} in range(turns({start}, {stop}, {step})):"):
        _step(body, node)
        local(body, target, Value(INT, f"{start} + {at} * {step}"))
        block(body, node.body)


def _raise(body: Body, node: ast.Raise | ast.Assert) -> None:
    message = RAISES
    given = node.exc if isinstance(node, ast.Raise) else node.msg
    if isinstance(given, ast.Call) and given.args:
        given = given.args[0]
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        message = given.value
    if isinstance(node, ast.Assert):
        body.check(f"not ({condition(body, node.test)})", node, message)
        return
    body.put(f"return {body.site(node, message)}")
    body.assigned = None


def _expression(body: Body, node: ast.expr) -> None:
    """A call for its effect, or a docstring."""
    if isinstance(node, ast.Constant):
        return
    if isinstance(node, ast.Yield):
        if node.value is None:
            body.refuse(node, "yield without a value", "yield a value for each output column")
        rows(body, node, node.value)
        return
    if isinstance(node, ast.Call):
        if body.source.value_of(node.func) is emit:
            emit_row(body, node, node.args, {k.arg: k.value for k in node.keywords})
            return
        if isinstance(node.func, ast.Attribute) and _effect(body, node, node.func):
            return
    body.refuse(
        node,
        f"{ast.unparse(node)} has no effect",
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
                "this kernel has no event time, or no on_timer",
                "write hg.kernel(on='ts', ...) and a function for timers",
            )
        when = convert(body, node, value(body, node.args[0]), INSTANT, "the time to wake")
        if body.timed:
            body.check(f"{when.code} <= now", node, TOO_SOON)
        body.put(f"wake = {when.code} if {when.code} != 0 else 1")  # 0 marks a new state row
        return True
    return False


def _return(body: Body, node: ast.Return) -> None:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        if any(isinstance(n, ast.Yield) for n in ast.walk(body.source.tree)):
            body.refuse(node, "a kernel that yields cannot return a row", "yield this row too")
        rows(body, node, node.value)
    finish(body)
    body.assigned = None


def finish(body: Body) -> None:
    """Mark the place for the lines that write the row's changes; they are known when all is lowered."""
    body.put(FINISH)
