"""The rows that a server keeps for its joins, once for all of them: what a batch adds, and what lost servers kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headgate.service.batch.task_output import TaskOutput
from headgate.service.batch.task_tables import JoinRowFiles, TaskTables
from headgate.service.manifest import JOIN_ROWS
from headgate.sql.clock import Clock
from headgate.sql.constant_index import JoinIndex
from headgate.sql.join_state import Join, crowded, keep, taken_over
from headgate.sql.shared import Piece


@dataclass(frozen=True)
class JoinRows:
    """What the joins of a server read in a batch."""

    leads: int = 1
    """How many sources may lead a join's tuple."""
    relations: Mapping[str, pa.Table] = field(default_factory=dict)
    """What the engine has to read."""
    index: JoinIndex | None = None
    faults: Mapping[int, str] = field(default_factory=dict)
    """The joins that keep too many rows, and why they are stopped."""


def updated(
    joins: Sequence[Join],
    files: JoinRowFiles,
    rows: pa.Table,
    clock: Clock,
    batch: int,
    *,
    most_rows: int,
    tables: TaskTables,
    output: TaskOutput,
) -> JoinRows:
    """Add a batch's rows to those that are kept. A join may keep `most_rows` of one source."""
    if not joins and not files.pieces:
        return JoinRows()
    pieces = tables.load([Piece(stored.batch, stored) for stored in files.pieces])
    arrived = _arriving(joins, files, pieces, tables)
    kept = keep(joins, rows, [*pieces, *arrived], clock, batch)
    if kept.rewritten:
        output.gone.append((JOIN_ROWS, 0))
    else:
        for table in arrived:
            output.add_state(JOIN_ROWS, 0, table)
    output.add_state(JOIN_ROWS, 0, kept.written)
    return JoinRows(
        3 if kept.before.num_rows else 1,
        kept.relations,
        JoinIndex.of(kept.fresh, kept.before, len(clock.old)),
        crowded(joins, kept, clock, most_rows),
    )


def _arriving(
    joins: Sequence[Join], files: JoinRowFiles, present: Sequence[pa.Table], tables: TaskTables
) -> list[pa.Table]:
    """The rows that lost servers kept of the sources that are joined here, without those that this server has."""
    sources = {
        source
        for template, constants in joins
        for i in range(template.sources)
        for source in constants.column(f"s{i}").to_pylist()
    }
    arrived = list[pa.Table]()
    for lost in files.of_lost:
        pieces = tables.load([Piece(stored.batch, stored) for stored in lost])
        table = taken_over(pieces, [*present, *arrived], sorted(sources))
        if table is not None:
            arrived.append(table)
    return arrived
