"""What a refusal says: the user's own words, where they are, and what to write instead. Nothing here speaks of the parser."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

import pyarrow as pa
from sqlglot import exp

from headgate.errors import QueryRefused

MOST_SHOWN = 60
"""How many characters of a text a message repeats."""
KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "ON", "AND", "OR", "NOT", "IN", "IS",
    "NULL", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "AS", "INTERVAL", "UNION", "ALL", "LAST", "ROWS",
    "DISTINCT", "TIMESTAMP",
)  # fmt: skip
_CLOSED = {"(": ")", "[": "]"}


def place_of(node: exp.Expression, text: str) -> tuple[int, int]:
    """Line and column of a node: those of the first node below it that has a position."""
    return line_column(text, span_of(node)[0])


def span_of(node: Any) -> tuple[int, int]:
    """Where what is known of a node begins and ends in the text."""
    nodes = [n for n in node.walk() if "start" in n.meta] if isinstance(node, exp.Expression) else []
    starts, ends = [n.meta["start"] for n in nodes], [n.meta["end"] + 1 for n in nodes if "end" in n.meta]
    return min(starts, default=0), max(ends, default=0)


def line_column(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1, of a character."""
    before = text[: min(at, len(text))]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def refuse(reason: str, message: str, text: str, at: int | tuple[int, int]) -> NoReturn:
    """Raise QueryRefused with the message and the position."""
    line, column = line_column(text, at) if isinstance(at, int) else at
    raise QueryRefused(f"{message} (line {line}, column {column})", reason, line, column)


def quoted(node: Any, text: str) -> str:
    """The part of the text that a node was read from, as the user wrote it, with the brackets that it opens."""
    start, end = span_of(node)
    if end <= start:
        return "this part of the text"
    awaited = list[str]()
    for letter in text[start:end]:
        if letter in _CLOSED:
            awaited.append(_CLOSED[letter])
        elif awaited and letter == awaited[-1]:
            awaited.pop()
    for letter in text[end:]:
        if not awaited or not (letter.isspace() or letter == awaited[-1]):
            break
        end += 1
        if letter == awaited[-1]:
            awaited.pop()
    return shown(text[start:end].strip())


def shown(text: str) -> str:
    """A text in a message: on one line, and not too long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= MOST_SHOWN else f"{flat[: MOST_SHOWN - 3]}..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message: the known word that is nearest to an unknown one, if one is near."""
    by_lower = {name.lower(): name for name in known}
    nearest = get_close_matches(word.lower(), by_lower, 1, 0.7)
    if not nearest or word.lower() in by_lower:
        return ""
    return f"; did you mean {by_lower[nearest[0]]}?"


_OURS = {
    "hg_like": "LIKE", "~~": "LIKE", "strlen": "LIKE", "hg_regex_matches": "regexp_matches",
    "hg_regex_extract": "regexp_extract", "hg_regex_replace": "regexp_replace", "list_extract": "[ ]",
    "array_extract": "[ ]", "date_part": "extract",
}  # fmt: skip
"""By the engine's name for a function: the one that users know."""
_TYPES = {"string_literal": "varchar", "integer_literal": "bigint", '"null"': "NULL", "decimal": "double"}
_CAST = "CAST one of them"
_SAYINGS = {
    r"No function matches the given name and argument types '(.+?)\((.*)\)'": "{0} does not take ({1}): CAST its values",
    r'Could not choose a best candidate function for the function call "(\w+)\((.*)\)"': "{0} does not take ({1}): CAST its values",
    r"Cannot compare values of type (.+) and type (.+) -": f"{{0}} and {{1}} cannot be compared: {_CAST}",
    r"Cannot mix values of type (.+) and (.+) in (\w+)": f"{{2}} cannot mix {{0}} and {{1}}: {_CAST}",
    r"Cannot combine types of (.+) and (.+) -": f"{{0}} and {{1}} cannot be values of one expression: {_CAST}",
    r"Cannot concatenate types (.+) and (.+) -": f"{{0}} and {{1}} cannot be joined by ||: {_CAST}",
    r"Unimplemented type for cast \((.+) -> (.+)\)": "{0} cannot become {1}: compare it, or take a part of it",
    r"Failed to parse format specifier (.*?): ": "the format '{0}' cannot be read: write parts of a date as %Y, %m, %d, %H, %M, %S",
    r"JSON path error near '(.*)'": "a path is written '$.key[0]', and this one cannot be read at '{0}'",
    r"Overflow in (\w+) of \w+ \((.*)\)": "{1} is too large for its type ({0})",
}
"""What the engine says of types, and how we say it."""


def in_users_words(message: str, otherwise: str = "") -> str:
    """What an engine says, in the words of users; `otherwise` is what to say where we have no words for it."""
    said = re.sub(r"^[A-Z]\w+( \w+)* Error: ", "", message)
    if said == message:
        return message  # our own
    for theirs, ours in _SAYINGS.items():
        if found := re.search(theirs, said):
            return ours.format(*map(_plain, found.groups()))
    return otherwise or said


def _plain(words: str) -> str:
    """Types and functions as users write them."""
    if words in _OURS:
        return _OURS[words]
    if words in ("BETWEEN", "CASE", "IN") or words.startswith("%"):
        return words
    if words.islower() or any(letter.isdigit() for letter in words):
        return words
    parts = [re.sub(r"\(.*\)", "", part).lower() for part in words.split(", ")]
    return ", ".join("a list" if part.endswith("[]") else _TYPES.get(part, part) for part in parts)


def not_a_result(kind: pa.DataType) -> str:
    """Why values of a type cannot be results; empty if they can."""
    if pa.types.is_list(kind):
        return "a list is no result: take an element of it, list[1], or its length"
    if pa.types.is_interval(kind) or pa.types.is_duration(kind):
        return "an interval is no result: epoch(interval) gives its seconds"
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_boolean)
    if any(test(kind) for test in (*plain, pa.types.is_timestamp, pa.types.is_decimal, pa.types.is_null)):
        return ""
    return "this is no result: CAST it to bigint, double, varchar, boolean or timestamp"
