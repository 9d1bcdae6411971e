"""What a kernel emits: values that are returned, yielded or passed to `emit` become rows of the output."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from headgate.kernels.arithmetic import convert
from headgate.kernels.body import SHORT_OF_OUTPUT, TEXT, ZEROS, Body, Value
from headgate.kernels.expressions import condition, value


def rows(body: Body, node: ast.AST, given: ast.expr) -> None:
    """What is returned or yielded: a row, a list of rows, or None in one branch of an `if` expression."""
    if isinstance(given, ast.IfExp):
        test = condition(body, given.test)
        for head, branch in ((f"if {test}:", given.body), ("else:", given.orelse)):
            with body.block(head):
                if not (isinstance(branch, ast.Constant) and branch.value is None):
                    rows(body, node, branch)
    elif isinstance(given, ast.List):
        for row in given.elts:
            rows(body, node, row)
    elif isinstance(given, ast.Dict):
        names = [str(k.value) if isinstance(k, ast.Constant) else None for k in given.keys]
        emit_row(body, node, (), dict(zip(names, given.values, strict=True)))
    else:
        emit_row(body, node, given.elts if isinstance(given, ast.Tuple) else (given,), {})


def emit_row(body: Body, node: ast.AST, given: Sequence[ast.expr], named: dict[str | None, ast.expr]) -> None:
    """One row: values in order, or by name; None is a null."""
    wanted = list(body.output)
    known = dict(zip(wanted, given, strict=False)) | {str(k): v for k, v in named.items()}
    if len(given) > len(wanted) or set(known) != set(wanted) or (given and named):
        got = ", ".join(map(str, named)) if named else f"{len(given)} values"
        body.refuse(
            node,
            f"a row has the columns {', '.join(wanted) or '(none)'}, but this emits {got}",
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
                for variable, code in zip(names, held.parts if sort is TEXT else (held.code,), strict=True):
                    body.put(f"{variable} = {code}")
        return (body.text(*names) if len(names) == 3 else Value(sort, names[0])), valid
    return convert(body, node, value(body, node), sort, f"output column {name!r}"), "1"
