"""The supported expressions, rewritten over slots and constants.

Only what this module writes can run. A node that it does not know is refused by name, and the
user's text reaches the engine only as data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sqlglot import exp

from headgate.errors import QueryRefused
from headgate.sql import like
from headgate.sql.source_schema import TIME, TYPES, SourceSchema
from headgate.sql.text import Literal

BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
    exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=",
    exp.And: "AND", exp.Or: "OR", exp.Like: "LIKE", exp.ILike: "ILIKE", exp.DPipe: "||",
}  # fmt: skip
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
PREDICATES = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Like,
    exp.ILike,
    exp.Is,
    exp.Between,
    exp.In,
)
LOOSE = (*PREDICATES, exp.Not, exp.And, exp.Or)
FUNCTIONS: dict[type[exp.Expression], tuple[str, tuple[str, ...]]] = {
    exp.Abs: ("abs", ("this",)), exp.Floor: ("floor", ("this",)), exp.Ceil: ("ceil", ("this",)),
    exp.Sqrt: ("sqrt", ("this",)), exp.Ln: ("ln", ("this",)), exp.Exp: ("exp", ("this",)), exp.Sign: ("sign", ("this",)),
    exp.Pow: ("pow", ("this", "expression")), exp.Lower: ("lower", ("this",)), exp.Upper: ("upper", ("this",)),
    exp.Length: ("length", ("this",)), exp.Trim: ("trim", ("this",)), exp.Nullif: ("nullif", ("this", "expression")),
    exp.Substring: ("substring", ("this", "start", "length")), exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.Coalesce: ("coalesce", ("this", "expressions")), exp.Greatest: ("greatest", ("this", "expressions")),
    exp.Least: ("least", ("this", "expressions")), exp.Round: ("round", ("this",)),
}  # fmt: skip
AGGREGATES: dict[type[exp.Expression], str] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max",
    exp.Stddev: "stddev_samp", exp.StddevSamp: "stddev_samp", exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp", exp.VariancePop: "var_pop", exp.Median: "median",
}  # fmt: skip
MERGEABLE = {"count", "sum", "avg", "min", "max"}
CASTS = {"BIGINT": "bigint", "INT": "bigint", "DOUBLE": "double", "FLOAT": "double", "VARCHAR": "varchar", "TEXT": "varchar",
         "BOOLEAN": "boolean", "TIMESTAMP": "timestamp"}  # fmt: skip
WINDOWS = ("TUMBLE", "HOP")


def place_of(node: exp.Expression, text: str) -> tuple[int, int]:
    """Line and column of a node: those of the first node below it that has a position."""
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return line_column(text, min(starts, default=0))


def line_column(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1, of a character."""
    before = text[: min(at, len(text))]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def refuse(reason: str, message: str, text: str, at: int | tuple[int, int]) -> NoReturn:
    """Raise QueryRefused with the message and the position."""
    line, column = line_column(text, at) if isinstance(at, int) else at
    raise QueryRefused(f"{message} (line {line}, column {column})", reason, line, column)


def check_range(literal: Literal, text: str) -> None:
    """Refuse a number that its type cannot hold."""
    if not literal.fits:
        shown = literal.text if len(literal.text) <= 40 else f"{literal.text[:37]}..."
        refuse("number", f"{shown} is too large for a {literal.type}", text, literal.start)


