"""From texts to (template, sources, constants). Each shape of text is parsed once.

Law: the result does not depend on which texts were prepared before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from headgate.errors import QueryFailed, QueryRefused
from headgate.sql.engine import Engine, Function
from headgate.sql.expressions import check_range
from headgate.sql.functions import check_constants
from headgate.sql.limits import Limits
from headgate.sql.parse import check_characters, table_names
from headgate.sql.read import Reading, read
from headgate.sql.source_schema import SourceSchema
from headgate.sql.template import Mode, Template
from headgate.sql.text import Literal, Shape, shape_of
from headgate.sql.trial import Part, plainly_right, to_try, why_never
from headgate.sql.wording import in_users_words, not_a_result, place_of, refuse

Constant = int | float | str
Readings = dict[tuple[str, ...], Reading]
DO_NOT_FIT = "the types of this do not fit: CAST its values to bigint, double, varchar, boolean or timestamp"
MOST_SHAPES = 50_000
"""Size of the cache of shapes. When it is full, it is emptied, so that its memory is bounded."""


class Prepared(NamedTuple):
    """A query that was accepted. Two queries with equal parts are one computation."""

    template: Template
    sources: tuple[str, ...]
    constants: tuple[Constant, ...]

    def explanation(self) -> dict[str, Any]:
        """What the query became, as plain data."""
        template = self.template
        rows = template.mode is Mode.rows
        return {
            "mode": template.mode.value,
            "sources": list(self.sources),
            "constants": list(self.constants),
            "columns": list(template.names),
            "cost": template.cost,
            "statement": template.rows_sql() if rows else template.begin_sql(),
        }


@dataclass
class Preparer:
    """Prepares queries, with a cache of the shapes that it has seen."""

    limits: Limits = field(default_factory=Limits)
    functions: Mapping[str, Function] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._engine = Engine(self.functions)
        self._known = dict[tuple[str, ...], tuple[tuple[int, ...], Readings]]()
        """By shape and columns: which literals are part of the template, and what was read, by these."""
        self._readings = 0
        self._tried = set[tuple[str, tuple[Constant, ...]]]()
        """Templates with constants that they can be computed with."""

    def prepare(self, text: str, kinds: Mapping[str, SourceSchema]) -> Prepared:
        """Prepare a query over these sources, or raise QueryRefused."""
        check_characters(text, self.limits)
        shape = shape_of(text)
        names, reading = shape.sources, self._known_reading(shape, kinds)
        if reading is None:
            names = table_names(text, self.limits)
            reading = self._read(shape, text, kinds)
            if names == shape.sources:
                self._remember(shape, kinds, reading)
        prepared = _prepared(reading, shape, names)
        if reading.parts:
            self._try(reading, prepared, shape)
        return prepared

    def remembered(self, text: str, kinds: Mapping[str, SourceSchema]) -> Prepared | None:
        """The same if the shape of the text is known and its constants need no trial, else None. Several threads may
        call this at once.
        """
        check_characters(text, self.limits)
        shape = shape_of(text)
        reading = self._known_reading(shape, kinds)
        if reading is None:
            return None
        prepared = _prepared(reading, shape, shape.sources)
        if not reading.parts or (prepared.template.key, prepared.constants) in self._tried:
            return prepared
        return prepared if all(plainly_right(part, prepared.constants) for part in reading.parts) else None

    def _known_reading(self, shape: Shape, kinds: Mapping[str, SourceSchema]) -> Reading | None:
        try:
            key = (shape.text, *[kinds[name].signature for name in shape.sources])
        except KeyError:
            return None
        known = self._known.get(key)
        if known is None:
            return None
        fixed, readings = known
        written = shape.written
        return readings.get(tuple([written[i] for i in fixed]))

    def _try(self, reading: Reading, prepared: Prepared, shape: Shape) -> None:
        """Refuse constants with which some part can be computed for no row."""
        key = (prepared.template.key, prepared.constants)
        if key in self._tried:
            return
        for part in reading.parts:
            if plainly_right(part, prepared.constants):
                continue
            if why := why_never(prepared.template, part, prepared.constants, self._engine):
                refuse("constant", why, shape.query, shape.literals[part.literals[0]].start)
        if len(self._tried) >= MOST_SHAPES:
            self._tried.clear()
        self._tried.add(key)

    def _remember(self, shape: Shape, kinds: Mapping[str, SourceSchema], reading: Reading) -> None:
        if self._readings >= MOST_SHAPES:
            self._known.clear()
            self._readings = 0
        key = (shape.text, *(kinds[name].signature for name in shape.sources))
        fixed = tuple(i for i in range(len(shape.written)) if i not in reading.constants)
        before = self._known.get(key)
        readings = before[1] if before is not None and before[0] == fixed else {}
        readings[tuple(shape.written[i] for i in fixed)] = reading
        self._known[key] = (fixed, readings)
        self._readings += 1

    def _read(self, shape: Shape, text: str, kinds: Mapping[str, SourceSchema]) -> Reading:
        reading = read(shape, text, kinds, self.limits, frozenset(self.functions))
        try:
            schema = bind(reading.template, self._engine)
        except QueryFailed as error:
            line, column = place_of(self._wrong(reading), text)
            why = in_users_words(str(error), DO_NOT_FIT)
            raise QueryRefused(f"{why} (line {line}, column {column})", "types", line, column) from error
        for column_of, node in zip(list(schema)[2:], reading.outputs, strict=True):
            if why := not_a_result(column_of.type):
                line, column = place_of(node, text)
                raise QueryRefused(f"{why} (line {line}, column {column})", "types", line, column)
        return self._with_parts(reading, shape)

    def _with_parts(self, reading: Reading, shape: Shape) -> Reading:
        """What was read, with the parts that each text of its shape has to be tried with."""
        literals, lasting = shape.literals, list[Part]()
        for part in to_try(reading.template, reading.parts, self._engine):
            place = literals[part.literals[0]].start if part.literals else place_of(part.place, shape.query)
            if part.fault:
                refuse("types", part.fault, shape.query, place_of(part.place, shape.query))
            if set(part.literals) & set(reading.constants):
                lasting.append(part)
                continue
            constants = tuple(literals[number].value for number in reading.constants)
            if why := why_never(reading.template, part, constants, self._engine):
                refuse("constant", why, shape.query, place)
        return replace(reading, parts=tuple(lasting))

    def _wrong(self, reading: Reading) -> Any:
        """The first part that the engine does not understand."""
        template = reading.template
        plain = replace(
            template, mode=Mode.rows, condition="true", groups=(), begins=(), merges=(), having="true"
        )
        for clause in reading.clauses:
            if not self._binds(replace(plain, outputs=(clause.sql,))):
                return clause.place
        for sql, place in zip(template.outputs, reading.outputs, strict=True):
            if not self._binds(replace(template, outputs=(sql,), having="true")):
                return place
        return reading.having or reading.outputs[0]

    def _binds(self, template: Template) -> bool:
        try:
            bind(template, self._engine)
        except QueryFailed:
            return False
        return True


def _prepared(reading: Reading, shape: Shape, names: tuple[str, ...]) -> Prepared:
    """What was read, with the values of this text: a shape says nothing about those that come with it."""
    written = shape.written
    constants = tuple([_value(written[number], number, shape) for number in reading.constants])
    for kind, numbers in reading.checks:
        literals = shape.literals
        values = tuple(literals[number].value for number in numbers)
        check_constants(kind, values, shape.query, literals[numbers[0]].start)
    return Prepared(reading.template, names, constants)


def _value(written: str, number: int, shape: Shape) -> Constant:
    """The value of a literal, or QueryRefused if its type cannot hold it."""
    if written.isdecimal() and len(written) < 19:
        return int(written)
    literal = Literal(0, written)
    if not literal.fits:
        check_range(shape.literals[number], shape.query)
    return literal.value


def bind(template: Template, engine: Engine) -> pa.Schema:
    """Run every statement of a template over no rows, to check it; return the schema of its results."""
    engine.give(constants=template.constants_schema.empty_table())
    names = ("rows",) if template.joins == 1 else ("fresh", "kept", "lately")
    engine.give(**dict.fromkeys(names, template.rows_schema.empty_table()))
    new = template.sources_of_rows(1)
    if template.mode is Mode.rows:
        return pa.concat_tables([engine.ask(template.rows_sql(rows)) for rows in new]).schema
    pieces = pa.concat_tables([engine.ask(template.begin_sql(rows)) for rows in new])
    if any(not_a_result(f.type) and not pa.types.is_list(f.type) for f in pieces.schema):
        raise QueryFailed("a group or an aggregate cannot be an interval: epoch(interval) gives its seconds")
    for name in ("batch", "home"):
        pieces = pieces.append_column(name, pa.array([], pa.int64()))
    engine.give(pieces=pieces)
    if template.mode is Mode.last:
        engine.ask(template.history_sql)
        return engine.ask(template.last_sql).schema
    engine.ask(template.merge_sql)
    return engine.ask(template.due_sql).schema
