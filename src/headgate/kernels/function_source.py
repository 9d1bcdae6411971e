"""The text of a kernel's function, the values of its names, and refusals that name file and line.

A name is a parameter, a local variable, or a constant. A constant has the value that it had when the
kernel was made, and that value is part of the kernel's identity.
"""

from __future__ import annotations

import ast
import builtins
import datetime as dt
import inspect
import linecache
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from headgate.errors import ConfigError, KernelRefused

MISSING = object()


@dataclass(frozen=True)
class FunctionSource:
    """A function as a syntax tree, with the line numbers of its file."""

    name: str
    file: str
    tree: ast.FunctionDef
    names: dict[str, Any] = field(repr=False)
    """The globals and closure variables that the function uses."""

    @property
    def parameters(self) -> tuple[str, str]:
        """The names of the function's parameters: the state, and the row or the time."""
        first, second = self.tree.args.args
        return first.arg, second.arg

    def value_of(self, node: ast.expr) -> Any:
        """The value outside the function of a name, or of a module's attribute; `MISSING` if it has none."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, getattr(builtins, node.id, MISSING))
        if isinstance(node, ast.Attribute):
            owner = self.value_of(node.value)
            if inspect.ismodule(owner) or inspect.isclass(owner):
                return getattr(owner, node.attr, MISSING)
        return MISSING

    def refuse(self, node: ast.AST, what: str, remedy: str) -> NoReturn:
        """Raise: this cannot be compiled."""
        line = getattr(node, "lineno", self.tree.lineno)
        text = self.line(line)
        shown = f" (`{text}`)" if text else ""
        raise KernelRefused(f"{self.file}:{line}{shown}: kernel {self.name}: {what}; {remedy}")

    def line(self, number: int) -> str:
        """A line of the file."""
        return linecache.getline(self.file, number).strip()

    def normal(self) -> str:
        """The text without comments, spacing and docstring, and the constants that it uses.

        Two functions that do the same by the same text have equal normal forms.
        """
        tree = ast.parse(ast.unparse(self.tree)).body[0]
        assert isinstance(tree, ast.FunctionDef)
        tree.decorator_list = []
        if ast.get_docstring(tree) is not None:
            tree.body = tree.body[1:] or [ast.Pass()]
        used = sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)})
        constants = {n: self.names[n] for n in used if n in self.names and is_constant(self.names[n])}
        return "\n".join([ast.unparse(tree), *(f"{n} = {value!r}" for n, value in constants.items())])


def is_constant(value: Any) -> bool:
    """Whether a name's value can be built into a kernel."""
    return isinstance(value, bool | int | float | str | dt.datetime | dt.timedelta)


def read_source(function: Callable[..., Any], second: str) -> FunctionSource:
    """The source of a function of (state, `second`)."""
    shape = f"write def {getattr(function, '__name__', 'kernel')}(state, {second}): ..."
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise ConfigError(f"{function!r} is not a plain function; {shape}")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"the source of {function.__name__} cannot be read ({error}); define it in a file or a notebook cell"
        ) from error
    module = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(module, first - 1)
    tree = module.body[0]
    file = inspect.getsourcefile(function) or "<unknown>"
    if not isinstance(tree, ast.FunctionDef):
        raise ConfigError(f"{file}:{first}: {function.__name__} is not a plain function; {shape}")
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    known = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    source = FunctionSource(function.__name__, file, tree, {n: known[n] for n in sorted(used) if n in known})
    args = tree.args
    plain = not (args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs or args.defaults)
    if not plain or len(args.args) != 2:
        source.refuse(tree, f"it must take exactly (state, {second})", shape)
    return source


def columns_read(source: FunctionSource) -> list[tuple[ast.AST, str]]:
    """The columns of the row that a function reads, and where."""
    members = [n for n in ast.walk(source.tree) if isinstance(n, ast.Attribute | ast.Subscript)]
    of_row = [n for n in members if isinstance(n.value, ast.Name) and n.value.id == source.parameters[1]]
    named = [(n, n.attr if isinstance(n, ast.Attribute) else getattr(n.slice, "value", None)) for n in of_row]
    return [(node, name) for node, name in named if isinstance(name, str)]
