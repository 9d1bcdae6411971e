"""A query's text with its constants taken out: texts of one *shape* need to be read once.

Reading SQL takes milliseconds, and a hundred thousand queries have few shapes. This pass takes microseconds: it finds literals and the
names after FROM and JOIN. What of it may be trusted is decided by whoever reads the shape for the first time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CONSTANT = re.compile(
    r"""(?P<string>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<number>(?<!\w)(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<named>\b(?:FROM|JOIN)\s+)(?P<source>[^\W\d]\w*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LAST = re.compile(r"LAST(\s+)(\d+)(\s+)ROWS", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal of the text and where it begins."""

    start: int
    text: str

    @property
    def value(self) -> int | float | str:
        """As Python has it."""
        if self.text[0] == "'":
            return self.text[1:-1].replace("''", "'")
        return int(self.text) if self.text.isdecimal() else float(self.text)

    @property
    def type(self) -> str:
        """The constant's type: a whole number is a bigint, any other number a double."""
        return "varchar" if self.text[0] == "'" else "bigint" if self.text.isdecimal() else "double"


@dataclass(frozen=True, slots=True)
class Shape:
    """What is left of a text without its literals and the names of its sources, which it had in this order."""

    text: str
    literals: tuple[Literal, ...]
    sources: tuple[str, ...]


def shape_of(text: str) -> Shape:
    """Take the constants out.

    >>> shape = shape_of("SELECT a FROM road WHERE a > 1.5 AND b = 'x'")
    >>> shape.text, shape.sources, [one.value for one in shape.literals]
    ('SELECT a FROM ?t WHERE a > ?d AND b = ?v', ('road',), [1.5, 'x'])
    """
    literals, sources = list[Literal](), list[str]()

    def without(found: re.Match[str]) -> str:
        kind = found.lastgroup
        if kind == "source":
            sources.append(found["source"].lower())
            return f"{found['named']}?t"
        if kind == "quoted":
            return found[0]
        literal = Literal(found.start(), found[0])
        literals.append(literal)
        return f"?{literal.type[0]}"

    shape = _CONSTANT.sub(without, text)
    if any(
        name in shape.lower() for name in sources
    ):  # perhaps a qualifier too: then the name is part of the shape
        shape += f" -- {' '.join(sources)}"
    return Shape(shape, tuple(literals), tuple(sources))


def readable(text: str) -> str:
    """LAST n ROWS as a function, every character where it was.

    >>> readable("GROUP BY city, LAST 10 ROWS")
    'GROUP BY city, LAST(10)    '
    """
    parts, at = [], 0
    for piece in re.finditer(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", text):
        parts += [_LAST.sub(_as_call, text[at : piece.start()]), piece.group()]
        at = piece.end()
    return "".join([*parts, _LAST.sub(_as_call, text[at:])])


def _as_call(found: re.Match[str]) -> str:
    return f"LAST({' ' * (len(found[1]) - 1)}{found[2]}){' ' * (len(found[3]) + 3)}"
