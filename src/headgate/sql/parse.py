"""Parse a text as one SELECT over known sources, or refuse it with the position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from headgate.errors import QueryRefused
from headgate.sql.expressions import Scope, refuse
from headgate.sql.limits import Limits
from headgate.sql.source_schema import SourceSchema
from headgate.sql.text import Shape, readable

TAKEN = ("expressions", "from_", "joins", "where", "group", "having")
CLOSING = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACKET: TokenType.R_BRACKET,
    TokenType.L_BRACE: TokenType.R_BRACE,
    TokenType.CASE: TokenType.END,
}
"""What closes each kind of bracket."""
MOST_TYPED = 3
"""How deep brackets may nest that follow the name of a type (ARRAY[, ROW(): each makes the parser take twice as long."""
_DIALECT = Dialect.get_or_raise("duckdb")


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


def parsed(text: str, limits: Limits) -> exp.Select:
    """The text as one SELECT that has only supported clauses."""
    try:
        tokens = _DIALECT.tokenize(readable(text))
        _check_nesting(tokens, text, limits)
        statements = [tree for tree in _DIALECT.parser().parse(tokens, text) if tree is not None]
    except QueryRefused:
        raise
    except ParseError as error:
        told: Mapping[str, Any] = error.errors[0] if error.errors else {}
        place = (int(told.get("line") or 1), max(int(told.get("col") or 1), 1))
        refuse("syntax", f"this cannot be read: {told.get('description') or 'it is not SQL'}", text, place)
    except (
        SqlglotError,
        RecursionError,
        ValueError,
        AttributeError,
        TypeError,
        IndexError,
        KeyError,
    ) as error:
        # The parser is not made for hostile texts: some of them make it raise other errors.
        refuse(
            "syntax",
            f"this cannot be read: {str(error).splitlines()[0] if str(error) else 'it is not SQL'}",
            text,
            0,
        )
    if len(statements) != 1:
        refuse("statements", f"there are {len(statements)} statements: register one query at a time", text, 0)
    tree = statements[0]
    if not isinstance(tree, exp.Select):
        refuse("not-select", f"{tree.key.upper()} is not supported: a query is one SELECT", text, 0)
    for name, value in tree.args.items():
        if name not in TAKEN and value not in (None, False, []):
            refuse(
                "unsupported",
                f"{name.strip('_').upper()} is not supported in a standing query",
                text,
                _place(value, text),
            )
    if not tree.args.get("from_"):
        refuse("no-source", "a query reads a source: add FROM", text, 0)
    return tree


def _check_nesting(tokens: Sequence[Token], text: str, limits: Limits) -> None:
    """Refuse what would take the parser long, before it begins."""
    awaited, typed = list[TokenType](), list[int]()
    before = None
    for token in tokens:
        if token.token_type in CLOSING:
            if before in _DIALECT.parser_class.TYPE_TOKENS:
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


def _place(value: Any, text: str) -> int:
    nodes = value if isinstance(value, list) else [value]
    starts = [
        n.meta["start"]
        for node in nodes
        if isinstance(node, exp.Expression)
        for n in node.walk()
        if "start" in n.meta
    ]
    return min(starts, default=0)


def table_names(text: str, limits: Limits) -> tuple[str, ...]:
    """The sources that a text reads, first to last."""
    tree = parsed(text, limits)
    return tuple(_table(node, text)[0] for node in _tables(tree))


def _tables(tree: exp.Select) -> list[Any]:
    return [tree.args["from_"].this, *(join.this for join in tree.args.get("joins") or [])]


def _table(node: Any, text: str) -> tuple[str, str]:
    """Name and alias of a source."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        refuse(
            "not-a-source", f"{node.sql('duckdb')[:60]} is not the name of a source", text, _place(node, text)
        )
    alias = node.args.get("alias")
    more = [k for k, v in node.args.items() if v not in (None, False, []) and k not in ("this", "alias")]
    if more or (alias is not None and alias.args.get("columns")):
        refuse(
            "not-a-source",
            f"{node.sql('duckdb')[:60]} is not the plain name of a source",
            text,
            _place(node, text),
        )
    name = node.name.lower()
    return name, (alias.name.lower() if alias is not None else name)


def scope_of(
    tree: exp.Select, shape: Shape, text: str, kinds: Mapping[str, SourceSchema], functions: frozenset[str]
) -> Scope:
    """What names mean in a query."""
    sources_by_alias = dict[str, tuple[int, SourceSchema]]()
    for i, node in enumerate(_tables(tree)):
        name, alias = _table(node, text)
        if i > 2:
            refuse("too-many-sources", "a join has two or three sources", text, _place(node, text))
        if name not in kinds:
            known = ", ".join(sorted(kinds)[:10])
            refuse(
                "unknown-source",
                f"there is no source {name!r}; the sources are {known or 'none yet'}",
                text,
                _place(node, text),
            )
        if alias in sources_by_alias:
            refuse(
                "ambiguous",
                f"{alias!r} names two sources: give one of them another alias",
                text,
                _place(node, text),
            )
        sources_by_alias[alias] = (i, kinds[name])
    literals = {literal.start: (i, literal) for i, literal in enumerate(shape.literals)}
    return Scope(text, sources_by_alias, literals, functions)