@dataclass
class Scope:
    """What names mean in one query. It collects the constants and slots that are used."""

    text: str
    kinds: Mapping[str, tuple[int, SourceSchema]]
    """By alias: the number of the source and its schema."""
    literals: Mapping[int, tuple[int, Literal]]
    """By position in the text: number and literal."""
    functions: frozenset[str]
    fixed: set[int] = field(default_factory=set)
    """Positions of the literals that belong to the template."""
    constants: list[int] = field(default_factory=list)
    """Numbers of the literals that are constants, in the order of p0, p1..."""
    slots: list[set[str]] = field(default_factory=lambda: [set(), set(), set()])
    called: set[str] = field(default_factory=set)

    def refuse(self, node: exp.Expression, reason: str, message: str) -> NoReturn:
        """Refuse the query at the position of a node."""
        refuse(reason, message, self.text, place_of(node, self.text))

    def column(self, node: exp.Column) -> str:
        """A column as a slot of a source."""
        name, table = node.name.lower(), node.table.lower()
        if node.args.get("db") or node.args.get("catalog"):
            self.refuse(node, "name", f"{node.sql()!r} has too many parts: write source.column")
        if table and table not in self.kinds:
            self.refuse(
                node,
                "unknown-source",
                f"{table!r} is not a source of this query; the sources are {', '.join(self.kinds)}",
            )
        homes = [
            (i, k)
            for a, (i, k) in self.kinds.items()
            if (not table or a == table) and (name == TIME or name in k.columns)
        ]
        if not homes:
            known = sorted(
                {c for a, (_, k) in self.kinds.items() if not table or a == table for c in k.columns}
            )
            self.refuse(
                node,
                "unknown-column",
                f"there is no column {name!r}; the columns are {TIME}, {', '.join(known)}",
            )
        if len(homes) > 1:
            self.refuse(node, "ambiguous", f"column {name!r} is in {len(homes)} sources: write source.{name}")
        source, kind = homes[0]
        if name == TIME:
            return f"r{source}.time"
        self.slots[source].add(kind.slots[name])
        return f"r{source}.{kind.slots[name]}"

    def literal(self, node: exp.Literal) -> str:
        """A literal: a constant of the query, unless it is fixed in the template."""
        number, literal = self.found(node)
        check_range(literal, self.text)
        if node.meta["start"] in self.fixed:
            value = literal.value
            return (
                "'" + value.replace("'", "''") + "'"
                if isinstance(value, str)
                else f"CAST({value!r} AS {literal.type})"
            )
        if number not in self.constants:
            self.constants.append(number)
        return f"c.p{self.constants.index(number)}"

    def found(self, node: exp.Literal) -> tuple[int, Literal]:
        """The literal of the text that a node stands for; anything but a plain number or text is refused."""
        start, end = node.meta.get("start"), node.meta.get("end")
        known = self.literals.get(start) if start is not None else None
        if known is None or start is None or known[1].text != self.text[start : (end or 0) + 1]:
            self.refuse(node, "literal", f"{node.sql()} is not a plain number or 'text'")
        return known


def write(node: Any, scope: Scope, leaf: Callable[[exp.Expression], str | None] = lambda node: None) -> str:
    """Rewrite an expression as SQL. `leaf` is asked first, because it may know another meaning of a node."""

    def go(part: Any) -> str:
        if not isinstance(part, exp.Expression):
            raise QueryRefused(
                f"something is missing in {node.sql()!r}", "syntax", *place_of(node, scope.text)
            )
        known = leaf(part)
        return known if known is not None else _one(part, go, scope)

    return go(node)


def _one(node: exp.Expression, go: Callable[[Any], str], scope: Scope) -> str:
    kind = type(node)
    _unmixed(node, scope)
    if kind in BINARY:
        if isinstance(node, (exp.Like, exp.ILike)):
            _only(node, ("this", "expression", "negate"), scope)
            found = like.written(go(node.this), go(node.expression), BINARY[kind])
            return f"(NOT {found})" if node.args.get("negate") else found
        _only(node, ("this", "expression"), scope)
        return f"({go(node.this)} {BINARY[kind]} {go(node.expression)})"
    if kind in FUNCTIONS:
        return _call(node, go, scope)
    if isinstance(node, exp.Paren):
        return go(node.this)
    if isinstance(node, exp.Column):
        if isinstance(node.this, exp.Star):
            scope.refuse(node, "star", "* can only be the whole SELECT list")
        return scope.column(node)
    if isinstance(node, exp.Literal):
        return scope.literal(node)
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if isinstance(node, exp.Null):
        return "NULL"
    if isinstance(node, exp.Not):
        return f"(NOT {go(node.this)})"
    if isinstance(node, exp.Neg):
        return f"(- {go(node.this)})"
    if isinstance(node, exp.Is) and isinstance(node.expression, (exp.Null, exp.Boolean)):
        return f"({go(node.this)} IS {go(node.expression)})"
    if isinstance(node, exp.Between):
        _only(node, ("this", "low", "high"), scope)
        return f"({go(node.this)} BETWEEN {go(node.args['low'])} AND {go(node.args['high'])})"
    if isinstance(node, exp.In) and node.expressions:
        _only(node, ("this", "expressions"), scope)
        return f"({go(node.this)} IN ({', '.join(map(go, node.expressions))}))"
    if isinstance(node, exp.Case):
        return _case(node, go, scope)
    if isinstance(node, exp.Cast) and kind in (exp.Cast, exp.TryCast):
        name = node.to.this.value if isinstance(node.to.this, exp.DataType.Type) else ""
        if name not in CASTS or node.to.expressions:
            scope.refuse(node, "type", f"CAST to {node.to.sql()!r}; the types are {', '.join(TYPES)}")
        return f"{'TRY_CAST' if kind is exp.TryCast else 'CAST'}({go(node.this)} AS {CASTS[name]})"
    if isinstance(node, exp.Anonymous) and node.name.lower() in scope.functions:
        scope.called.add(node.name.lower())
        return f"{node.name.lower()}({', '.join(map(go, node.expressions))})"
    _unknown(node, scope)


