"""Constants are tried where they enter: a query that fails for every row because of a constant is refused, not stopped later.

While expressions are written, the *parts* are noted in which a constant can be wrong. A part that has constants only is
computed. A part that also has values of rows is computed for a few samples of these values, and refused if it can be computed
for none of them: then no row is at fault. Where no constant of the given types can be wrong (a number compared with a
number), there is nothing to try; so most texts of a remembered shape cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headgate.errors import QueryFailed
from headgate.sql.engine import Engine
from headgate.sql.run_words import UNKNOWN, why_it_failed
from headgate.sql.source_schema import TYPES
from headgate.sql.template import Mode, Template
from headgate.sql.wording import in_users_words

ROWS, GROUPS = -1, -2
"""Where an expression stands: over rows, or over groups; a number from 0 is that of a SELECT of a UNION ALL."""
SAMPLES: dict[str, tuple[str, ...]] = {
    "number": ("1", "0", "-1"),
    "BOOLEAN": ("true", "false"),
    "VARCHAR": ("a", "1", "2026-01-01 00:00:00", "true", '{"a": 1}', "[1]", ""),
    "TIMESTAMP": ("2026-01-01 00:00:00", "1970-01-01 00:00:00"),
    "INTERVAL": ("1 second", "1 day"),
    "JSON": ('{"a": 1}', "1", "[1]", '"a"'),
}
"""Values of rows, by type. For each type that a text can be cast to, one of the texts is."""
NUMBERS = ("BIGINT", "DOUBLE", "INTEGER", "SMALLINT", "TINYINT", "UBIGINT", "HUGEINT", "FLOAT", "DECIMAL")
SAME = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.Is)
SUMS = (exp.Add, exp.Sub, exp.Mul, exp.Div)
BOOLEANS = (exp.And, exp.Or, exp.Not)
HARMLESS = (
    exp.Like,
    exp.ILike,
    exp.DPipe,
    exp.RegexpLike,
    exp.RegexpILike,
    exp.TryCast,
    exp.Paren,
    exp.Alias,
)
"""What no constant of the right type can make fail, or what has checks of its own."""
HARMLESS_CALLS = (
    "regexp_matches", "regexp_like", "regexp_full_match", "regexp_extract", "regexp_replace", "starts_with", "contains",
    "string_split", "split", "str_split", "coalesce", "ifnull", "greatest", "least",
)  # fmt: skip
_TIME_CAST = re.compile(r"CAST\(c\.p(\d+) AS timestamp\)")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)?", re.ASCII
)
MIXED = (
    "a list has values of one kind, and this one has texts and numbers: put all of them in quotes, or none"
)


@dataclass(frozen=True)
class Meaning:
    """What an expression was written as."""

    sql: str
    constant: bool
    """Whether it has the same value for every row."""
    literals: frozenset[int] = frozenset()
    """The numbers of the literals in it."""


@dataclass(frozen=True)
class Part:
    """A part of a query in which a constant can be wrong. Its statement is over constants (`c`) and samples (`k.v0`...)."""

    sql: str
    inputs: tuple[Meaning, ...]
    """What the samples stand for."""
    constants: tuple[Meaning, ...]
    place: Any
    where: int
    kinds: tuple[str, ...] = ()
    """The types of the inputs, when they are known."""
    fault: str = ""
    """What is wrong whatever the constants are."""

    @property
    def literals(self) -> tuple[int, ...]:
        """The literals in it, in the order of the text."""
        return tuple(sorted({number for meaning in self.constants for number in meaning.literals}))


Again = Callable[[Callable[[Any], str]], str]
"""Writes a node once more, with another meaning of the nodes below it."""


@dataclass
class Trial:
    """The parts of a query, noted while it is written: a node after those below it."""

    parts: list[Part] = field(default_factory=list)
    _meanings: dict[int, Meaning] = field(default_factory=dict)

    def leaf(self, node: Any, sql: str, *literals: int, constant: bool = False) -> None:
        """Note an expression that has no parts."""
        self._meanings[id(node)] = Meaning(sql, constant, frozenset(literals))

    def note(self, node: Any, sql: str, where: int, again: Again) -> None:
        """Note an expression that was written, and whether something in it has to be tried."""
        inputs, constants = list[Meaning](), list[Meaning]()

        def child(part: Any) -> str:
            meaning = self._meanings[id(part)]
            if meaning.constant:
                constants.append(meaning)
                return meaning.sql
            inputs.append(meaning)
            return f"k.v{len(inputs) - 1}"

        tried = again(child)
        literals = frozenset[int]().union(*(m.literals for m in constants))
        self._meanings[id(node)] = Meaning(sql, not inputs, literals)
        if isinstance(node, exp.In):
            for element in node.expressions:
                self.compared(node.this, element, where)
        elif isinstance(node, exp.Case):
            for arm in node.args["ifs"]:
                if node.this is None:
                    self.condition(arm.this, where)
                else:
                    self.compared(node.this, arm.this, where)
        elif isinstance(node, BOOLEANS):
            for part in (node.this, node.args.get("expression")):
                if part is not None:
                    self.condition(part, where)
        elif (constants or isinstance(node, exp.Cast)) and not _harmless(node):
            self.parts.append(Part(tried, tuple(inputs), tuple(constants), node, where))

    def condition(self, node: Any, where: int) -> None:
        """Note an expression that stands where a truth value is expected."""
        meaning = self._meanings[id(node)]
        if meaning.constant and not isinstance(node, exp.Boolean | exp.Null):
            self.parts.append(Part(f"CAST({meaning.sql} AS BOOLEAN)", (), (meaning,), node, where))

    def compared(self, one: Any, other: Any, where: int) -> None:
        """Note two expressions that are compared without an operator between them."""
        both = (self._meanings[id(one)], self._meanings[id(other)])
        inputs = tuple(m for m in both if not m.constant)
        written = [m.sql if m.constant else f"k.v{inputs.index(m)}" for m in both]
        constants = tuple(m for m in both if m.constant)
        place = exp.EQ(this=one.copy(), expression=other.copy())
        self.parts.append(Part(f"({written[0]} = {written[1]})", inputs, constants, place, where))


def mixed(nodes: Sequence[Any]) -> Any:
    """The first constant of a list whose kind is not that of the first one, a text or a number; None if there is none."""
    constants = [(node, bool(n.is_string)) for node in nodes if isinstance(n := _unsigned(node), exp.Literal)]
    return next((node for node, text in constants if text != constants[0][1]), None)


def _unsigned(node: Any) -> Any:
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return node


def _harmless(node: Any) -> bool:
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower() in HARMLESS_CALLS
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return not node.this.is_string
    return isinstance(node, HARMLESS)


def to_try(template: Template, parts: Iterable[Part], engine: Engine) -> list[Part]:
    """The parts in which a constant can be wrong, now that the types are known. The tables of `bind` are still given."""
    wanted, found = list(parts), list[Part]()
    for where in {part.where for part in wanted}:
        here = [part for part in wanted if part.where == where]
        meanings = [meaning for part in here for meaning in (*part.inputs, *part.constants)]
        kinds = iter(_kinds(template, [meaning.sql for meaning in meanings], where, engine))
        for part in here:
            inputs = tuple(next(kinds) for _ in part.inputs)
            constants = tuple(next(kinds) for _ in part.constants)
            if not _safe(part, inputs, constants):
                found.append(replace(part, kinds=inputs, fault=_fault(part, inputs, constants)))
    return found


def _kinds(template: Template, sqls: Sequence[str], where: int, engine: Engine) -> list[str]:
    """The types of expressions, as the engine names them."""
    if not sqls:
        return []
    outputs = tuple(sqls)
    if where == GROUPS:
        grouped = replace(template, outputs=outputs, having="true")
        statement = grouped.last_sql if template.mode is Mode.last else grouped.due_sql
    elif where == ROWS:
        plain = replace(template, mode=Mode.rows, outputs=outputs, condition="true", where="true")
        statement = plain.rows_sql()
    else:
        listed = ", ".join(f"{sql} AS o{i}" for i, sql in enumerate(outputs))
        statement = f"SELECT 0 AS id, 0 AS at, {listed} FROM rows r{where} CROSS JOIN constants c"
    told = engine.ask(f"SELECT column_type FROM (DESCRIBE {statement})").column(0).to_pylist()
    return [str(kind) for kind in told[2:]]


def _safe(part: Part, inputs: Sequence[str], constants: Sequence[str]) -> bool:
    """Whether no constants of these types can be wrong."""
    kinds, node = [*inputs, *constants], part.place
    if any(_samples(kind) is None for kind in inputs):
        return True  # there is no sample
    numbers = all(_is_number(kind) for kind in kinds)
    one = all(kind == kinds[0] for kind in kinds) or numbers
    if isinstance(node, SAME) or (isinstance(node, exp.Anonymous) and str(node.name).lower() == "nullif"):
        return one or '"NULL"' in kinds
    if isinstance(node, SUMS):
        return bool(inputs) and numbers
    if isinstance(node, exp.Mod):
        return numbers and ("DOUBLE" in kinds or not part.constants or part.sql.endswith("k.v0)"))
    return False


def _fault(part: Part, inputs: Sequence[str], constants: Sequence[str]) -> str:
    """Texts of rows are not compared with what is no text: the engine would take each of them for a number, and fail."""
    other = next((kind for kind in (*inputs, *constants) if kind != "VARCHAR"), "")
    if not isinstance(part.place, (exp.EQ, exp.NEQ, exp.Anonymous)) or "VARCHAR" not in inputs:
        return ""
    if isinstance(part.place.args.get("expression"), exp.Any):  # a text is looked for in a list
        return ""
    if isinstance(part.place, exp.Anonymous) and part.place.name.lower() != "nullif":
        return ""
    known = _is_number(other) or other in ("BOOLEAN", "TIMESTAMP", "INTERVAL") or other.endswith("[]")
    name = "a list" if other.endswith("[]") else other.lower()
    return f"varchar and {name} cannot be compared: CAST one of them" if known else ""


def _is_number(kind: str) -> bool:
    return kind.split("(")[0] in NUMBERS


@lru_cache(1_000)
def _samples(kind: str) -> tuple[str, ...] | None:
    """Samples of a type, as SQL; None if there are none."""
    if kind.endswith("[]"):
        inner = _samples(kind[:-2])
        return None if inner is None else tuple(f"[{sample}]" for sample in inner)
    if kind == '"NULL"':
        return ("NULL",)
    texts = SAMPLES["number"] if _is_number(kind) else SAMPLES.get(kind)
    return None if texts is None else tuple(f"CAST('{text}' AS {kind})" for text in texts)


def plainly_right(part: Part, constants: Sequence[Any]) -> bool:
    """Whether it is clear without a trial that a part can be computed: it is a time in the usual form.

    >>> part = Part("CAST(c.p0 AS timestamp)", (), (), None, ROWS)
    >>> [plainly_right(part, [text]) for text in ("2026-02-28 12:00:00", "2026-02-30", "tomorrow")]
    [True, False, False]
    """
    found = _TIME_CAST.fullmatch(part.sql)
    value = constants[int(found[1])] if found else None
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def why_never(template: Template, part: Part, constants: Sequence[Any], engine: Engine) -> str:
    """Why a part can be computed for no row with these constants; empty if it can be."""
    values = zip(template.constants, constants, strict=True)
    table = pa.table({f"p{i}": pa.array([v], TYPES[kind][1]) for i, (kind, v) in enumerate(values)})
    engine.give(tried=table if constants else pa.table({"none": [0]}))
    tries = [_samples(kind) or () for kind in part.kinds]
    why = ""
    for row in list(zip_longest(*tries)) or [()]:
        sample = [one if one is not None else tries[i][-1] for i, one in enumerate(row)]
        listed = ", ".join(f"{one} AS v{i}" for i, one in enumerate(sample))
        joined = f" CROSS JOIN (SELECT {listed}) k" if listed else ""
        try:
            engine.ask(f"SELECT {part.sql} AS o FROM tried c{joined}")
        except QueryFailed as error:
            why = why or _in_words(str(error))
        else:
            return ""
    return why


def _in_words(said: str) -> str:
    plain = in_users_words(said, "?")
    why = plain if plain != "?" else why_it_failed(said)
    if why == UNKNOWN:
        return "no row can be computed with this constant: write another one"
    return why.replace(", or TRY_CAST gives NULL instead", "").replace(
        "TRY_CAST gives NULL instead", "correct it"
    )
