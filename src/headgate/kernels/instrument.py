"""The function of an interpreted kernel: the user's own, line by line, with the rules of compiled code.

Integer literals become `Int64`, loops count their steps, `row.x is None` asks the row, and functions that
differ in compiled code are replaced. File and line numbers stay those of the source, so that tracebacks
and debuggers show it.
"""

from __future__ import annotations

import ast
import copy
import datetime as dt
import math
from collections.abc import Callable, Iterator
from typing import Any

from headgate.kernels.arithmetic import LARGEST_POWER
from headgate.kernels.calls import FUNCTIONS
from headgate.kernels.emit import emit
from headgate.kernels.fields import micros_of
from headgate.kernels.function_source import MISSING, FunctionSource
from headgate.kernels.values import Instant, Int64, RingView, whole

PREFIX = "__headgate_"


def instrumented(
    source: FunctionSource,
    promoted: frozenset[tuple[int, int]],
    step: Callable[[], bool],
    emitted: Callable[..., None],
) -> Callable[..., Any]:
    """The function, ready to be called with proxies of state and row."""
    change = _Change(source, promoted)
    tree = change.visit(copy.deepcopy(source.tree))
    tree.decorator_list = []
    module = ast.fix_missing_locations(ast.Module([tree], []))
    names = {
        **{name: _held(value) for name, value in source.names.items()},
        **change.functions,
        f"{PREFIX}int": Int64,
        f"{PREFIX}step": step,
        f"{PREFIX}emit": emitted,
        f"{PREFIX}power": _power,
        f"{PREFIX}pow": _pow,
    }
    exec(compile(module, source.file, "exec"), names)  # the user's own code, at the user's request
    function: Callable[..., Any] = names[source.tree.name]
    return function


def _held(value: Any) -> Any:
    """The value of a name outside the function, with the rules of compiled code."""
    if isinstance(value, dt.datetime):
        return Instant(micros_of(value))
    return Int64(value) if type(value) is int and -(2**63) <= value < 2**63 else value


def _datetime(*parts: Any, **named: Any) -> Instant:
    return Instant(micros_of(dt.datetime(*parts, **named)))


def _power(base: Any, times: int) -> Any:
    result: Any = 1.0 if isinstance(base, float) else Int64(1)
    for turn in range(times):
        result = base if turn == 0 else result * base
    return result


def _pow(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        return _wrapped(base**exponent)
    if base == 0 and exponent < 0:
        raise ZeroDivisionError
    return math.pow(base, exponent)


def _wrapped(value: Any) -> Any:
    return whole(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _range(*bounds: int) -> Iterator[Int64]:
    return (Int64(i) for i in range(*bounds))


def _called(function: Any) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], RingView) and function in (sum, min, max):
            return getattr(args[0], function.__name__)()
        return _wrapped(function(*args, **named))

    return call


class _Change(ast.NodeTransformer):
    def __init__(self, source: FunctionSource, promoted: frozenset[tuple[int, int]]) -> None:
        self.source, self.promoted = source, promoted
        self.functions: dict[str, Callable[..., Any]] = {}

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if type(node.value) is not int:
            return node
        if (node.lineno, node.col_offset) in self.promoted:
            return ast.copy_location(ast.Constant(float(node.value)), node)
        return _call("int", node, node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        column = self._column(node.left)
        if column is not None and len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot):
            row = ast.copy_location(ast.Name(self.source.parameters[1], ast.Load()), node)
            ask: ast.expr = ast.Call(ast.Attribute(row, "_is_null", ast.Load()), [ast.Constant(column)], [])
            if isinstance(node.ops[0], ast.IsNot):
                ask = ast.UnaryOp(ast.Not(), ask)
            return ast.copy_location(ask, node)
        self.generic_visit(node)
        return node

    def _column(self, node: ast.expr) -> str | None:
        owner = node.value if isinstance(node, ast.Attribute | ast.Subscript) else None
        if not (isinstance(owner, ast.Name) and owner.id == self.source.parameters[1]):
            return None
        if isinstance(node, ast.Attribute):
            return node.attr
        assert isinstance(node, ast.Subscript)
        return str(node.slice.value) if isinstance(node.slice, ast.Constant) else None

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if self._column(node) is None:
            self.generic_visit(node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        exponent = node.right
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return node
        literal = exponent.value if isinstance(exponent, ast.Constant) else None
        if type(literal) is int and 0 <= literal <= LARGEST_POWER:
            return _call("power", node, node.left, ast.Constant(literal))
        return _call("pow", node, node.left, node.right)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.op, ast.Pow):
            self.generic_visit(node)
            return node
        read = copy.deepcopy(node.target)
        read.ctx = ast.Load()
        value = self.visit_BinOp(ast.copy_location(ast.BinOp(read, node.op, node.value), node))
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_While(self, node: ast.While) -> ast.stmt:
        self.generic_visit(node)
        node.test = ast.copy_location(ast.BoolOp(ast.And(), [_call("step", node), node.test]), node)
        return node

    def visit_For(self, node: ast.For) -> ast.stmt:
        self.generic_visit(node)
        node.body.insert(0, ast.copy_location(ast.Expr(_call("step", node)), node))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = self.source.value_of(node.func)
        self.generic_visit(node)
        if function is emit:
            return _call("emit", node, *node.args, keywords=node.keywords)
        if function is range:
            self.functions[f"{PREFIX}range"] = _range
            return _call("range", node, *node.args)
        if function is dt.datetime:
            self.functions[f"{PREFIX}datetime"] = _datetime
            return _call("datetime", node, *node.args, keywords=node.keywords)
        known = function is not MISSING and (function in (len, sum) or function in FUNCTIONS)
        if not known:
            return node
        name = f"{function.__name__}_of_{getattr(function, '__module__', '')}"
        self.functions[PREFIX + name] = _called(function)
        return _call(name, node, *node.args, keywords=node.keywords)


def _call(name: str, at: ast.AST, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.Call:
    call = ast.Call(ast.Name(PREFIX + name, ast.Load()), list(args), keywords or [])
    for node in (call, call.func):
        ast.copy_location(node, at)
    return call