def _unmixed(node: exp.Expression, scope: Scope) -> None:
    """Require parentheses between operators whose precedence differs between engines."""
    operands = [
        _bare(operand, scope.text)
        for operand in (node.this, node.args.get("expression"), node.args.get("low"))
    ]
    if isinstance(node, (*ARITHMETIC, *PREDICATES, exp.Neg, exp.DPipe)):
        bad: list[Any] = [operand for operand in operands if isinstance(operand, LOOSE)]
        if isinstance(node, exp.DPipe):
            bad += [operand for operand in operands if isinstance(operand, (*ARITHMETIC, exp.Neg))]
        elif isinstance(node, (*ARITHMETIC, exp.Neg)):
            bad += [operand for operand in operands if isinstance(operand, exp.DPipe)]
        if bad:
            scope.refuse(bad[0], "parentheses", f"put parentheses around {_short(bad[0])}")


def _bare(node: Any, text: str) -> Any:
    """A node without the parentheses that the parser added and the text does not have."""
    if isinstance(node, exp.Paren):
        start = min((n.meta["start"] for n in node.walk() if "start" in n.meta), default=0)
        return node if text[:start].rstrip().endswith("(") else node.this
    return node


def _unknown(node: exp.Expression, scope: Scope) -> NoReturn:
    if isinstance(node, (exp.Select, exp.Subquery, exp.SetOperation, exp.Exists)):
        scope.refuse(node, "subquery", "a query inside a query is not supported: register both")
    if isinstance(node, exp.Window):
        scope.refuse(
            node, "over", "OVER is not supported: GROUP BY ..., LAST n ROWS gives an aggregate for every row"
        )
    if type(node) in AGGREGATES or isinstance(node, exp.AggFunc):
        scope.refuse(node, "aggregate", f"{node.key}() cannot stand here: aggregates belong to SELECT and HAVING, and are "
                     f"{', '.join(sorted(set(AGGREGATES.values())))}")  # fmt: skip
    if isinstance(node, (exp.Anonymous, exp.Func)):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        if name.upper() in WINDOWS or isinstance(node, exp.Last):
            scope.refuse(node, "window", f"{name.upper()} belongs to GROUP BY")
        known = sorted({n for n, _ in FUNCTIONS.values()} | set(scope.functions))
        scope.refuse(
            node,
            "unknown-function",
            f"there is no function {name.lower()!r}; the functions are {', '.join(known)}",
        )
    scope.refuse(node, "unsupported", f"{type(node).__name__.upper()} is not supported: {_short(node)}")


def _short(node: exp.Expression) -> str:
    shown = node.sql("duckdb")
    return shown if len(shown) < 60 else shown[:57] + "..."


def _only(node: exp.Expression, keys: Sequence[str], scope: Scope) -> None:
    """Refuse a node that has other parts than the known ones."""
    more = [
        k for k, v in node.args.items() if v not in (None, False, [], "") and k not in (*keys, *_HARMLESS)
    ]
    if more:
        scope.refuse(
            node, "unsupported", f"{more[0].strip('_').upper()} is not supported here: {_short(node)}"
        )


_HARMLESS = ("typed", "safe", "is_string", "coalesce", "ignore_nulls", "big_int", "zero_start", "trunc")
"""Arguments that the parser adds for its own use."""


def _call(node: exp.Expression, go: Callable[[Any], str], scope: Scope) -> str:
    name, keys = FUNCTIONS[type(node)]
    if isinstance(node, exp.Round):
        _only(node, ("this", "decimals"), scope)
        digits = node.args.get("decimals")
        if digits is None:
            return f"round({go(node.this)})"
        if not isinstance(digits, exp.Literal) or not str(digits.this).isdecimal() or int(digits.this) > 15:
            scope.refuse(node, "literal", "round takes a number of digits from 0 to 15")
        return f"round({go(node.this)}, {int(digits.this)})"
    _only(node, keys, scope)
    arguments = list[str]()
    for key in keys:
        value = node.args.get(key)
        arguments += map(go, value) if isinstance(value, list) else [go(value)] if value is not None else []
    return f"{name}({', '.join(arguments)})"


def _case(node: exp.Case, go: Callable[[Any], str], scope: Scope) -> str:
    subject = f" {go(node.this)}" if node.this else ""
    arms = "".join(f" WHEN {go(arm.this)} THEN {go(arm.args.get('true'))}" for arm in node.args["ifs"])
    default = node.args.get("default")
    return f"(CASE{subject}{arms}{f' ELSE {go(default)}' if default else ''} END)"
