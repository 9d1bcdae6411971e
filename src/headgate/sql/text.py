"""The shape of a query: its text without its constants. Texts of the same *shape*
are parsed only once.

Parsing SQL takes milliseconds, and a hundred thousand queries have few shapes. This pass takes
microseconds: it finds the literals, and the names after FROM and JOIN. The first full parse of a
shape decides which of these are really constants.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Shape:
    """A text without its literals and source names, and these in the order of the text."""

    text: str
    literals: tuple[Literal, ...]
    sources: tuple[str, ...]


def shape_of(text: str) -> Shape:
    """Separate a text into its shape and its constants.

    >>> shape = shape_of("SELECT a FROM road WHERE a > 1.5 AND b = 'x'")
    >>> shape.text, shape.sources, [literal.value for literal in shape.literals]
    ('SELECT a FROM ?t WHERE a > ?d AND b = ?v', ('road',), [1.5, 'x'])
    """
    literals, sources = list[Literal](), list[str]()
    parts = (_IN_ASCII if text.isascii() else _IN_ANY).split(text)  # every second one is a match
    at = 0
    for i, part in enumerate(parts):
        if i % 2:
            first = part[0]
            if first == "'":
                literals.append(Literal(at, part))
                parts[i] = "?v"
            elif first in "fFjJ":
                if "(" in parts[i - 1] and _FIELD.search(parts[i - 1]):
                    at += len(part)
                    continue
                name = part.split(None, 1)[1]
                sources.append(name.lower())
                parts[i] = f"{part[: -len(name)]}?t"
            elif first != '"':
                literals.append(Literal(at, part))
                parts[i] = "?b" if part.isdecimal() else "?d"
        at += len(part)
    shape = "".join(parts)
    lower = shape.lower()
    if any(name in lower for name in sources):  # the name may also be a qualifier, so it is part of the shape
        shape += f" -- {' '.join(sources)}"
    return Shape(shape, tuple(literals), tuple(sources))


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
