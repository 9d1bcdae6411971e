"""The supported expressions, rewritten over slots and constants.

Only what this module writes can run. A node that it does not know is refused by name, and the
user's text reaches the engine only as data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sqlglot import exp

from headgate.sql import functions, like
from headgate.sql.source_schema import TIME, TYPES
from headgate.sql.text import Literal
from headgate.sql.trial import GROUPS, MIXED, ROWS, Trial, mixed
from headgate.sql.wording import did_you_mean, place_of, quoted, refuse

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
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
MATCHES = (exp.RegexpLike, exp.RegexpILike)
LOOSE = (*PREDICATES, exp.Not, exp.And, exp.Or)
ARROWS = (exp.JSONExtract, exp.JSONExtractScalar)
AGGREGATES: dict[str, str] = {
    "count": "count", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max", "median": "median",
    "stddev": "stddev_samp", "stddev_samp": "stddev_samp", "stddev_pop": "stddev_pop", "variance": "var_samp",
    "var_samp": "var_samp", "var_pop": "var_pop", "approx_count_distinct": "approx_count_distinct",
}  # fmt: skip
"""Aggregates by the names that users write."""
MERGEABLE = {"count", "sum", "avg", "min", "max", "approx_count_distinct"}
CASTS = {"BIGINT": "bigint", "INT": "bigint", "DOUBLE": "double", "FLOAT": "double", "VARCHAR": "varchar", "TEXT": "varchar",
         "BOOLEAN": "boolean", "TIMESTAMP": "timestamp", "TIMESTAMPNTZ": "timestamp"}  # fmt: skip
WINDOWS = ("tumble", "hop", "last")


def name_of(node: Any) -> str:
    """The name of a function that is called, in lower case; empty if a node is no call."""
    return str(node.name).lower() if isinstance(node, exp.Anonymous) else ""


def check_range(literal: Literal, text: str) -> None:
    """Refuse a number that its type cannot hold."""
    if not literal.fits:
        shown = literal.text if len(literal.text) <= 40 else f"{literal.text[:37]}..."
        refuse("number", f"{shown} is too large for a {literal.type}", text, literal.start)


@dataclass
class Scope:
    """What names mean in one query. It collects the constants and slots that are used."""

    text: str
    kinds: Mapping[str, tuple[int, Any]]
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
    timed: bool = True
    """Whether rows have a column `time`."""
    checks: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    """What must hold of the constants: the kind of check, and the numbers of its literals."""
    trial: Trial = field(default_factory=Trial)
    """What is tried with the constants before a query is accepted."""
    where: int = ROWS
    """Where expressions stand that are written: see `trial`."""

    def refuse(self, node: exp.Expression, reason: str, message: str) -> NoReturn:
        """Refuse the query at the position of a node."""
        refuse(reason, message, self.text, place_of(node, self.text))

    def column(self, node: exp.Column) -> str:
        """A column as a slot of a source."""
        name, table = node.name.lower(), node.table.lower()
        if node.args.get("db") or node.args.get("catalog"):
            self.refuse(node, "name", f"{quoted(node, self.text)} has too many parts: write source.column")
        if table and table not in self.kinds:
            self.refuse(
                node,
                "unknown-source",
                f"{table!r} is not a source of this query; the sources are {', '.join(self.kinds)}",
            )
        homes = [
            (i, k)
            for a, (i, k) in self.kinds.items()
            if (not table or a == table) and ((name == TIME and self.timed) or name in k.columns)
        ]
        if not homes:
            known = sorted(
                {c for a, (_, k) in self.kinds.items() if not table or a == table for c in k.columns}
            )
            if name in functions.CLOCKS:
                self.refuse(node, "clock", f"{node.name} is not supported: {functions.WHY_NO_CLOCK}")
            columns = ((TIME,) if self.timed else ()) + tuple(known)
            near = did_you_mean(name, columns)
            self.refuse(
                node,
                "unknown-column",
                f"there is no column {name!r}; the columns are {', '.join(columns)}{near}",
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
            return functions.quote(value) if isinstance(value, str) else f"CAST({value!r} AS {literal.type})"
        if number not in self.constants:
            self.constants.append(number)
        return f"c.p{self.constants.index(number)}"

    def found(self, node: exp.Literal) -> tuple[int, Literal]:
        """The literal of the text that a node stands for; anything but a plain number or text is refused."""
        start, end = node.meta.get("start"), node.meta.get("end")
        known = self.literals.get(start) if start is not None else None
        if known is None or start is None or known[1].text != self.text[start : (end or 0) + 1]:
            self.refuse(node, "literal", f"{quoted(node, self.text)} is not a plain number or 'text'")
        return known

    def check(self, kind: str, *nodes: exp.Literal) -> None:
        """Have literals checked whenever a text of this shape comes with new ones."""
        wanted = (kind, tuple(self.found(node)[0] for node in nodes))
        if wanted not in self.checks:
            self.checks.append(wanted)


Leaf = Callable[[exp.Expression], str | None]


def write(node: Any, scope: Scope, leaf: Leaf | None = None) -> str:
    """Rewrite an expression as SQL. `leaf` is asked first, because it may know another meaning of a node."""
    where = scope.where if leaf is None else GROUPS

    def go(part: Any) -> str:
        if not isinstance(part, exp.Expression):
            scope.refuse(node, "syntax", f"something is missing in {quoted(node, scope.text)}")
        known = None if leaf is None else leaf(part)
        sql = known if known is not None else _one(part, go, scope)
        if known is not None or isinstance(part, exp.Column) or name_of(part) in scope.functions:
            scope.trial.leaf(part, sql)
        elif isinstance(part, exp.Literal):
            scope.trial.leaf(part, sql, scope.found(part)[0], constant=True)
        else:
            scope.trial.note(part, sql, where, lambda child: _one(part, child, scope))
        return sql

    return go(node)


def write_condition(node: Any, scope: Scope, leaf: Leaf | None = None) -> str:
    """The same for an expression that is true or false."""
    sql = write(node, scope, leaf)
    scope.trial.condition(node, scope.where if leaf is None else GROUPS)
    return sql


def _one(node: exp.Expression, go: Callable[[Any], str], scope: Scope) -> str:
    kind = type(node)
    _unmixed(node, scope)
    if kind in BINARY:
        return _binary(node, go, scope)
    if isinstance(node, exp.Anonymous):
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
        if (odd := mixed(node.expressions)) is not None:
            scope.refuse(odd, "types", MIXED)
        return f"({go(node.this)} IN ({', '.join(map(go, node.expressions))}))"
    if isinstance(node, exp.Case):
        return _case(node, go, scope)
    if isinstance(node, exp.Cast) and kind in (exp.Cast, exp.TryCast):
        _only(node, ("this", "to", "_type"), scope)
        word = "TRY_CAST" if kind is exp.TryCast else "CAST"
        return f"{word}({go(node.this)} AS {_type(node.to, node, scope)})"
    if (form := _form(node, go, scope)) is not None:
        return form
    _unknown(node, scope)


def _binary(node: exp.Expression, go: Callable[[Any], str], scope: Scope) -> str:
    operator = BINARY[type(node)]
    if isinstance(node, (exp.Like, exp.ILike)):
        _only(node, ("this", "expression", "negate"), scope)
        found = like.written(go(node.this), go(node.expression), operator)
        return f"(NOT {found})" if node.args.get("negate") else found
    _only(node, ("this", "expression"), scope)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        return f"({go(node.this)} = ANY({go(node.expression.this)}))"
    return f"({go(node.this)} {operator} {go(node.expression)})"


def _form(node: exp.Expression, go: Callable[[Any], str], scope: Scope) -> str | None:
    """Functions that are written with words or signs between their arguments."""
    if isinstance(node, ARROWS):
        _only(node, ("this", "expression", "only_json_types", "scalar_only"), scope)
        engine = "json_extract" if isinstance(node, exp.JSONExtract) else "json_extract_string"
        return f"{engine}({functions.document(node.this, go)}, {functions.path(node.expression, scope)})"
    if isinstance(node, (exp.RegexpLike, exp.RegexpILike)):
        _only(node, ("this", "expression"), scope)
        fold = "i" if isinstance(node, exp.RegexpILike) else ""
        return functions.matches(go(node.this), node.expression, go, scope, fold)
    if isinstance(node, exp.Extract) and isinstance(node.this, exp.Var):
        _only(node, ("this", "expression"), scope)
        return functions.field(node.this.name, node.expression, node, go, scope)
    if isinstance(node, exp.Interval):
        return _interval(node, scope)
    if isinstance(node, exp.Array):
        return f"[{', '.join(map(go, node.expressions))}]"
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        at = node.expressions[0]
        if isinstance(at, exp.Slice) or (isinstance(at, exp.Literal) and at.is_string):
            scope.refuse(node, "list", "an element is taken by its number, from 1: list[1]")
        return f"list_extract({go(node.this)}, {go(at)})"
    if isinstance(node, exp.Substring):
        _only(node, ("this", "start", "length"), scope)
        parts = [node.args.get(key) for key in ("this", "start", "length")]
        return f"substring({', '.join(go(part) for part in parts if part is not None)})"
    if isinstance(node, exp.Trim):
        _only(node, ("this",), scope)
        return f"trim({go(node.this)})"
    return None


def _interval(node: exp.Interval, scope: Scope) -> str:
    """INTERVAL '5 minutes'. It belongs to the template."""
    unit, amount = node.args.get("unit"), node.this
    if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var):
        scope.refuse(
            node, "interval", "an interval is written INTERVAL '10 seconds', or n * INTERVAL '1 second'"
        )
    if not str(amount.this).removeprefix("-").isdecimal() or len(str(amount.this)) > 10:
        scope.refuse(node, "interval", "an interval has a whole number of up to 9 digits")
    word = functions.unit(unit.name, functions.UNITS, node, scope)
    return f"INTERVAL '{int(amount.this)} {word}'"


def _type(kind: Any, node: exp.Expression, scope: Scope) -> str:
    """A type that values are cast to: one of five, or a list of one of them."""
    name = kind.this.value if isinstance(kind, exp.DataType) and isinstance(kind.this, exp.DType) else ""
    if name == "ARRAY" and len(kind.expressions) == 1 and not kind.args.get("values"):
        return f"{_type(kind.expressions[0], node, scope)}[]"
    if name not in CASTS or kind.expressions:
        more = "; for a date, use date_trunc('day', ...)" if name.startswith("DATE") else ""
        known = ", ".join(TYPES)
        scope.refuse(node, "type", f"CAST to this type is not supported: the types are {known}{more}")
    return CASTS[name]


def _call(node: exp.Anonymous, go: Callable[[Any], str], scope: Scope) -> str:
    name = name_of(node)
    if name in scope.functions:
        scope.called.add(name)
        return f"{name}({', '.join(map(go, node.expressions))})"
    found = functions.call(node, go, scope)
    if found is None:
        _unknown(node, scope)
    return found


def _unmixed(node: exp.Expression, scope: Scope) -> None:
    """Require parentheses between operators whose precedence differs between engines."""
    operands = [
        _bare(operand, scope.text)
        for operand in (node.this, node.args.get("expression"), node.args.get("low"))
    ]
    bad = list[Any]()
    if isinstance(node, (*ARITHMETIC, *PREDICATES, *MATCHES, *ARROWS, exp.Neg, exp.DPipe)):
        bad += [operand for operand in operands if isinstance(operand, (*LOOSE, *MATCHES))]
        if isinstance(node, (exp.DPipe, *ARROWS)):
            bad += [operand for operand in operands if isinstance(operand, (*ARITHMETIC, exp.Neg))]
        if isinstance(node, (*ARITHMETIC, *ARROWS, exp.Neg)):
            bad += [operand for operand in operands if isinstance(operand, exp.DPipe)]
    if isinstance(node, (*ARITHMETIC, *LOOSE, *MATCHES, exp.Neg, exp.DPipe)):
        clear = isinstance(
            node, COMPARISONS
        )  # an arrow with two heads binds as other operators do, one with one does not
        arrows = exp.JSONExtract if clear else ARROWS
        bad += [operand for operand in operands if isinstance(operand, arrows)]
    if bad:
        scope.refuse(bad[0], "parentheses", f"put parentheses around {quoted(bad[0], scope.text)}")


def _bare(node: Any, text: str) -> Any:
    """A node without the parentheses that the parser added and the text does not have."""
    if isinstance(node, exp.Paren):
        start = min((n.meta["start"] for n in node.walk() if "start" in n.meta), default=0)
        return node if text[:start].rstrip().endswith("(") else node.this
    return node


def _unknown(node: exp.Expression, scope: Scope) -> NoReturn:
    query = isinstance(node, exp.In) and node.args.get("query")
    if query or isinstance(node, (exp.Select, exp.Subquery, exp.SetOperation, exp.Exists)):
        scope.refuse(node, "subquery", "a query inside an expression is not supported: register both")
    if isinstance(node, exp.Window):
        scope.refuse(
            node, "over", "OVER is not supported: GROUP BY ..., LAST n ROWS gives an aggregate for every row"
        )
    if isinstance(node, exp.SimilarTo):
        scope.refuse(
            node, "unsupported", "SIMILAR TO is not supported: use regexp_full_match(text, 'pattern')"
        )
    name = name_of(node)
    written = functions.written(node, scope)
    if name in AGGREGATES:
        scope.refuse(
            node, "aggregate", f"{written}() cannot stand here: aggregates belong to SELECT and HAVING"
        )
    if name in WINDOWS:
        scope.refuse(node, "window", f"{written} belongs to GROUP BY")
    if name in functions.CLOCKS:
        scope.refuse(node, "clock", f"{written}() is not supported: {functions.WHY_NO_CLOCK}")
    if name:
        known = sorted({*functions.names(), *scope.functions, *AGGREGATES})
        near = did_you_mean(name, known)
        scope.refuse(
            node,
            "unknown-function",
            f"there is no function {written!r}{near or '; the functions are ' + ', '.join(known)}",
        )
    scope.refuse(node, "unsupported", f"this is not supported: {quoted(node, scope.text)}")


def _only(node: exp.Expression, keys: Sequence[str], scope: Scope) -> None:
    """Refuse a node that has other parts than the known ones."""
    more = [
        k for k, v in node.args.items() if v not in (None, False, [], "") and k not in (*keys, *_HARMLESS)
    ]
    if more:
        scope.refuse(node, "unsupported", f"this is not supported: {quoted(node, scope.text)}")


_HARMLESS = ("typed", "safe", "is_string", "coalesce", "ignore_nulls", "big_int", "zero_start", "trunc")
"""Arguments that the parser adds for its own use."""


def _case(node: exp.Case, go: Callable[[Any], str], scope: Scope) -> str:
    _only(node, ("this", "ifs", "default"), scope)
    subject = f" {go(node.this)}" if node.this else ""
    arms = "".join(f" WHEN {go(arm.this)} THEN {go(arm.args.get('true'))}" for arm in node.args["ifs"])
    default = node.args.get("default")
    return f"(CASE{subject}{arms}{f' ELSE {go(default)}' if default else ''} END)"
