"""Reads the part of Spark SQL's expressions that steps compute by themselves, with Spark's own precedence.

A text that Spark could read but this cannot raises `NotColumnar`; a text that nobody can read raises
a `ConfigError` with line and column. The parser follows Spark's grammar, rule by rule: a comparison
binds more tightly than IS, IN, LIKE and BETWEEN, and `||` has the rank of `+`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from headgate.errors import ConfigError
from headgate.streams.sql_tokens import NotColumnar, Token, tokens_of, unreadable


@dataclass(frozen=True)
class Node:
    """A part of an expression: what it does, on what, and where it is in the text."""

    kind: str
    at: int
    value: Any = None
    args: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Item:
    """One item of a select: an expression with its name, or all columns if there is no expression."""

    node: Node | None
    name: str | None


DEEPEST, LONGEST = 30, 90
"""How many parentheses stand in one another, and how many operators of a rank in a row."""
_BEYOND = {
    "::", "[", ".", "&", "|", "^", "~", "<<", ">>", "->", "=>", ":", "?", "!<", "!>", "|>", "COLLATE", "RLIKE",
    "REGEXP", "ILIKE", "OVER", "FILTER", "WITHIN", "AT", "INTERVAL", "EXISTS", "SELECT", "WITH", "IGNORE", "RESPECT",
    "NULLS", "SIMILAR", "ESCAPE", "TABLESAMPLE",
}  # fmt: skip
"""Words and signs of Spark's grammar that are not read here."""
_BEGIN = {"INTERVAL", "EXISTS", "SELECT", "WITH"}
"""Those of them that may begin an expression. The others are names of columns there."""
_NEVER = {"AND", "OR", "IS", "IN", "LIKE", "BETWEEN", "DIV", "WHEN", "THEN"}
"""Words that no expression begins with."""
_SELDOM = {
    "AS",
    "END",
    "ELSE",
    "FROM",
    "DISTINCT",
    "ANY",
    "ALL",
    "SOME",
    "USING",
    "ON",
    "ORDER",
    "GROUP",
    "WHERE",
    "HAVING",
}
"""Words that are columns in Spark unless its settings reserve them."""


def parse_condition(text: str) -> Node:
    """One expression."""
    reader = _Reader(text)
    node = reader.condition()
    reader.end()
    return node


def split_items(text: str) -> list[str]:
    """The items of a select, separated by commas.

    >>> split_items("*, round(a, 2) AS b")
    ['*', 'round(a, 2) AS b']
    """
    try:
        tokens = tokens_of(text)
    except NotColumnar:
        return [text]
    starts, depth = [0], 0
    for token in tokens:
        if token.kind == "op":
            depth += (token.text in "([") - (token.text in ")]")
            if token.text == "," and depth == 0:
                starts.append(token.at + 1)
    return [text[a : b - 1].strip() for a, b in zip(starts, [*starts[1:], len(text) + 1], strict=True)]


def parse_item(text: str) -> Item:
    """One item of a select."""
    reader = _Reader(text)
    if reader.accept("*"):
        if reader.kind != "end":
            raise NotColumnar(f"`{text}` changes what * means, which is left to Spark")
        return Item(None, None)
    node, name = reader.condition(), None
    named = reader.accept("AS")
    if named or reader.kind == "quoted" or (reader.kind == "word" and reader.upper not in _BEYOND):
        if reader.upper == "(":
            raise NotColumnar(f"`{text}` gives several names, which is left to Spark")
        name = reader.name("a name")
    reader.end()
    return Item(node, name)


