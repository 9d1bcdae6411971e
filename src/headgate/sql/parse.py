"""Parse a text as one SELECT over known sources, or as a UNION ALL of several, or refuse it with the position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from headgate.errors import QueryRefused
from headgate.sql.dialect import DIALECT
from headgate.sql.expressions import Scope
from headgate.sql.limits import Limits
from headgate.sql.punctuation import check_punctuation
from headgate.sql.source_schema import SourceSchema
from headgate.sql.text import Shape, open_quote, readable
from headgate.sql.wording import KEYWORDS, did_you_mean, quoted, refuse, shown, span_of

TAKEN = ("expressions", "from_", "joins", "where", "group", "having")
TAKEN_OF_ARM = ("expressions", "from_", "where")
CLAUSES = {
    "with_": "WITH", "order": "ORDER BY", "limit": "LIMIT", "offset": "OFFSET", "distinct": "DISTINCT", "qualify": "QUALIFY",
    "windows": "WINDOW", "sample": "TABLESAMPLE", "into": "INTO", "laterals": "LATERAL", "pivots": "PIVOT", "joins": "a join",
    "group": "GROUP BY", "having": "HAVING", "locks": "FOR UPDATE", "by_name": "BY NAME",
}  # fmt: skip
"""Clauses by the parser's names for them."""
CLOSING = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACKET: TokenType.R_BRACKET,
    TokenType.L_BRACE: TokenType.R_BRACE,
    TokenType.CASE: TokenType.END,
}
"""What closes each kind of bracket."""
PARAMETERS = (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON)
MOST_TYPED = 3
"""How deep brackets may nest that follow the name of a type (ARRAY[, ROW(): each makes the parser take twice as long."""
MOST_ARMS = 8
"""How many SELECTs a UNION ALL may have."""


@dataclass(frozen=True)
class Statement:
    """A query as it was parsed: a SELECT, and the SELECTs that it reads if these are in its place of a source."""

    tree: exp.Select | None
    """None for a UNION ALL of which each row is a result."""
    arms: tuple[exp.Select, ...] = ()
    alias: str = ""
    """The name of the SELECTs together."""

    @property
    def cost(self) -> int:
        """Nodes of the expressions, times the sources whose rows they are computed for."""
        above = sum(1 for _ in self.tree.walk()) if self.tree is not None else 0
        below = sum(1 for arm in self.arms for _ in arm.walk())
        return (above if self.tree is None else above - below) * len(self.tables()) + below

    @property
    def joins(self) -> list[exp.Join]:
        """The joins, in the order of the text."""
        return [] if self.tree is None else self.tree.args.get("joins") or []

    @property
    def swapped(self) -> bool:
        """Whether the second source of the text is the first: that of a RIGHT JOIN."""
        return len(self.joins) == 1 and str(self.joins[0].args.get("side") or "").upper() == "RIGHT"

    @property
    def full(self) -> bool:
        """Whether a join keeps the rows of both sources."""
        return any(str(join.args.get("side") or "").upper() == "FULL" for join in self.joins)

    def tables(self) -> list[Any]:
        """The sources, in the order of the text."""
        if self.arms:
            return [arm.args["from_"].this for arm in self.arms]
        assert self.tree is not None
        return [self.tree.args["from_"].this, *(join.this for join in self.joins)]


def check_characters(text: str, limits: Limits) -> None:
    """Refuse a text that is too long, or that not every database can keep."""
    if len(text) > limits.text:
        refuse(
            "too-long",
            f"the query has {len(text)} characters, and {limits.text} is the limit",
            text,
            limits.text,
        )
    if "\0" in text:
        refuse("syntax", "the query has a NUL character in it", text, text.index("\0"))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        refuse("syntax", "the query has half a character (a lone surrogate) in it", text, error.start)


