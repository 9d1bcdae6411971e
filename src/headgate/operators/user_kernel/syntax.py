"""What is refused as soon as a kernel is made, before the types of its rows are known."""

from __future__ import annotations

import ast

from headgate.operators.user_kernel.source import Source

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("try", "test for what may go wrong, or pass on_error='skip'"),
    ast.With: ("with", "a kernel has no files or locks"),
    ast.Import: ("import", "import above the kernel"),
    ast.ImportFrom: ("import", "import above the kernel"),
    ast.FunctionDef: ("a function within", "write it out where it is used"),
    ast.ClassDef: ("a class", "keep values in state"),
    ast.Lambda: ("lambda", "write it out where it is used"),
    ast.Global: ("global", "keep what changes in state"),
    ast.Nonlocal: ("nonlocal", "keep what changes in state"),
    ast.Await: ("await", "a kernel waits for nothing"),
    ast.YieldFrom: ("yield from", "write a for loop"),
    ast.Match: ("match", "write if and elif"),
    ast.NamedExpr: (":=", "assign in a line of its own"),
    ast.ListComp: ("a comprehension", "write a for loop"),
    ast.SetComp: ("a comprehension", "write a for loop"),
    ast.DictComp: ("a comprehension", "write a for loop"),
    ast.GeneratorExp: ("a comprehension", "write a for loop"),
    ast.JoinedStr: (
        "an f-string",
        "texts can be compared, stored and cut; build new ones before or after the stage",
    ),
    ast.Starred: ("*", "write the values out"),
}


def check_syntax(source: Source) -> None:
    """Refuse what no types could make sense of."""
    for top in source.tree.body:
        for node in ast.walk(top):
            if type(node) in _REFUSED:
                what, remedy = _REFUSED[type(node)]
                source.refuse(node, f"{what} cannot be compiled", remedy + ", or pass compiled=False")
