"""All computations of a template on a server as one operation: (state, batch,
watermark) -> (state', results).

The state is a set of *pieces*: small tables that are written once, each under a *label*, its first
pane. A batch writes new pieces and says which labels it removes. It reads only the pieces whose
windows may close, so windows that stay open cost nothing. To move a computation, another server
reads its pieces and takes its part of each. The rows that joins keep are in `join_state`.

Law: results do not depend on how rows are divided into batches, on which computations share a
template, or on moves, as long as no row is later than the delay of its source allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.sql.clock import Clock, timed
from headgate.sql.constant_index import JoinIndex, open_labels, present, touched
from headgate.sql.engine import Engine
from headgate.sql.template import Mode, Template

Label = int
"""The first pane of the pieces that it names."""
MOST_PIECES = 16
"""When a label has this many pieces, they are merged into one."""
MOST_PANES = 8
"""The most labels that one batch adds: if there are more panes, the oldest share one."""
FEW_ROWS = 8
"""With fewer rows than these, each pattern is compiled for each row."""


@dataclass(frozen=True)
class Piece:
    """A piece of state: the batch that wrote it, and a reference that `load` can read."""

    batch: int
    ref: Any


State = Mapping[Label, Sequence[Piece]]
Load = Callable[[Sequence[Piece]], Sequence[pa.Table]]


@dataclass(frozen=True)
class TemplateResult:
    """What one batch made of a template: results (id, at, o0...), new pieces, and labels whose
    earlier pieces are obsolete.
    """

    results: pa.Table | None = None
    written: Mapping[Label, pa.Table] = field(default_factory=dict)
    gone: frozenset[Label] = frozenset()


@dataclass(frozen=True)
class Work:
    """The work of one template in one batch. `constants` are those of the server, `rows` all rows
    that came to it.
    """

    template: Template
    constants: pa.Table
    rows: pa.Table
    clock: Clock
    batch: int
    state: State = field(default_factory=dict)
    load: Load = lambda pieces: [piece.ref for piece in pieces]
    leads: int = 1
    """For a join: how many sources may have the first new row of a tuple; 1 if no earlier rows are kept."""
    everyone: pa.Table | None = None
    """The constants of all computations of the server, if `constants` are those of a part of them; with the
    watermark up to which each is computed after this work (`new`), if that is not the same for all.
    """
    apart: bool = False
    """Whether other parts of the template are computed apart: then state is only added, and rewritten another time."""
    single: bool = False
    """Whether it is that of one row for one computation, which cannot be divided: then it may take long."""

    present: NDArray[np.bool_] | None = None
    """By source number: whether the batch has rows of it; found from `rows` if it is not given."""
    joining: JoinIndex | None = None
    """For a join: the times of the rows that it reads; without it, all computations are candidates."""

    @cached_property
    def touched(self) -> pa.Table:
        """The computations that this batch has rows for."""
        found = self.present
        if found is None:
            tables = [
                (self.rows, "source"),
                *((self.constants, f"s{i}") for i in range(self.template.sources)),
            ]
            found = present(self.rows, 1 + max((pc.max(t.column(c)).as_py() or 0 for t, c in tables)))
        return touched(self.template, self.constants, found)

    def pieces(self, labels: Sequence[Label]) -> pa.Table | None:
        """The pieces of the given labels as one table, with the batch and the label of each row."""
        wanted = [(label, piece) for label in labels for piece in self.state.get(label, ())]
        loaded = self.load([piece for _, piece in wanted])
        tables = [_since(t, p.batch, label) for (label, p), t in zip(wanted, loaded, strict=True)]
        return pa.concat_tables(tables) if tables else None


def step(work: Work, engine: Engine) -> TemplateResult:
    """Carry out the work of one template; the batch is registered in `engine` as `rows`.

    Raises QueryFailed if a computation fails.
    """
    touched = work.touched
    if not touched.num_rows:
        return TemplateResult()
    template = work.template
    active = timed(template, touched, work.clock)
    written = dict[Label, pa.Table]()
    gone = set[Label]()
    write = template.rows_sql if template.mode is Mode.rows else template.begin_sql
    parts = _begun(work, engine, active, write)
    if template.mode is Mode.rows:
        return TemplateResult(pa.concat_tables(parts) if parts else None)
    begun = pa.concat_tables(parts or [engine.ask(write(""), constants=active.slice(0, 0))])
    engine.give(constants=active)
    answer = _last if template.mode is Mode.last else _panes
    return TemplateResult(answer(work, engine, active, begun, written, gone), written, frozenset(gone))


def _hosted(work: Work) -> pa.Table:
    """The constants of all computations of the server, with their watermarks."""
    hosted = work.constants if work.everyone is None else work.everyone
    return hosted if "new" in hosted.column_names else timed(work.template, hosted, work.clock)


def _begun(work: Work, engine: Engine, active: pa.Table, write: Callable[[str], str]) -> list[pa.Table]:
    """What a statement gives for each source that may lead, over the computations that it may have something for."""
    found, template = list[pa.Table](), work.template
    for lead, rows in enumerate(template.sources_of_rows(work.leads)):
        some = active
        if work.joining is not None and template.joins > 1 and not template.outer_on:
            some = work.joining.candidates(template, active, lead)
        if some.num_rows:
            found += [engine.ask(write(rows), constants=part) for part in _parts(work, some)]
    return found


def _parts(work: Work, active: pa.Table) -> list[pa.Table]:
    """The computations whose rows are computed together. A pattern is compiled once for the rows that come to it together,
    and they do so where there are no more computations than rows.
    """
    rows = work.rows.num_rows
    if not work.template.patterned or rows < FEW_ROWS or active.num_rows <= rows:
        return [active]
    return [active.slice(at, rows) for at in range(0, active.num_rows, rows)]


def _since(table: pa.Table, batch: int, label: Label) -> pa.Table:
    where = [("batch", batch), ("home", label)]
    for name, value in where:
        table = table.append_column(name, pa.array(np.full(table.num_rows, value, np.int64)))
    return table


def _panes(
    work: Work,
    engine: Engine,
    active: pa.Table,
    begun: pa.Table,
    written: dict[Label, pa.Table],
    gone: set[Label],
) -> pa.Table | None:
    template = work.template
    written.update(_by_pane(begun))
    labels = sorted({*work.state, *written})
    upto = int(pc.max(active.column("new")).as_py())
    due = [label for label in labels if label + template.slide_us <= upto]
    results = None
    if due:
        new = [_since(written[label], work.batch, label) for label in due if label in written]
        before = work.pieces(due)
        pieces = pa.concat_tables(new if before is None else [before, *new])
        results = engine.ask(template.due_sql, pieces=pieces)
        needed = open_labels(pieces, _hosted(work), template.size_us)
        for label in due:
            if label not in needed:
                gone.add(label)
                written.pop(label, None)
    for label in labels:
        if not work.apart and label not in gone and len(work.state.get(label, ())) >= MOST_PIECES:
            _compact(work, engine, label, written, gone)
    return results


def _by_pane(begun: pa.Table) -> dict[Label, pa.Table]:
    """Put new panes under labels of their own; if there are many, the oldest share one."""
    if not begun.num_rows:
        return {}
    column = begun.column("pane").to_numpy()
    panes = np.unique(column)
    starts = (
        [int(panes[0]), *(int(p) for p in panes[1:][-(MOST_PANES - 1) :])]
        if len(panes) > MOST_PANES
        else panes.tolist()
    )
    home = np.searchsorted(np.array(starts), column, side="right") - 1
    return {start: begun.filter(pa.array(home == i)) for i, start in enumerate(starts) if (home == i).any()}


def _compact(
    work: Work, engine: Engine, label: Label, written: dict[Label, pa.Table], gone: set[Label]
) -> None:
    """Replace the pieces of a label by one."""
    new = written.get(label)
    before = work.pieces([label])
    assert before is not None
    pieces = before if new is None else pa.concat_tables([before, _since(new, work.batch, label)])
    merged = engine.ask(work.template.merge_sql, constants=_hosted(work), pieces=pieces)
    gone.add(label)
    written[label] = merged.cast(before.drop_columns(["batch", "home"]).schema)


def _last(
    work: Work,
    engine: Engine,
    active: pa.Table,
    begun: pa.Table,
    written: dict[Label, pa.Table],
    gone: set[Label],
) -> pa.Table | None:
    before = work.pieces([0])
    new = _since(begun, work.batch, 0)
    pieces = new if before is None else pa.concat_tables([before, new])
    results = engine.ask(work.template.last_sql, pieces=pieces)
    if work.apart:
        written[0] = begun
        return results
    written[0] = engine.ask(work.template.history_sql, constants=_hosted(work)).cast(begun.schema)
    gone.add(0)
    return results


def by_computation(results: pa.Table) -> pa.Table:
    """The results of each computation together, in the order in which they came."""
    return results.take(pa.array(np.argsort(results.column("id").to_numpy(), kind="stable")))
