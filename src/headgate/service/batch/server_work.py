"""One attempt at one server's work of a batch: its templates are begun, computed in turns, and what they give is written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate import logs
from headgate.service.batch import join_rows
from headgate.service.batch.attempt import BROKEN, Bounds, bounded, unexpected
from headgate.service.batch.bounds import LAST_RESORT_S, killed_after
from headgate.service.batch.careful import CarefulEngine
from headgate.service.batch.report import ServerReport
from headgate.service.batch.residence import Residence
from headgate.service.batch.task_output import TaskOutput
from headgate.service.batch.task_tables import (
    MAX_CONSTANTS_TABLES,
    JoinRowFiles,
    TaskTables,
    TemplateFiles,
)
from headgate.service.batch.turns import Parked, Turns
from headgate.service.batch.waiting import WaitingFiles
from headgate.service.tenant_use import Fairness
from headgate.sql.blame import Tried, ids_of, owners_of
from headgate.sql.clock import Clock, after, far_ahead, possible
from headgate.sql.deferral import FIRST_ROWS, MORE, TemplateRun
from headgate.sql.deferred import waits
from headgate.sql.engine import Engine, Function
from headgate.sql.join_state import Join
from headgate.sql.purses import Purses, distinct
from headgate.sql.shared import Label, Piece, Work, step
from headgate.sql.template import Template
from headgate.storage.bin_cache import executor_identity

if TYPE_CHECKING:
    from headgate.service.batch.task import ServerTask

log = logs.logger("headgate.service")
ROWS_IN_TIME = 100_000
"""The limits of time are for so many rows; a larger batch has more time."""
_engines: dict[tuple[str, ...], Engine] = {}
_computed: dict[tuple[str, int], int] = {}
"""By table of constants: with how many rows this worker process has computed it at most. It decides who waits, and never
what results are."""


def _engine(functions: Mapping[str, Function], memory: str) -> Engine:
    """The engine of this worker process, which is made once."""
    key = (memory, *functions)
    if key not in _engines:
        _engines[key] = Engine(functions, memory=memory)
    return _engines[key]


class ServerWork:
    """One attempt at one server's work."""

    def __init__(self, task: ServerTask, server: int, file_name: str) -> None:
        self.task, self.server = task, server
        self.bounds = Bounds.of(task.memory)
        self.tables, self.waiting = TaskTables(task.store), WaitingFiles(task.store)
        self.output = TaskOutput(task.store, file_name, task.batch, self.waiting)
        self.faults: dict[int, str] = {}
        self.engine: Engine | CarefulEngine | None = None
        self.given: pa.Table | None = None
        """The rows that the engine reads."""
        self.runs: dict[int, TemplateRun] = {}

    def close(self) -> None:
        """End the process of careful attempts, if there is one."""
        if isinstance(self.engine, CarefulEngine):
            self.engine.close()

    def work(self, batches: Iterable[pa.RecordBatch]) -> ServerReport:
        """Compute and write everything of the batch; returns what the driver commits."""
        wall_began, cpu_began = time.perf_counter(), time.process_time()
        task = self.task
        parts = [pa.Table.from_batches([batch]).cast(task.row_schema) for batch in batches]
        came = pa.concat_tables([task.row_schema.empty_table(), *parts])
        came = came.filter(came.column("time").is_valid())
        rows = came.filter(pa.array(possible(came)))
        self.engine = (
            CarefulEngine(task.functions, self.bounds, task.store)
            if task.careful
            else _engine(task.functions, task.memory)
        )
        clock = Clock.over(task.latest, task.delay_us, rows)
        templates = task.templates.get(self.server, ())
        if templates:
            self._give(rows)
        self.counts = np.bincount(rows.column("source").to_numpy(), minlength=len(task.latest))
        self.present = self.counts > 0
        self.joins = self._join_rows(templates, rows, clock)
        turns = self._turns(templates, rows, clock)
        turns.compute()
        self.faults |= turns.faults
        for number, run in self.runs.items():
            if number not in turns.broken:
                self.output.keep_state(number, run)
        self._remember(templates)
        latest = after(task.latest, rows)
        sources, counts = np.unique(rows.column("source").to_numpy(), return_counts=True)
        return ServerReport(
            server=self.server,
            executor="/".join(map(str, executor_identity())),
            rows=rows.num_rows,
            rows_of_source=dict(zip(sources.tolist(), counts.tolist(), strict=True)),
            latest={int(source): int(latest[source]) for source in np.flatnonzero(latest > task.latest)},
            far_ahead_rows=far_ahead(latest, came),
            state=self.output.write_state(),
            gone=self.output.gone,
            results=self.output.write_results(),
            faults=self.faults,
            usage=turns.usage(rows, self.output.results_of),
            slow_ms=1e3 * turns.slow_seconds,
            fairness=turns.fairness(),
            busy_ms=1e3 * (time.perf_counter() - wall_began),
            cpu_ms=1e3 * (time.process_time() - cpu_began),
        )

    # -- the templates

    def _turns(self, templates: Sequence[TemplateFiles], rows: pa.Table, clock: Clock) -> Turns:
        """The templates of this batch, each with the work that waits for it, and the time that there is for all."""
        task = self.task
        parked = list[Parked]()
        for files in templates:
            template, constants = self.tables.constants(files.constants)
            arrives = files.of_lost or files.of_origins
            if template.joins == 1 and not arrives and not self._has_rows(files):
                owners = distinct(owners_of(constants))
                waiting = {label: stored for label, stored in files.state.items() if waits(label)}
                if not waiting:
                    continue  # nothing is new for it
                if len(owners) == 1:
                    count = sum(piece.rows for pieces in waiting.values() for piece in pieces)
                    begin = partial(self._begin, files, rows, clock)
                    parked.append(Parked(int(owners[0]), min(waiting), files.template, count, begin))
                    continue
            self._begin(files, rows, clock)
        more = max(1.0, rows.num_rows / ROWS_IN_TIME)
        fairness = task.fairness.get(self.server, Fairness())
        purses = Purses(
            more * task.limits.seconds,
            more * task.limits.tenant_seconds,
            together=more * task.limits.batch_seconds,
            own={owner: more * seconds for owner, seconds in task.budgets.items()},
            lengthen=task.lengthen,
            light=task.light,
            joins=more * task.limits.join_seconds,
            before=fairness.uses,
        )
        return Turns(
            self.runs,
            self._try,
            purses,
            trials=fairness.trials,
            batch=task.batch,
            took=self.output.keep_results,
            parked=parked,
        )

    def _has_rows(self, files: TemplateFiles) -> bool:
        """Whether the batch has rows of a source that a template reads."""
        return bool(self.present[self.tables.sources(files.constants)].any())

    def _rows_of(self, files: TemplateFiles) -> int:
        """How many rows of the batch a template reads."""
        return int(self.counts[self.tables.sources(files.constants)].sum())

    def _is_new(self, files: TemplateFiles) -> bool:
        """Whether a template has far more rows than it has been computed with in this process."""
        known = _computed.get((files.constants.file, files.constants.at), 0)
        return self._rows_of(files) > max(FIRST_ROWS, MORE * known)

    def _remember(self, templates: Sequence[TemplateFiles]) -> None:
        """With how many rows each template was computed."""
        for files in templates:
            if (run := self.runs.get(files.template)) is not None and run.most_rows:
                key = (files.constants.file, files.constants.at)
                if len(_computed) >= MAX_CONSTANTS_TABLES:
                    _computed.clear()
                rows = min(run.most_rows, self._rows_of(files) or run.most_rows)  # others' rows do not count
                _computed[key] = max(rows, _computed.get(key, 0))

    def _begin(self, files: TemplateFiles, rows: pa.Table, clock: Clock) -> None:
        """Begin with a template; one that cannot be read fails alone."""
        try:
            self.runs[files.template] = self._run_of(files, rows, clock)
        except BROKEN as error:
            log.exception("template %d on server %d failed", files.template, self.server)
            constants = self.tables.constants(files.constants)[1]
            self.faults |= dict.fromkeys(constants.column("id").to_pylist(), unexpected(error))

    def _run_of(self, files: TemplateFiles, rows: pa.Table, clock: Clock) -> TemplateRun:
        template, constants = self.tables.constants(files.constants)
        constants = self._without_faults(template, constants)
        state: dict[Label, list[Piece]] = {}
        for label, pieces in files.state.items():
            if not waits(label):
                state[label] = [Piece(stored.batch, stored) for stored in pieces]
        residence = Residence(constants)
        work = Work(
            template,
            constants,
            rows,
            clock,
            self.task.batch,
            state,
            partial(self.tables.load_own, residence),
            self.joins.leads,
            present=self.present,
            joining=self.joins.index,
        )
        coming = residence.coming(self.task.batch)
        arriving = [(some, residence) for some in files.of_lost] + [
            (some, coming) for some in files.of_origins
        ]
        return TemplateRun(
            work,
            self.waiting.read(files.state, residence.without_stale),
            of_lost=[one for some, whose in arriving for one in self.waiting.read(some, whose.taken_over)],
            arrived=self.tables.arriving(arriving),
            shared=self.waiting.shared,
            new=self._is_new(files),
        )

    # -- the engine

    def _give(self, rows: pa.Table) -> None:
        """Have the engine read these rows."""
        if self.given is not rows:
            assert self.engine is not None
            self.engine.give(rows=rows)
            self.given = rows

    def _try(self, work: Work, seconds: float) -> Tried:
        """Run a step within bounds of time and memory."""
        assert self.engine is not None
        self._give(work.rows)
        if isinstance(self.engine, CarefulEngine):
            return self.engine.attempt(work, seconds)
        with killed_after(seconds + LAST_RESORT_S) if self.task.killable else nullcontext():
            return bounded(step, work, self.engine, seconds, self.bounds)

    # -- joins

    def _join_rows(
        self, templates: Sequence[TemplateFiles], rows: pa.Table, clock: Clock
    ) -> join_rows.JoinRows:
        """Add this batch's rows to those kept for joins, and have the engine read both."""
        assert self.engine is not None
        task = self.task
        read = (self.tables.constants(files.constants) for files in templates)
        joins: list[Join] = [(template, constants) for template, constants in read if template.joins > 1]
        updated = join_rows.updated(
            joins,
            task.join_rows.get(self.server, JoinRowFiles()),
            rows,
            clock,
            task.batch,
            most_rows=task.limits.state_rows,
            tables=self.tables,
            output=self.output,
        )
        self.faults |= updated.faults
        if updated.relations:
            self.engine.give(**updated.relations)
        return updated

    def _without_faults(self, template: Template, constants: pa.Table) -> pa.Table:
        """The constants without the joins that already failed in this batch, because they keep too many rows."""
        if template.joins == 1 or not self.faults:
            return constants
        return constants.filter(pa.array(~_among(constants, self.faults)))


def _among(constants: pa.Table, ids: Iterable[int]) -> NDArray[np.bool_]:
    """Which of the computations have one of these ids."""
    return np.isin(ids_of(constants), np.array(list(ids), np.int64))