def parsed(text: str, limits: Limits) -> Statement:
    """The text as one statement that has only supported clauses."""
    tokens: Sequence[Token] = ()
    try:
        tokens = DIALECT.tokenize(readable(text))
        _check_nesting(tokens, text, limits)
        check_punctuation(tokens, text)
        statements = [tree for tree in DIALECT.parser().parse(list(tokens), text) if tree is not None]
    except QueryRefused:
        raise
    except ParseError as error:
        _unreadable(error, tokens, text)
    except (
        SqlglotError,
        RecursionError,
        ValueError,
        AttributeError,
        TypeError,
        IndexError,
        KeyError,
    ):
        # The parser is not made for hostile texts: some of them make it raise other errors.
        why = "this is not SQL" if tokens else "a quote or a comment has no end"
        refuse("syntax", f"this cannot be read: {why}", text, 0 if tokens else open_quote(text))
    if len(statements) != 1:
        ends = next((token.start for token in tokens if token.token_type is TokenType.SEMICOLON), 0)
        refuse(
            "statements", f"there are {len(statements)} statements: register one query at a time", text, ends
        )
    tree: Any = statements[0]
    if isinstance(tree, (exp.SetOperation, exp.Subquery)):
        return Statement(None, _arms(tree, text))
    if not isinstance(tree, exp.Select):
        word = text[tokens[0].start : tokens[0].end + 1]
        begins = (
            f"a query begins with SELECT, and this one with {shown(word)!r}{did_you_mean(word, ('SELECT',))}"
        )
        refuse("not-select", begins, text, tokens[0].start)
    _check_clauses(tree, TAKEN, text, "in a standing query")
    inner = tree.args["from_"].this
    if not isinstance(inner, exp.Subquery):
        return Statement(tree)
    more = [k for k, v in inner.args.items() if v not in (None, False, []) and k not in ("this", "alias")]
    alias = inner.args.get("alias")
    if more or tree.args.get("joins") or (alias is not None and alias.args.get("columns")):
        refuse("unsupported", "a SELECT in the place of a source stands there alone", text, span_of(inner)[0])
    return Statement(tree, _arms(inner.this, text), alias.name.lower() if alias is not None else "")


def _arms(tree: Any, text: str) -> tuple[exp.Select, ...]:
    """The SELECTs of a UNION ALL, first to last."""
    while isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
        tree = tree.this
    if isinstance(tree, exp.SetOperation):
        if not isinstance(tree, exp.Union) or tree.args.get("distinct"):
            advice = "write UNION ALL, which keeps all rows"
            refuse(
                "union",
                f"a standing query cannot compare all rows that ever come: {advice}",
                text,
                span_of(tree)[0],
            )
        known = ("this", "expression", "distinct")
        for name, value in tree.args.items():
            if name not in known and value not in (None, False, [], ""):
                clause = CLAUSES.get(name, "this clause")
                refuse("unsupported", f"{clause} is not supported after UNION ALL", text, span_of(value)[0])
        arms = (*_arms(tree.this, text), *_arms(tree.expression, text))
        if len(arms) > MOST_ARMS:
            refuse(
                "too-many-sources", f"a UNION ALL has at most {MOST_ARMS} parts", text, span_of(arms[-1])[0]
            )
        return arms
    if not isinstance(tree, exp.Select):
        refuse("not-a-source", f"{quoted(tree, text)} is not the name of a source", text, span_of(tree)[0])
    _check_clauses(tree, TAKEN_OF_ARM, text, "in a SELECT that is a part of a query")
    return (tree,)


def _check_clauses(tree: exp.Select, taken: Sequence[str], text: str, where: str) -> None:
    for name, value in tree.args.items():
        if name not in taken and value not in (None, False, []):
            clause = CLAUSES.get(name, "a clause")
            at = min((span_of(v)[0] for v in (value if isinstance(value, list) else [value])), default=0)
            refuse("unsupported", f"{clause} is not supported {where}", text, at)
    if not tree.args.get("from_"):
        refuse("no-source", "a query reads a source: add FROM", text, 0)


