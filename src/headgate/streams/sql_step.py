"""Conditions and selections in Spark SQL, computed on Arrow tables in the map task.

A step computes an expression as Spark does, or not at all: what is not proven to give Spark's answer
raises `NotColumnar` when the step is bound, and the caller leaves it to Spark.

The text is read on the driver, when the step is bound. A task needs nothing but pyarrow and numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headgate.errors import ConfigError, StepFailed
from headgate.streams.sql_check import Check
from headgate.streams.sql_compute import Expr, evaluate
from headgate.streams.sql_parse import parse_condition, parse_item, split_items
from headgate.streams.sql_repeatable import check_repeatable
from headgate.streams.sql_tokens import NotColumnar
from headgate.streams.sql_types import named
from headgate.streams.step import BoundStep, Step

__all__ = ["NotColumnar", "Select", "Where"]


class Where(Step):
    """The rows for which a condition is true.

    `ansi` and `zone` are the session's `spark.sql.ansi.enabled` and `spark.sql.session.timeZone`.
    """

    def __init__(self, text: str, *, ansi: bool = True, zone: str = "UTC") -> None:
        self.text, self.ansi, self.zone = text, ansi, zone
        check_repeatable(text)

    def __repr__(self) -> str:
        return f"where({self.text!r})"

    def bind(self, schema: pa.Schema) -> BoundStep:
        """Read the condition; `NotColumnar` if it is left to Spark."""
        node = parse_condition(self.text)
        condition = Check(schema, self.text, self.ansi, self.zone).expr(node)
        if condition.type != pa.bool_():
            if pa.types.is_null(condition.type):
                raise NotColumnar("a condition that is only NULL is left to Spark")
            raise ConfigError(
                f"where(`{self.text}`) is {named(condition.type)} and not boolean; "
                "compare it with something, such as `amount > 0`"
            )
        return _BoundWhere(schema, condition, self.text)


class Select(Step):
    """Columns, named and computed: "user", "amount * 2 AS twice", or "*" for all that there are."""

    def __init__(self, *texts: str, ansi: bool = True, zone: str = "UTC") -> None:
        if not texts:
            raise ConfigError("select() names no column; name at least one, or '*' for all")
        self.texts, self.ansi, self.zone = texts, ansi, zone
        for text in texts:
            check_repeatable(text)

    def __repr__(self) -> str:
        return f"select({', '.join(map(repr, self.texts))})"

    @property
    def items(self) -> tuple[str, ...]:
        """One text for each item, as Spark's `selectExpr` takes them."""
        return tuple(item for text in self.texts for item in split_items(text))

    def bind(self, schema: pa.Schema) -> BoundStep:
        """Read the items; `NotColumnar` if one is left to Spark."""
        outputs, later = list[_Output](), None
        for text in self.items:
            try:
                outputs += self._outputs(text, schema, frozenset(o.name.lower() for o in outputs))
            except NotColumnar as refusal:  # misuse in a later item comes first
                later = later or refusal
        if later is not None:
            raise later
        seen = dict[str, str]()
        for output in outputs:
            name = output.name.lower()
            if name in seen:
                raise ConfigError(
                    f"select: {output.name!r} is the name of two columns, `{seen[name]}` and `{output.text}`; "
                    "name one of them otherwise with AS"
                )
            seen[name] = output.text
        return _BoundSelect(tuple(outputs), schema)

    def _outputs(self, text: str, schema: pa.Schema, aliases: frozenset[str]) -> list[_Output]:
        item = parse_item(text)
        if item.node is None:
            return [
                _Output(name, Expr("column", schema.field(name).type, value=name), "*")
                for name in schema.names
            ]
        name = item.name
        if name is None:
            if item.node.kind != "column":
                raise ConfigError(f"select: `{text}` has no name; add one, such as `{text} AS x`")
            name = item.node.value[0]
        expr = Check(schema, text, self.ansi, self.zone, aliases).expr(item.node)
        return [_Output(str(name), expr, text)]


@dataclass(frozen=True)
class _Output:
    """A column of a selection."""

    name: str
    expr: Expr
    text: str


def _values(expr: Expr, rows: pa.Table, text: str) -> pa.ChunkedArray:
    if expr.op == "column":
        return rows.column(expr.value)
    try:
        return evaluate(expr, rows)
    except (ArithmeticError, pa.ArrowInvalid) as error:
        raise StepFailed(
            f"`{text}` fails on a row: {error}; Spark fails on it as well in ANSI mode: "
            "exclude such rows with a condition before, or cast to a wider type"
        ) from error


@dataclass(frozen=True)
class _BoundWhere(BoundStep):
    repeatable = True
    schema: pa.Schema
    condition: Expr
    text: str

    def apply(self, rows: pa.Table) -> pa.Table:
        mask = _values(self.condition, rows, self.text)
        kept = sum(chunk.true_count for chunk in mask.chunks)
        return rows if kept == rows.num_rows else rows.filter(mask)

    def needed(self, columns: frozenset[str]) -> frozenset[str]:
        return _some(columns | self.condition.columns, self.schema)


class _BoundSelect(BoundStep):
    repeatable = True

    def __init__(self, outputs: tuple[_Output, ...], before: pa.Schema) -> None:
        self.outputs, self._before = outputs, before
        self.schema = pa.schema([pa.field(output.name, output.expr.type) for output in outputs])

    def apply(self, rows: pa.Table) -> pa.Table:
        there = frozenset(rows.column_names)
        outputs = [output for output in self.outputs if output.expr.columns <= there]
        columns = [_values(output.expr, rows, output.text) for output in outputs]
        return pa.table(columns, schema=pa.schema([self.schema.field(output.name) for output in outputs]))

    def needed(self, columns: frozenset[str]) -> frozenset[str]:
        wanted = [output.expr.columns for output in self.outputs if output.name in columns]
        return _some(frozenset[str]().union(*wanted), self._before)


def _some(columns: frozenset[str], schema: pa.Schema) -> frozenset[str]:
    """At least one column, because rows without columns cannot be counted."""
    return columns or frozenset(schema.names[:1])
