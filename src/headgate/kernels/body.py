"""The code of one function while it is lowered: lines of typed Python, and what is known so far.

Lowering goes statement by statement. Each operation that can fail is a line of its own, followed by its
check, so that a failure returns the number of its site before any of the key's state is written. State
is read into local variables at the start and written at the end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from headgate.kernels.fields import Field, Sort
from headgate.kernels.function_source import FunctionSource

INT, FLOAT, BOOL, INSTANT, SPAN, TEXT = Sort.INT, Sort.FLOAT, Sort.BOOL, Sort.INSTANT, Sort.SPAN, Sort.TEXT
ZEROS = {FLOAT: "0.0", BOOL: "False"}
"""The zero of each sort, where it is not `0`."""
SHORT_OF_TABLE, SHORT_OF_OUTPUT = -1, -2
"""What a row's code returns when memory is short; the caller allocates more and runs the row again."""


@dataclass(frozen=True)
class Value:
    """A value in generated code. A text has three parts (bytes, start, length), each a name or number."""

    sort: Sort
    code: str
    parts: tuple[str, str, str] = ("", "", "")
    literal: Any = None
    at: tuple[int, int] | None = None
    """The line and column of a literal in the source."""


@dataclass(frozen=True)
class Site:
    """A place in the source that can fail, and the failure."""

    what: str
    line: int
    text: str

    @property
    def reason(self) -> str:
        """Why a row was put aside."""
        return f"{self.what} (line {self.line})"


@dataclass
class Body:
    """One function being lowered."""

    source: FunctionSource
    state: Mapping[str, Field]
    row: Mapping[str, Sort]
    output: Mapping[str, Sort]
    max_steps: int
    sites: list[Site]
    texts: bytearray
    """All text literals, concatenated."""
    timed: bool = False
    """Whether the second parameter is the time of a timer, and not a row."""
    wakes: bool = False
    """Whether timers can be set."""
    names: frozenset[str] = frozenset()
    """All local variables of the function."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Columns whose type kernels cannot read, with that type."""
    locals: dict[str, Sort] = field(default_factory=dict)
    """The sorts of the local variables, as far as they are known."""
    promoted: set[tuple[int, int]] = field(default_factory=set)
    """The places (line, column) of integer literals that are used as floats."""
    floats: set[str] = field(default_factory=set)
    """Local variables that are assigned an integer first and a float later: they are floats from the start."""
    written: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    """The state fields that are written, and the columns of the row that are read."""
    forgets: bool = False
    assigned: set[str] | None = field(default_factory=set)
    """Local variables that certainly have a value here; None where the code cannot be reached."""
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    _count: int = 0

    def put(self, line: str) -> None:
        """Add a line at the current depth."""
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines added inside are indented below `head`."""
        self.put(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.put("pass")
        self.depth -= 1

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Lower code only to learn its sorts: its lines and sites are discarded."""
        lines, sites = len(self.lines), len(self.sites)
        yield
        del self.lines[lines:]
        del self.sites[sites:]

    def fresh(self) -> str:
        """An unused variable name."""
        self._count += 1
        return f"t{self._count}"

    def temp(self, sort: Sort, code: str) -> Value:
        """Assign an expression to a new variable."""
        name = self.fresh()
        self.put(f"{name} = {code}")
        return Value(sort, name)

    def text(self, buffer: str, start: str, length: str) -> Value:
        """A text value."""
        return Value(Sort.TEXT, "", (buffer, start, length))

    def check(self, wrong: str, node: ast.AST, what: str) -> None:
        """Add a check: if the condition `wrong` holds, the function returns the number of a new site."""
        self.put(f"if {wrong}:")
        self.put(f"    return {self.site(node, what)}")

    def site(self, node: ast.AST, what: str) -> int:
        """Add a site; return its number."""
        line = getattr(node, "lineno", self.source.tree.lineno)
        self.sites.append(Site(what, line, self.source.line(line)))
        return len(self.sites)

    def refuse(self, node: ast.AST, what: str, remedy: str) -> NoReturn:
        """Raise: this cannot be compiled."""
        self.source.refuse(node, what, remedy)

    def literal(self, value: str) -> Value:
        """A text literal."""
        raw = value.encode()
        start = self.texts.find(raw) if raw else 0
        if start < 0:
            start = len(self.texts)
            self.texts.extend(raw)
        return Value(Sort.TEXT, "", ("literals", str(start), str(len(raw))), value)


def number(value: Any) -> str:
    """A literal in generated code."""
    if isinstance(value, float):
        if value != value:
            return "np.nan"
        if value in (float("inf"), float("-inf")):
            return "np.inf" if value > 0 else "(-np.inf)"
    shown = repr(value)
    return f"({shown})" if shown.startswith("-") else shown