def _unreadable(error: ParseError, tokens: Sequence[Token], text: str) -> NoReturn:
    """Refuse a text at the word where the parser stopped, with the keyword that may have been meant."""
    told: Mapping[str, Any] = error.errors[0] if error.errors else {}
    line, end = int(told.get("line") or 1), max(int(told.get("col") or 1), 1)
    word = str(told.get("highlight") or "")
    place = (line, max(end - len(word) + 1, 1))
    what = str(told.get("description") or "")
    at = next((i for i, t in enumerate(tokens) if (t.line, t.col) == (line, end)), len(tokens))
    near = ""
    first = text[tokens[0].start : tokens[0].end + 1] if tokens else ""
    if meant := did_you_mean(first, ("SELECT",)):
        refuse(
            "syntax",
            f"a query begins with SELECT, and this one with {shown(first)!r}{meant}",
            text,
            tokens[0].start,
        )
    if at == 0:  # it did not get beyond the beginning: a parameter is read as the beginning of something else
        for token in tokens:
            if token.token_type in PARAMETERS:
                refuse("parameter", "a query has no parameters: write the value itself", text, token.start)
    for token in reversed(tokens[max(at - 2, 0) : at + 1]):
        plain = text[token.start : token.end + 1]
        near = near or (did_you_mean(plain, KEYWORDS) if plain.isalpha() else "")
    if what.startswith("Expecting ") and len(what) == len("Expecting ") + 1:
        message = f"{what[-1]} is missing" + (f" at {shown(word)!r}" if word else "")
    elif (at >= len(tokens) - 1 and not near) or not word:
        message = "the text ends too early" + (f", after {shown(word)!r}" if word else "")
    else:
        message = f"{shown(word)!r} cannot be read here"
    refuse("syntax", f"{message}{near}", text, place)


def _check_nesting(tokens: Sequence[Token], text: str, limits: Limits) -> None:
    """Refuse what would take the parser long, before it begins."""
    awaited, typed = list[TokenType](), list[int]()
    before = None
    for token in tokens:
        if token.token_type in CLOSING:
            if before in DIALECT.parser_class.TYPE_TOKENS:
                typed.append(len(awaited))
            awaited.append(CLOSING[token.token_type])
        elif awaited and token.token_type == awaited[-1]:
            awaited.pop()
            if typed and typed[-1] == len(awaited):
                typed.pop()
        before = token.token_type
        if len(awaited) > limits.nesting or len(typed) > MOST_TYPED:
            most = f"{limits.nesting} deep, or {MOST_TYPED} deep after the names of types"
            refuse(
                "nesting",
                f"the query has too many brackets within brackets: at most {most}",
                text,
                token.start,
            )


def table_names(text: str, limits: Limits) -> tuple[str, ...]:
    """The sources that a text reads, in the order of their numbers."""
    statement = parsed(text, limits)
    names = [_table(node, text)[0] for node in statement.tables()]
    return tuple(reversed(names) if statement.swapped else names)


def _table(node: Any, text: str) -> tuple[str, str]:
    """Name and alias of a source."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        refuse("not-a-source", f"{quoted(node, text)} is not the name of a source", text, span_of(node)[0])
    alias = node.args.get("alias")
    more = [k for k, v in node.args.items() if v not in (None, False, []) and k not in ("this", "alias")]
    if more or (alias is not None and alias.args.get("columns")):
        refuse(
            "not-a-source", f"{quoted(node, text)} is not the plain name of a source", text, span_of(node)[0]
        )
    name = node.name.lower()
    return name, (alias.name.lower() if alias is not None else name)


def scope_of(
    statement: Statement,
    shape: Shape,
    text: str,
    kinds: Mapping[str, SourceSchema],
    functions: frozenset[str],
) -> Scope:
    """What names mean in a query that reads sources, without those that it reads through other SELECTs."""
    literals = {literal.start: (i, literal) for i, literal in enumerate(shape.literals)}
    scope = Scope(text, {}, literals, functions)
    if statement.arms:
        return scope
    sources_by_alias = dict[str, tuple[int, SourceSchema]]()
    nodes = statement.tables()
    for i, node in enumerate(nodes):
        alias, kind = known_table(node, text, kinds)
        if i > 2:
            refuse("too-many-sources", "a join has two or three sources", text, span_of(node)[0])
        if alias in sources_by_alias:
            refuse(
                "ambiguous",
                f"{alias!r} names two sources: give one of them another alias",
                text,
                span_of(node)[0],
            )
        sources_by_alias[alias] = (len(nodes) - 1 - i if statement.swapped else i, kind)
    scope.kinds = sources_by_alias
    return scope


def known_table(node: Any, text: str, kinds: Mapping[str, SourceSchema]) -> tuple[str, SourceSchema]:
    """The alias and the schema of a source that is named in a text."""
    name, alias = _table(node, text)
    if name not in kinds:
        known = sorted(kinds)
        named = f"the sources are {', '.join(known[:10]) or 'none yet'}{did_you_mean(name, known[:500])}"
        refuse("unknown-source", f"there is no source {name!r}; {named}", text, span_of(node)[0])
    return alias, kinds[name]
