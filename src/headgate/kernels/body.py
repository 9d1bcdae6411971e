"""Code in the making: lines of typed Python for one function, and what is known on the way.

Lowering goes statement by statement. Each operation that can fail is a line of its own, followed by its check, so that a failure
leaves by `return SITE` before anything of the key's state was written. State is read into locals at the start and written at the end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from headgate.kernels.fields import Field, Scalar, Sort, Text
from headgate.kernels.source import Source

INT, FLOAT, BOOL, INSTANT, SPAN, TEXT = Sort.INT, Sort.FLOAT, Sort.BOOL, Sort.INSTANT, Sort.SPAN, Sort.TEXT
ZEROS = {FLOAT: "0.0", BOOL: "False"}
"""What is not `0` when it is nothing."""
SHORT_OF_TABLE, SHORT_OF_OUTPUT = -1, -2
"""What a row's code returns when it lacks room; the caller makes some and runs the row again."""


@dataclass(frozen=True)
class Value:
    """A value in generated code. A text is (bytes, start, length), each a name or number."""

    sort: Sort
    code: str
    parts: tuple[str, str, str] = ("", "", "")
    literal: Any = None
    at: tuple[int, int] | None = None
    """Where a literal is written."""


@dataclass(frozen=True)
class Site:
    """A place that can fail, and how."""

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

    source: Source
    state: Mapping[str, Field]
    row: Mapping[str, Sort]
    output: Mapping[str, Sort]
    max_steps: int
    sites: list[Site]
    texts: bytearray
    """Text literals, one after the other."""
    timed: bool = False
    """Whether the second parameter is the time of a timer, and not a row."""
    wakes: bool = False
    """Whether the operator has an event time, so that timers can be set."""
    names: frozenset[str] = frozenset()
    """Every local of the function."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Columns that are there with a type that kernels do not read, and that type."""
    locals: dict[str, Sort] = field(default_factory=dict)
    """The sorts of those that are known so far."""
    promoted: set[tuple[int, int]] = field(default_factory=set)
    """Where whole numbers are written that are taken as floats: (line, column)."""
    floats: set[str] = field(default_factory=set)
    """Locals that a whole number was first given to, and a float later: they are floats from the start."""
    written: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    """State fields that are written, and columns of the row that are read."""
    forgets: bool = False
    assigned: set[str] | None = field(default_factory=set)
    """Locals that certainly have a value here; None where the code cannot be reached."""
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    _count: int = 0

    def put(self, line: str) -> None:
        """A line at the current depth."""
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines below `head`."""
        self.put(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.put("pass")
        self.depth -= 1

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What is lowered here is only looked at: no line and no site of it stays."""
        lines, sites = len(self.lines), len(self.sites)
        yield
        del self.lines[lines:]
        del self.sites[sites:]

    def fresh(self) -> str:
        """A name that is not used yet."""
        self._count += 1
        return f"t{self._count}"

    def temp(self, sort: Sort, code: str) -> Value:
        """A new name for the value of an expression."""
        name = self.fresh()
        self.put(f"{name} = {code}")
        return Value(sort, name)

    def text(self, buffer: str, start: str, length: str) -> Value:
        """A text value."""
        return Value(Sort.TEXT, "", (buffer, start, length))

    def check(self, wrong: str, node: ast.AST, what: str) -> None:
        """Leave with a new site if the condition `wrong` holds."""
        self.put(f"if {wrong}:")
        self.put(f"    return {self.site(node, what)}")

    def site(self, node: ast.AST, what: str) -> int:
        """The number of a place that can fail."""
        line = getattr(node, "lineno", self.source.tree.lineno)
        self.sites.append(Site(what, line, self.source.line(line)))
        return len(self.sites)

    def refuse(self, node: ast.AST, what: str, remedy: str) -> NoReturn:
        """This cannot be compiled."""
        self.source.refuse(node, what, remedy)

    def literal(self, value: str) -> Value:
        """A text literal."""
        raw = value.encode()
        start = self.texts.find(raw) if raw else 0
        if start < 0:
            start = len(self.texts)
            self.texts.extend(raw)
        return Value(Sort.TEXT, "", ("literals", str(start), str(len(raw))), value)

    def field_sort(self, name: str) -> Sort | None:
        """The sort of a plain state field."""
        kind = self.state.get(name)
        if isinstance(kind, Scalar):
            return kind.sort
        return Sort.TEXT if isinstance(kind, Text) else None


def number(value: Any) -> str:
    """A literal in generated code."""
    if isinstance(value, float):
        if value != value:
            return "np.nan"
        if value in (float("inf"), float("-inf")):
            return "np.inf" if value > 0 else "(-np.inf)"
    shown = repr(value)
    return f"({shown})" if shown.startswith("-") else shown
