"""Checks that are made as soon as a kernel is made, before the types of its rows are known."""

from __future__ import annotations

import ast
from dataclasses import replace

from headgate.errors import KernelRefused
from headgate.kernels.fields import Sort
from headgate.kernels.function_source import FunctionSource, columns_read
from headgate.kernels.module import Shape, lowered

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("try", "test for what may go wrong, or pass on_error='skip'"),
    ast.With: ("with", "a kernel has no files or locks"),
    ast.Import: ("import", "import above the kernel"),
    ast.ImportFrom: ("import", "import above the kernel"),
    ast.FunctionDef: ("a nested function", "write its body where it is used"),
    ast.ClassDef: ("a class", "keep values in state"),
    ast.Lambda: ("lambda", "write its expression where it is used"),
    ast.Global: ("global", "keep what changes in state"),
    ast.Nonlocal: ("nonlocal", "keep what changes in state"),
    ast.Await: ("await", "a kernel is not asynchronous"),
    ast.YieldFrom: ("yield from", "write a for loop"),
    ast.Match: ("match", "write if and elif"),
    ast.NamedExpr: (":=", "assign on a separate line"),
    ast.ListComp: ("a comprehension", "write a for loop"),
    ast.SetComp: ("a comprehension", "write a for loop"),
    ast.DictComp: ("a comprehension", "write a for loop"),
    ast.GeneratorExp: ("a comprehension", "write a for loop"),
    ast.JoinedStr: (
        "an f-string",
        "texts can be compared, stored and cut; build new ones before or after the stage",
    ),
    ast.Starred: ("*", "write each value"),
}


def check(source: FunctionSource, shape: Shape, *, timed: bool = False) -> None:
    """Refuse a function that cannot be compiled whatever the types of the columns are.

    The columns of `shape` are not known yet. `timed` says that this is the function for timers.
    """
    _check_syntax(source)
    refusals: set[str] = set()
    for sort in Sort:
        row = dict.fromkeys((name for _, name in columns_read(source)), sort)
        row |= {shape.time: Sort.INSTANT} if shape.time is not None else {}
        try:
            lowered(replace(shape, row=row), source, [], bytearray(), timed=timed)
        except KernelRefused as refused:
            refusals.add(str(refused))
        else:
            return
    if len(refusals) == 1:  # the same for all types
        raise KernelRefused(refusals.pop())


def _check_syntax(source: FunctionSource) -> None:
    for top in source.tree.body:
        for node in ast.walk(top):
            if type(node) in _REFUSED:
                what, remedy = _REFUSED[type(node)]
                source.refuse(node, f"{what} cannot be compiled", remedy + ", or pass compiled=False")