class _Reader:
    """Tokens of a text, and the rules of the grammar from the loosest to the tightest."""

    def __init__(self, text: str) -> None:
        self.text, self._tokens, self._i, self._depth = text, tokens_of(text), 0, 0
        if not self._tokens:
            raise ConfigError("an expression is empty; write it in Spark SQL, such as 'amount > 0'")

    @property
    def _now(self) -> Token:
        return self._tokens[self._i] if self._i < len(self._tokens) else Token("end", "", len(self.text))

    @property
    def here(self) -> int:
        return self._now.at

    @property
    def upper(self) -> str:
        return self._now.upper

    @property
    def kind(self) -> str:
        return self._now.kind

    def accept(self, *words: str) -> str:
        if self.upper and self.upper in words:
            self._i += 1
            return self._tokens[self._i - 1].upper
        return ""

    def _expect(self, word: str) -> None:
        if not self.accept(word):
            self._stop(f"{word} is missing")

    def end(self) -> None:
        if self.kind != "end":
            self._stop("the expression ends before this")

    def _stop(self, why: str) -> NoReturn:
        if self.upper in _BEYOND:
            raise NotColumnar(f"`{self._now.text}` in `{self.text}` is computed by Spark only")
        unreadable(self.text, self.here, why)

    def name(self, what: str) -> str:
        token = self._now
        if token.kind == "quoted":
            self._i += 1
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word":
            self._stop(f"{what} is missing")
        self._i += 1
        return token.text

    def condition(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise NotColumnar("the expression has too many parts in one another, and is left to Spark")
        node = self._chain(self._all, ("OR",))
        self._depth -= 1
        return node

    def _all(self) -> Node:
        return self._chain(self._negated, ("AND",))

    def _chain(self, inner: Callable[[], Node], words: tuple[str, ...]) -> Node:
        node, links = inner(), 0
        while True:
            at = self.here
            word = self.accept(*words)
            if not word:
                return node
            node = Node(_SAME.get(word, word.lower()), at, None, (node, inner()))
            links += 1
            if links > LONGEST:
                raise NotColumnar(f"more than {LONGEST} times {word} in a row is left to Spark")

    def _negated(self) -> Node:
        signs = self._signs("NOT", "!")
        node = self._predicate(self._compared())
        for at, _ in reversed(signs):
            node = Node("not", at, None, (node,))
        return node

    def _predicate(self, node: Node) -> Node:
        at = self.here
        if self.accept("IS"):
            negated = bool(self.accept("NOT"))
            if not self.accept("NULL"):
                raise NotColumnar(f"IS {self._now.text} in `{self.text}` is computed by Spark only")
            found = Node("is null", at, None, (node,))
        else:
            negated = bool(self.accept("NOT"))
            word = self.accept("BETWEEN", "IN", "LIKE")
            if word == "BETWEEN":
                low = self._compared()
                self._expect("AND")
                found = Node("between", at, None, (node, low, self._compared()))
            elif word == "IN":
                self._expect("(")
                found = Node("in", at, None, (node, *self._listed()))
            elif word == "LIKE":
                found = Node("like", at, None, (node, self._compared()))
            elif negated:
                self._stop("NOT is followed by IN, LIKE or BETWEEN here")
            else:
                return node
        return Node("not", at, None, (found,)) if negated else found

    def _compared(self) -> Node:
        return self._chain(self._sum, ("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="))

    def _sum(self) -> Node:
        return self._chain(self._product, ("+", "-", "||"))

    def _product(self) -> Node:
        return self._chain(self._signed, ("*", "/", "%", "DIV"))

    def _signs(self, *words: str) -> list[tuple[int, str]]:
        """Signs before an expression."""
        found, at = list[tuple[int, str]](), self.here
        while word := self.accept(*words):
            found.append((at, word))
            at = self.here
        if len(found) > LONGEST:
            raise NotColumnar(f"more than {LONGEST} times {found[-1][1]} in a row is left to Spark")
        return found

    def _signed(self) -> Node:
        signs = self._signs("-", "+")
        if signs and signs[-1][1] == "-" and self.kind == "number":
            node = self._number(signs.pop()[1])
        else:
            node = self._primary()
        for at, sign in reversed(signs):
            node = Node("neg" if sign == "-" else "plus", at, None, (node,))
        return node

    def _number(self, sign: str = "") -> Node:
        token, self._i = self._now, self._i + 1
        return Node("number", token.at, sign + token.text.upper())

    def _primary(self) -> Node:
        token = self._now
        if token.kind == "number":
            return self._number()
        if token.kind == "string":
            return Node("string", token.at, self._string())
        if self.accept("("):
            node = self.condition()
            if self.upper == ",":
                raise NotColumnar(f"`{self.text}` has a tuple, which is computed by Spark only")
            self._expect(")")
            return Node("paren", token.at, None, (node,))
        if self.accept("NULL", "TRUE", "FALSE"):
            return Node("constant", token.at, {"NULL": None, "TRUE": True, "FALSE": False}[token.upper])
        if self.accept("CASE"):
            return self._case(token.at)
        if token.upper in _NEVER and len(self._tokens) > 1:  # alone it is a column, for Spark
            self._stop(f"a value is missing before {token.text}")
        if token.upper in _SELDOM | _NEVER:
            raise NotColumnar(
                f"`{token.text}` in `{self.text}` is a word of SQL: put a column's name into backquotes"
            )
        if token.upper in _BEYOND and (token.kind != "word" or token.upper in _BEGIN):
            self._stop("")
        name = self.name("a value")
        if token.kind == "word" and self.upper == "(":
            return self._call(name.lower(), token.at)
        if token.upper in ("DATE", "TIMESTAMP") and self.kind == "string":
            return Node(token.upper.lower(), token.at, self._string())
        if token.kind == "word" and self.kind == "string":
            raise NotColumnar(f"{name} {self._now.text} is computed by Spark only")
        parts = [name]
        while self.accept("."):
            parts.append(self.name("the name of a field"))
        return Node("column", token.at, tuple(parts))

    def _string(self) -> str:
        token, self._i = self._now, self._i + 1
        if self.kind == "string":
            raise NotColumnar(f"two strings side by side in `{self.text}` are left to Spark")
        if "\\" in token.text:
            raise NotColumnar(f"`{self.text}` has a backslash in a string, which Spark reads by its settings")
        if token.text[0] == '"':
            raise NotColumnar(
                f"`{self.text}` has double quotes, which Spark reads by its settings: use single quotes"
            )
        return token.text[1:-1].replace("''", "'")

    def _listed(self) -> tuple[Node, ...]:
        """Expressions up to the closing parenthesis, at least one."""
        nodes = [self.condition()]
        while self.accept(","):
            nodes.append(self.condition())
        self._expect(")")
        return tuple(nodes)

    def _call(self, name: str, at: int) -> Node:
        if name not in CALLS:
            raise NotColumnar(f"`{name}` is computed by Spark only")
        self._expect("(")
        if name == "cast":
            node = self.condition()
            self._expect("AS")
            kind = self.name("a type").lower()
            if self.upper != ")":
                raise NotColumnar(f"a cast to {kind}{self._now.text}... is computed by Spark only")
            self._expect(")")
            return Node("cast", at, kind, (node,))
        if self.accept(")"):
            return Node("call", at, name)
        first = self.upper
        nodes = [self.condition()]
        while self.accept(","):
            nodes.append(self.condition())
        if self.upper != ")":
            raise NotColumnar(f"`{name}({first} ... {self._now.text}` is computed by Spark only")
        self._expect(")")
        if self.upper in ("OVER", "FILTER", "WITHIN"):
            raise NotColumnar(f"`{name}` {self.upper} is computed by Spark only")
        return Node("call", at, name, tuple(nodes))

    def _case(self, at: int) -> Node:
        subject = None if self.upper == "WHEN" else self.condition()
        nodes = list[Node]()
        while self.accept("WHEN"):
            when = self.condition()
            nodes.append(when if subject is None else Node("=", when.at, None, (subject, when)))
            self._expect("THEN")
            nodes.append(self.condition())
        if not nodes:
            self._stop("CASE has no WHEN")
        nodes.append(self.condition() if self.accept("ELSE") else Node("constant", at, None))
        self._expect("END")
        return Node("case", at, None, tuple(nodes))


_SAME = {"==": "=", "!=": "<>"}
CALLS = frozenset([
    "abs", "cast", "ceil", "ceiling", "char_length", "character_length", "coalesce", "concat", "contains",
    "date", "date_trunc", "day", "dayofmonth", "dayofweek", "dayofyear", "endswith", "floor", "greatest",
    "hour", "if", "ifnull", "isnan", "isnotnull", "isnull", "least", "left", "len", "length", "ltrim",
    "minute", "month", "nullif", "nvl", "quarter", "rtrim", "second", "sqrt", "startswith", "substr",
    "substring", "timestamp_micros", "to_date", "trim", "unix_micros", "unix_millis", "unix_seconds", "weekday", "year",
])  # fmt: skip
"""The functions that are computed here, under all of their names."""
