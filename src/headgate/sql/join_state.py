"""The state of joins on a server: each row once, however many templates and
computations read its source.

A row is kept as long as a partner for it can still come: until, for every computation that reads
it, the slowest source has passed it by more than the join's time bound. A computation does not see
rows that came before it was registered (`batch` against its `born`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.sql.clock import Clock, Times, times_of
from headgate.sql.engine import Engine
from headgate.sql.template import Template

MOST_PIECES = 16
"""When there are this many pieces, they are merged into one."""
Join = tuple[Template, pa.Table]
"""A template that joins, and the constants of its computations here."""


@dataclass(frozen=True)
class JoinState:
    """The rows of a batch that are not late, the earlier rows that can still find partners, and
    the rows to write.
    """

    fresh: pa.Table
    before: pa.Table
    written: pa.Table
    rewritten: bool
    """Whether the written rows replace the earlier pieces."""

    @property
    def relations(self) -> dict[str, pa.Table]:
        """The relations that the statements of joins read, by name."""
        lately = pa.concat_tables([self.before, self.fresh])
        return {"fresh": self.fresh, "kept": self.before, "lately": lately}

    def give(self, engine: Engine) -> None:
        """Register the relations in an engine."""
        engine.give(**self.relations)


def keep(
    joins: Sequence[Join], rows: pa.Table, pieces: Sequence[pa.Table], clock: Clock, batch: int
) -> JoinState:
    """The rows that a batch joins, and those that are kept for the next batch."""
    schema = _schema(rows.schema)
    was, will = _floor(joins, clock.old), _floor(joins, clock.new)
    source = rows.column("source").to_numpy()
    time = times_of(rows)
    in_time = (time >= clock.old[source]) & (time >= was[source])
    came = rows.filter(pa.array(in_time))
    fresh = came.append_column("batch", pa.array(np.full(came.num_rows, batch, np.int64))).select(
        schema.names
    )
    before = pa.concat_tables([schema.empty_table(), *(_fitted(piece, schema) for piece in pieces)])
    before = before.filter(pa.array(_alive(before, was)))
    old, new = _alive(before, will), _alive(fresh, will)
    stored = sum(piece.num_rows for piece in pieces)
    rewritten = len(pieces) > 0 and (len(pieces) >= MOST_PIECES or 2 * int(old.sum()) <= stored)
    written = fresh.filter(pa.array(new))
    if rewritten:
        written = pa.concat_tables([before.filter(pa.array(old)), written])
    return JoinState(fresh.cast(schema), before, written, rewritten)


def crowded(joins: Sequence[Join], kept: JoinState, clock: Clock, most: int) -> dict[int, str]:
    """The computations that need more rows of one source than a join may keep, and why they are stopped."""
    together = pa.concat_tables([kept.before, kept.fresh])
    source, time = together.column("source").to_numpy(), times_of(together)
    counts = np.bincount(source) if len(source) else np.zeros(1, np.int64)
    faults = dict[int, str]()
    for full in np.flatnonzero(counts > most).tolist():
        times = np.sort(time[source == full])
        for template, constants in joins:
            reads = np.logical_or.reduce([column == full for column in _sources(template, constants)])
            needs = len(times) - np.searchsorted(times, _reach(template, constants, clock.old))
            for at in np.flatnonzero(reads & (needs > most)).tolist():
                why = f"a join would keep {needs[at]} rows of one source, and {most} is the limit: shorten its time bound"
                faults[constants.column("id")[at].as_py()] = why
    return faults


def taken_over(
    theirs: Sequence[pa.Table], ours: Sequence[pa.Table], sources: Sequence[int]
) -> pa.Table | None:
    """The rows of the given sources that another server keeps and this one does not.

    Of the rows of a source in one batch, each server keeps those from a certain time on. So the
    rows that are missing here are older than all that are here.
    """
    if not theirs:
        return None
    whole = pa.concat_tables(theirs, promote_options="default")
    wanted = np.isin(whole.column("source").to_numpy(), np.array(sources, np.int32))
    if ours:
        came, time = _came(whole), times_of(whole)
        here = pa.concat_tables(ours, promote_options="default")
        known, at = np.unique(_came(here), return_inverse=True)
        oldest = np.full(len(known), np.iinfo(np.int64).max)
        np.minimum.at(oldest, at, times_of(here))
        place = np.minimum(np.searchsorted(known, came), len(known) - 1)
        wanted &= (known[place] != came) | (time < oldest[place]) if len(known) else True
    mine = whole.filter(pa.array(wanted))
    return mine if mine.num_rows else None


def _came(rows: pa.Table) -> NDArray[np.int64]:
    """Source and batch as one number."""
    source, batch = rows.column("source").to_numpy().astype(np.int64), rows.column("batch").to_numpy()
    return np.asarray((batch << 24) | source)


def _schema(rows: pa.Schema) -> pa.Schema:
    """All slots that any computation reads, so that the rows of one server can be used by another."""
    names = [f for f in rows if f.name not in ("source", "time")]
    return pa.schema([rows.field("source"), rows.field("time"), pa.field("batch", pa.int64()), *names])


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A piece with the present columns. A column is null if no computation read it when the piece
    was written: the computations that read it now were registered later, and do not see these rows.
    """
    columns = [
        table.column(f.name) if f.name in table.column_names else pa.nulls(table.num_rows, f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)


def _sources(template: Template, constants: pa.Table) -> list[NDArray[np.int32]]:
    return [constants.column(f"s{i}").to_numpy() for i in range(template.sources)]


def _reach(template: Template, constants: pa.Table, marks: Times) -> Times:
    """For each computation: rows before this time can find no more partners."""
    slowest = np.minimum.reduce([marks[column] for column in _sources(template, constants)])
    return np.asarray(slowest - template.horizon_us)


def _floor(joins: Sequence[Join], marks: Times) -> Times:
    """For each source: the first time that a join still needs; the largest integer if no
    join reads the source.
    """
    floor = np.full(marks.shape, np.iinfo(np.int64).max)
    for template, constants in joins:
        reach = _reach(template, constants, marks)
        for column in _sources(template, constants):
            np.minimum.at(floor, column, reach)
    return floor


def _alive(rows: pa.Table, floor: Times) -> NDArray[np.bool_]:
    return np.asarray(times_of(rows) >= floor[rows.column("source").to_numpy()])
