"""The functions of standing queries: what each is written as, and what must be known of its arguments at registration."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from headgate.sql import regex
from headgate.sql.wording import did_you_mean, refuse

UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
FIELDS = (*UNITS, "dayofweek", "dow", "isodow", "dayofyear", "doy", "epoch")
_SHORT = {f"{unit}s": unit for unit in UNITS} | {"dow": "dayofweek", "doy": "dayofyear"}
MOST_FORMAT = 100
"""Characters of the format of a date."""


@dataclass(frozen=True)
class Known:
    """A function: how many arguments it takes, and the engine's name for it if that is another."""

    least: int
    most: int
    engine: str = ""


_ONE, _TWO, _MANY = Known(1, 1), Known(2, 2), Known(1, 50)
SIMPLE: dict[str, Known] = {
    **dict.fromkeys(("abs", "floor", "ceil", "sqrt", "ln", "exp", "sign", "lower", "upper", "length", "trim"), _ONE),
    **dict.fromkeys(("pow", "nullif", "starts_with", "contains"), _TWO),
    **dict.fromkeys(("coalesce", "greatest", "least"), _MANY),
    "ceiling": Known(1, 1, "ceil"), "power": Known(2, 2, "pow"), "ifnull": Known(2, 2, "coalesce"),
    "substring": Known(2, 3), "substr": Known(2, 3, "substring"),
    # dates
    **dict.fromkeys(("year", "quarter", "month", "week", "day", "dayofweek", "dayofyear", "hour", "minute", "second"), _ONE),
    **dict.fromkeys(("isodow", "epoch"), _ONE),
    # lists
    **dict.fromkeys(("string_split", "list_contains", "list_extract", "list_position"), _TWO),
    "split": Known(2, 2, "string_split"), "str_split": Known(2, 2, "string_split"), "split_part": Known(3, 3),
    "array_contains": Known(2, 2, "list_contains"), "len": Known(1, 1, "len"),
    "array_length": Known(1, 1, "array_length"), "element_at": Known(2, 2, "list_extract"), "list_value": _MANY,
}  # fmt: skip
"""Functions that are the engine's own, over any expressions."""
CLOCKS = (
    "now", "current_timestamp", "current_date", "current_time", "today", "localtime", "localtimestamp", "get_current_timestamp",
    "transaction_timestamp", "random", "uuid", "gen_random_uuid", "age",
)  # fmt: skip
"""What depends on when or how often it is computed."""
WHY_NO_CLOCK = (
    "its value depends on when it is computed, and results must not: use the time of rows, or push the value"
)

Go = Callable[[Any], str]
Scope = Any


def special(name: str) -> Callable[[exp.Anonymous, Go, Scope], str] | None:
    """What writes a function some of whose arguments must be known at registration."""
    return _SPECIAL.get(name)


def names() -> list[str]:
    """All functions, in the order of the alphabet."""
    return sorted({*SIMPLE, *_SPECIAL, "extract"})


def call(node: exp.Anonymous, go: Go, scope: Scope) -> str | None:
    """A call of a known function, written for the engine; None if it is not known."""
    name = node.name.lower()
    if (write := special(name)) is not None:
        return write(node, go, scope)
    known = SIMPLE.get(name)
    if known is None:
        return None
    arguments = arguments_of(node, scope, known.least, known.most)
    return f"{known.engine or name}({', '.join(map(go, arguments))})"


def arguments_of(node: exp.Anonymous, scope: Scope, least: int, most: int) -> list[Any]:
    """The arguments of a call, as many as it takes."""
    arguments: list[Any] = node.expressions
    if not least <= len(arguments) <= most:
        number = str(least) if least == most else f"{least} to {most}" if most < 50 else "one or more"
        word = "argument" if number == "1" else "arguments"
        scope.refuse(node, "arguments", f"{written(node, scope)} takes {number} {word}, not {len(arguments)}")
    return arguments


def written(node: exp.Expression, scope: Scope) -> str:
    """The name of a function as the user wrote it."""
    start, end = node.meta.get("start"), node.meta.get("end")
    return str(scope.text[start : end + 1]) if start is not None and end is not None else str(node.name)


