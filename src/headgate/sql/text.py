"""The shape of a query: its text without its constants. Texts of the same *shape*
are parsed only once.

Parsing SQL takes milliseconds, and a hundred thousand queries have few shapes. This pass takes
microseconds: it finds the literals, and the names after FROM and JOIN. The first full parse of a
shape decides which of these are really constants.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_CONSTANT = r"""(['"DIGIT.fFjJ]                          # a first character: so most are passed over quickly
  (?: (?<=')[^']*'(?:'[^']*')*                           # a string
    | (?<=")[^"]*"(?:"[^"]*")*                           # a quoted name
    | (?<=[DIGIT])(?<!\w.)\d*(?:\.\d*)?(?:[eE][+-]?\d+)?  # a number
    | (?<=\.)(?<!\w.)\d+(?:[eE][+-]?\d+)?
    | (?:(?<=[fF])(?<!\w.)[rR][oO][mM]|(?<=[jJ])(?<!\w.)[oO][iI][nN])\s+[^\W\d]\w*  # a source
  ))"""
_IN_ANY = re.compile(_CONSTANT.replace("DIGIT", r"\d"), re.VERBOSE | re.DOTALL)
_IN_ASCII = re.compile(_CONSTANT.replace("DIGIT", "0-9"), re.VERBOSE | re.DOTALL)
"""The same for texts in ASCII, several times faster."""
_FIELD = re.compile(r"\bEXTRACT\s*\(\s*\w+\s+$", re.IGNORECASE)
"""What stands before a FROM that names no source."""
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|/\*(?s:.*?)\*/|--[^\n]*|(?P<open>'|"|/\*)""")
_LAST = re.compile(r"LAST(\s+)(\d+)(\s+)ROWS", re.IGNORECASE)


class Literal(NamedTuple):
    """A literal of the text and the position where it begins."""

    start: int
    text: str

    @property
    def value(self) -> int | float | str:
        """The literal as a Python value."""
        if self.text[0] == "'":
            return self.text[1:-1].replace("''", "'")
        return int(self.text) if self.text.isdecimal() else float(self.text)

    @property
    def fits(self) -> bool:
        """Whether the value is in the range of its type."""
        if self.type == "bigint":
            return len(self.text.lstrip("0")) <= 19 and int(self.text) < 1 << 63
        return self.type == "varchar" or math.isfinite(float(self.text))

    @property
    def type(self) -> str:
        """The constant's type: a whole number is a bigint, any other number a double."""
        return "varchar" if self.text[0] == "'" else "bigint" if self.text.isdecimal() else "double"


class Shape(NamedTuple):
    """A text without its literals and source names, and these in the order of the text."""

    text: str
    written: tuple[str, ...]
    """The literals."""
    sources: tuple[str, ...]
    query: str
    """The whole text."""

    @property
    def literals(self) -> tuple[Literal, ...]:
        """The literals and where they begin."""
        found, at = list[Literal](), 0
        for i, part in enumerate(_parts(self.query)):
            if i % 2 and part[0] not in 'fFjJ"':
                found.append(Literal(at, part))
            at += len(part)
        return tuple(found)


def _parts(text: str) -> list[str]:
    """A text in parts, of which every second one is a literal, a quoted name, or a source behind its FROM or JOIN."""
    return (_IN_ASCII if text.isascii() else _IN_ANY).split(text)


def shape_of(text: str) -> Shape:
    """Separate a text into its shape and its constants.

    >>> shape = shape_of("SELECT a FROM road WHERE a > 1.5 AND b = 'x'")
    >>> shape.text, shape.sources, [literal.value for literal in shape.literals]
    ('SELECT a FROM ?t WHERE a > ?d AND b = ?v', ('road',), [1.5, 'x'])
    """
    written, sources = list[str](), list[str]()
    parts = _parts(text)
    for i in range(1, len(parts), 2):
        part = parts[i]
        first = part[0]
        if first == "'":
            written.append(part)
            parts[i] = "?v"
        elif first in "fFjJ":
            if "(" in parts[i - 1] and _FIELD.search(parts[i - 1]):
                continue
            name = part.split(None, 1)[1]
            sources.append(name.lower())
            parts[i] = f"{part[: -len(name)]}?t"
        elif first != '"':
            written.append(part)
            parts[i] = "?b" if part.isdecimal() else "?d"
    shape = "".join(parts)
    lower = shape.lower()
    for name in sources:
        if name in lower:  # it may also be a qualifier, so it is part of the shape
            shape += f" -- {' '.join(sources)}"
            break
    return Shape(shape, tuple(written), tuple(sources), text)


def open_quote(text: str) -> int:
    """Where the quote or the comment begins that has no end; 0 if none is found.

    >>> open_quote("SELECT 'a', 'b FROM c")
    12
    """
    return next((found.start() for found in _QUOTED.finditer(text) if found["open"]), 0)


def readable(text: str) -> str:
    """Write LAST n ROWS as a function, with every other character at its old position.

    >>> readable("GROUP BY city, LAST 10 ROWS")
    'GROUP BY city, LAST(10)    '
    """
    parts, at = [], 0
    for piece in re.finditer(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", text):
        parts += [_LAST.sub(_as_call, text[at : piece.start()]), piece.group()]
        at = piece.end()
    return "".join([*parts, _LAST.sub(_as_call, text[at:])])


def _as_call(match: re.Match[str]) -> str:
    return f"LAST({' ' * (len(match[1]) - 1)}{match[2]}){' ' * (len(match[3]) + 3)}"
