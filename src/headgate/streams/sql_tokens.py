"""Divides a text of Spark SQL into tokens, and says where in the text it cannot be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from headgate.errors import ConfigError


class NotColumnar(Exception):
    """An expression that is left to Spark, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*(?!\+)(?:[^*]|\*(?!/))*\*/)
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYDF])?(?![A-Za-z0-9_]))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<op><=>|<>|!=|<=|>=|==|\|\||->|=>|::|<<|>>|\|>|!<|!>|[-+*/%=<>!(),.\[\]&|^~:?])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True)
class Token:
    """A piece of the text; its kind is a group of the pattern."""

    kind: str
    text: str
    at: int

    @property
    def upper(self) -> str:
        """A word or sign in upper case; empty for quoted text and numbers."""
        return self.text.upper() if self.kind in ("word", "op") else ""


def place(text: str, at: int) -> str:
    """A position as people count it.

    >>> place("a >", 2)
    'line 1, column 3'
    """
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - (before.rfind(chr(10)) + 1) + 1}"


def unreadable(text: str, at: int, why: str) -> NoReturn:
    """Say that nobody can read the text, and where."""
    raise ConfigError(f"`{text}` cannot be read as Spark SQL: {why} ({place(text, at)}); correct the text")


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text whose quotes and parentheses are closed."""
    found, at, open_at = list[Token](), 0, list[int]()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] in "'\"`":
                unreadable(text, at, f"the quote {text[at]} is not closed")
            if text.startswith("/*+", at) or text[at].isalnum() or ord(text[at]) > 127 or text[at] in "_{}@$":
                raise NotColumnar(f"`{text}` has signs at {place(text, at)} that are left to Spark")
            unreadable(text, at, f"{text[at]!r} is not expected")
        if match.lastgroup != "space":
            found.append(Token(str(match.lastgroup), match[0], at))
            if match[0] in ("(", ")"):
                if match[0] == ")" and not open_at:
                    unreadable(text, at, "this parenthesis was not opened")
                open_at = [*open_at, at] if match[0] == "(" else open_at[:-1]
        at = match.end()
    if open_at:
        unreadable(text, open_at[-1], "this parenthesis is not closed")
    return found
