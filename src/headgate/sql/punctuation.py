"""Commas, brackets and CASE, checked before a text is parsed: the parser passes over what is missing, and guesses."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

from headgate.sql.wording import refuse

OPENING = {
    TokenType.L_PAREN: (TokenType.R_PAREN, ")"),
    TokenType.L_BRACKET: (TokenType.R_BRACKET, "]"),
    TokenType.L_BRACE: (TokenType.R_BRACE, "}"),
    TokenType.CASE: (TokenType.END, "END"),
}
CLOSING = frozenset(closing for closing, _ in OPENING.values())
CLAUSES = frozenset(
    {
        TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.UNION, TokenType.JOIN,
        TokenType.ON, TokenType.SEMICOLON,
    }
)  # fmt: skip
BEFORE_AN_ITEM = frozenset(
    {
        TokenType.SELECT,
        TokenType.COMMA,
        TokenType.L_PAREN,
        TokenType.L_BRACKET,
        TokenType.GROUP_BY,
        TokenType.FROM,
    }
)
"""After these an item follows, so a comma may not."""


def check_punctuation(tokens: Sequence[Token], text: str) -> None:
    """Refuse a comma with nothing beside it, a bracket that is not closed, AS without a name, WHEN without THEN."""
    opened = list[Token]()
    whens = list[int]()
    previous: Token | None = None
    for token in [*tokens, None]:
        kind = token.token_type if token is not None else TokenType.SEMICOLON
        before = previous.token_type if previous is not None else None
        at = token.start if token is not None else len(text)
        if kind == TokenType.COMMA and (before is None or before in BEFORE_AN_ITEM or before in CLAUSES):
            refuse("syntax", "something is missing before this comma", text, at)
        if before == TokenType.COMMA and (kind in CLAUSES or kind in CLOSING):
            assert previous is not None
            refuse("syntax", "something is missing after this comma", text, previous.start)
        if before == TokenType.ALIAS and (kind in CLAUSES or kind in CLOSING or kind == TokenType.COMMA):
            assert previous is not None
            refuse("syntax", "a name is missing after this AS", text, previous.start)
        if token is not None:
            _match(token, opened, whens, text)
        previous = token
    if opened:
        word, closing = text[opened[-1].start : opened[-1].end + 1], OPENING[opened[-1].token_type][1]
        refuse("syntax", f"this {word} has no {closing}", text, opened[-1].start)


def _match(token: Token, opened: list[Token], whens: list[int], text: str) -> None:
    """Follow brackets and CASE; `whens` counts, for each open CASE, the WHENs that wait for their THEN."""
    kind = token.token_type
    if kind in OPENING:
        opened.append(token)
        if kind == TokenType.CASE:
            whens.append(0)
    elif kind in (TokenType.WHEN, TokenType.THEN) and opened and opened[-1].token_type == TokenType.CASE:
        whens[-1] += 1 if kind == TokenType.WHEN else -1
        if whens[-1] not in (0, 1):
            word = "a THEN is missing before this WHEN" if kind == TokenType.WHEN else "this THEN has no WHEN"
            refuse("syntax", word, text, token.start)
    elif kind in CLOSING:
        if not opened or OPENING[opened[-1].token_type][0] != kind:
            if kind == TokenType.END:
                return  # a name, as far as is known here
            refuse("syntax", f"this {text[token.start : token.end + 1]} closes nothing", text, token.start)
        if opened.pop().token_type == TokenType.CASE and whens.pop():
            refuse("syntax", "a THEN is missing before this END", text, token.start)
    elif kind == TokenType.ELSE and opened and opened[-1].token_type == TokenType.CASE and whens[-1]:
        refuse("syntax", "a THEN is missing before this ELSE", text, token.start)