def _text(node: Any, scope: Scope, what: str) -> str:
    """A text that must be known at registration."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        scope.refuse(node, "literal", f"{what} is written as a text in quotes")
    return str(scope.found(node)[1].value)


def quote(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"


# -- dates


def unit(word: str, known: tuple[str, ...], node: exp.Expression, scope: Scope) -> str:
    """A unit of time by its name."""
    plain = _SHORT.get(word.lower(), word.lower())
    if plain not in known:
        shown = ", ".join(known)
        scope.refuse(
            node, "unit", f"{word!r} is no unit of time: there are {shown}{did_you_mean(word, known)}"
        )
    return plain


def _trunc(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    part, of = arguments_of(node, scope, 2, 2)
    name = unit(_text(part, scope, "the unit"), UNITS, part, scope)
    return f"date_trunc('{name}', CAST({go(of)} AS TIMESTAMP))"


def field(word: str, of: Any, node: exp.Expression, go: Go, scope: Scope) -> str:
    """EXTRACT(word FROM of)."""
    return f"date_part('{unit(word, FIELDS, node, scope)}', {go(of)})"


def _part(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    part, of = arguments_of(node, scope, 2, 2)
    return field(_text(part, scope, "the unit"), of, part, go, scope)


def _diff(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    part, begin, end = arguments_of(node, scope, 3, 3)
    name = unit(_text(part, scope, "the unit"), UNITS, part, scope)
    return f"date_diff('{name}', CAST({go(begin)} AS TIMESTAMP), CAST({go(end)} AS TIMESTAMP))"


def _to_timestamp(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    (of,) = arguments_of(node, scope, 1, 1)
    return f"make_timestamp(CAST({go(of)} * 1000000 AS BIGINT))"


def _epoch_ms(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    (of,) = arguments_of(node, scope, 1, 1)
    return f"epoch_ms(CAST({go(of)} AS TIMESTAMP))"


def _format(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    of, how = arguments_of(node, scope, 2, 2)
    text = _text(how, scope, "the format")
    if len(text) > MOST_FORMAT:
        scope.refuse(how, "literal", f"a format has at most {MOST_FORMAT} characters")
    if node.name.lower() == "strftime":
        return f"strftime(CAST({go(of)} AS TIMESTAMP), {quote(text)})"
    return f"{node.name.lower()}({go(of)}, {quote(text)})"


def _round(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    of, *digits = arguments_of(node, scope, 1, 2)
    if not digits:
        return f"round({go(of)})"
    given = digits[0]
    if not isinstance(given, exp.Literal) or not str(given.this).isdecimal() or int(given.this) > 15:
        scope.refuse(node, "literal", "round takes a number of digits from 0 to 15")
    return f"round({go(of)}, {int(given.this)})"


# -- JSON


def document(node: Any, go: Go) -> str:
    """A text as a JSON document; what is no JSON is null."""
    return f"TRY_CAST({go(node)} AS JSON)"


def path(node: Any, scope: Scope) -> str:
    """A path into a document: a text, or the number of an element. It belongs to the template, like a column's name."""
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
        return str(int(scope.found(node)[1].value))
    text = _text(node, scope, "a path")
    if ".." in text:
        scope.refuse(node, "path", "a path with .. is not supported: name each step")
    if text.startswith("/"):
        scope.refuse(node, "path", "a path is written '$.key[0]'")
    return quote(text)


def _json(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    of, where = arguments_of(node, scope, 2, 2)
    engine = _JSON[node.name.lower()]
    return f"{engine}({document(of, go)}, {path(where, scope)})"


_JSON = {
    "json_extract": "json_extract", "json_extract_path": "json_extract", "json_extract_string": "json_extract_string",
    "json_extract_path_text": "json_extract_string", "get_json_object": "json_extract_string", "json_value": "json_value",
}  # fmt: skip


def _json_about(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    of, *where = arguments_of(node, scope, 1, 2)
    more = f", {path(where[0], scope)}" if where else ""
    return f"{node.name.lower()}({document(of, go)}{more})"


def _json_valid(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    (of,) = arguments_of(node, scope, 1, 1)
    return f"json_valid({go(of)})"


# -- regular expressions


def pattern(node: Any, go: Go, scope: Scope) -> str:
    """A pattern. It is a constant of the query, and is checked wherever it comes from."""
    text = _text(node, scope, "a pattern")
    check_constants("pattern", (text,), scope.text, node.meta["start"])
    scope.check("pattern", node)
    return go(node)


def matches(text: str, of: Any, go: Go, scope: Scope, flags: str = "") -> str:
    """Whether a text has a part that a pattern describes."""
    return f"{regex.MATCHES}({text}, {pattern(of, go, scope)}, '{flags}')"


def _flags(nodes: list[Any], allowed: str, scope: Scope) -> str:
    given = _text(nodes[0], scope, "an option") if nodes else ""
    if not re.fullmatch(f"[{allowed}c]*", given):
        scope.refuse(
            nodes[0], "literal", f"the options are {', '.join(allowed)} and c, and not {given[:20]!r}"
        )
    return "".join(sorted(set(given) - {"c"}))


def _matches(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    of, how, *options = arguments_of(node, scope, 2, 3)
    whole = "f" if node.name.lower() == "regexp_full_match" else ""
    return matches(go(of), how, go, scope, whole + _flags(options, "is", scope))


def _extract(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    of, how, *more = arguments_of(node, scope, 2, 4)
    group = 0
    if more:
        number = more[0]
        if not isinstance(number, exp.Literal) or number.is_string or str(number.this) not in "0123456789":
            scope.refuse(number, "literal", "the number of a group is from 0 to 9")
        group = int(number.this)
    flags = _flags(more[1:], "is", scope)
    return f"{regex.EXTRACT}({go(of)}, {pattern(how, go, scope)}, CAST({group} AS BIGINT), '{flags}')"


def _replace(node: exp.Anonymous, go: Go, scope: Scope) -> str:
    of, how, by, *options = arguments_of(node, scope, 3, 4)
    found = pattern(how, go, scope)
    texts = (_text(by, scope, "the replacement"), _text(how, scope, "a pattern"))
    check_constants("replacement", texts, scope.text, by.meta["start"])
    scope.check("replacement", by, how)
    return f"{regex.REPLACE}({go(of)}, {found}, {go(by)}, '{_flags(options, 'gis', scope)}')"


def check_constants(kind: str, values: tuple[Any, ...], text: str, at: int) -> None:
    """Refuse constants that their function cannot work with. A remembered shape is checked with its new constants too."""
    fault = (regex.fault_of_replacement if kind == "replacement" else regex.fault_of_pattern)(*values)
    if fault:
        refuse("pattern", fault, text, at)


_SPECIAL: dict[str, Callable[[exp.Anonymous, Go, Scope], str]] = {
    "round": _round, "date_trunc": _trunc, "date_part": _part, "date_diff": _diff, "datediff": _diff,
    "to_timestamp": _to_timestamp, "epoch_ms": _epoch_ms, "strftime": _format, "strptime": _format, "try_strptime": _format,
    "regexp_matches": _matches, "regexp_like": _matches, "regexp_full_match": _matches, "regexp_extract": _extract,
    "regexp_replace": _replace, "json_array_length": _json_about, "json_type": _json_about, "json_valid": _json_valid,
    **dict.fromkeys(_JSON, _json),
}  # fmt: skip
