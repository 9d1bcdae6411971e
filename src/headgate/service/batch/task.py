"""What runs in a Python worker for one server of the query service: its templates over its rows of one batch.

Like a channel's task it writes files under names that no other attempt uses, and reports them. Until the driver commits
the report those files are rubbish, so a retried or speculative attempt does no harm.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate import logs
from headgate.errors import HeadgateError
from headgate.service.batch.attempt import BROKEN, Bounds, bounded, unexpected
from headgate.service.batch.bounds import LAST_RESORT_S, killed_after
from headgate.service.batch.careful import CarefulEngine
from headgate.service.batch.report import ServerReport, failure_json
from headgate.service.batch.residence import Residence
from headgate.service.batch.turns import Parked, Turns
from headgate.service.batch.waiting import WaitingFiles, placed
from headgate.service.lengthen import Lengthen
from headgate.service.manifest import JOIN_ROWS, StoredTable
from headgate.service.table_file import (
    CONSTANTS,
    RESULTS,
    STATE,
    EncodedTable,
    encode,
    read_table,
    write_tables,
)
from headgate.service.tenant_use import Fairness, Owners
from headgate.sql.blame import Tried, ids_of, owners_of
from headgate.sql.clock import Clock, after, far_ahead, possible
from headgate.sql.constant_index import JoinIndex, present
from headgate.sql.deferral import TemplateRun
from headgate.sql.deferred import read_by, waits
from headgate.sql.engine import Engine, Function
from headgate.sql.join_state import Join, crowded, keep, taken_over
from headgate.sql.limits import Limits
from headgate.sql.purses import Purses, distinct
from headgate.sql.shared import Label, Piece, Work, step
from headgate.sql.template import Template
from headgate.storage.bin_cache import executor_identity
from headgate.storage.store import Store

log = logs.logger("headgate.service")
MAX_CONSTANTS_TABLES = 4_000
"""How many tables of constants a worker process caches."""
REPORT_COLUMN = "report"
MAX_WAITING_BYTES = 64 << 20
"""How many bytes of results wait in memory until they are written."""
ROWS_IN_TIME = 100_000
"""The limits of time are for so many rows; a larger batch has more time."""


@dataclass(frozen=True)
class TemplateFiles:
    """Where the constants and the state of a template on a server are, with the state of lost servers."""

    template: int
    constants: StoredTable
    state: Mapping[Label, tuple[StoredTable, ...]] = field(default_factory=dict)
    of_lost: Sequence[Mapping[Label, tuple[StoredTable, ...]]] = ()
    """The state of this template on each server that was lost since the last commit: what belongs to a
    computation of this server is taken over in this batch.
    """
    of_origins: Sequence[Mapping[Label, tuple[StoredTable, ...]]] = ()
    """The state of this template on each server from which a computation moves here in this batch (`residence`)."""


@dataclass(frozen=True)
class JoinRowFiles:
    """Where the rows are that a server keeps for its joins, and those that lost servers kept."""

    pieces: tuple[StoredTable, ...] = ()
    of_lost: Sequence[tuple[StoredTable, ...]] = ()


@dataclass(frozen=True)
class ServerTask:
    """What every server's task needs to know about a batch. The tasks are one function; each picks its server's part."""

    batch: int
    run: str
    store: Store
    row_schema: pa.Schema
    templates: Mapping[int, Sequence[TemplateFiles]]
    """By server."""
    join_rows: Mapping[int, JoinRowFiles]
    """By server."""
    latest: NDArray[np.int64]
    """By source number: the latest event time before this batch."""
    delay_us: NDArray[np.int64]
    """By source number: how late its rows may arrive."""
    limits: Limits
    functions: Mapping[str, Function]
    memory: str
    budgets: Mapping[int, float] = field(default_factory=dict)
    """By tenant that has one of its own: seconds of a batch."""
    lengthen: Lengthen = field(default_factory=Lengthen)
    """By how much a tenant may lengthen the batch, if others are active."""
    light: frozenset[int] = frozenset()
    """The tenants that are active and need little."""
    fairness: Mapping[int, Fairness] = field(default_factory=dict)
    """By server."""
    careful: bool = False
    """Whether attempts run in processes of their own, because a worker died in this batch (`careful`)."""
    killable: bool = False
    """Whether this process may be killed when an attempt cannot be stopped otherwise."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task of this partition's server; `mapInArrow` calls this."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = replace(self, killable=True)
        report = task.run_server(batches, context.partitionId(), context.taskAttemptId())
        yield pa.RecordBatch.from_pydict({REPORT_COLUMN: [json.dumps(report)]})

    def run_server(self, batches: Iterable[pa.RecordBatch], server: int, attempt: int) -> dict[str, Any]:
        """Process one server's rows; returns the JSON of its report, or of its failure."""
        file_name = f"{self.batch:012d}-{server:05d}-{self.run}-{attempt}"
        working = _Attempt(self, server, file_name)
        try:
            return working.work(batches).to_json()
        except HeadgateError as error:
            return failure_json(error)
        finally:
            working.close()


_engines: dict[tuple[str, ...], Engine] = {}
_constants: dict[tuple[str, int], tuple[Template, pa.Table]] = {}
"""Tables of constants that this worker process has read, with their templates."""
_sources: dict[tuple[str, int], NDArray[np.int64]] = {}
"""The sources that these computations read."""


def _engine(functions: Mapping[str, Function], memory: str) -> Engine:
    """The engine of this worker process, which is made once."""
    key = (memory, *functions)
    if key not in _engines:
        _engines[key] = Engine(functions, memory=memory)
    return _engines[key]


class _Attempt:
    """One attempt at one server's work."""

    def __init__(self, task: ServerTask, server: int, file_name: str) -> None:
        self.task, self.server, self.file_name = task, server, file_name
        self.bounds = Bounds.of(task.memory)
        self.state: list[tuple[int, Label, EncodedTable | StoredTable]] = []
        self.waiting = WaitingFiles(task.store)
        self.results: list[EncodedTable] = []
        self.spilled: list[tuple[int, StoredTable]] = []
        """Results that are on disk already."""
        self.gone: list[tuple[int, int]] = []
        self.faults: dict[int, str] = {}
        self.engine: Engine | CarefulEngine | None = None
        self.given: pa.Table | None = None
        """The rows that the engine reads."""
        self.runs: dict[int, TemplateRun] = {}
        self.owners: dict[int, Owners] = {}
        self.results_of: dict[int, tuple[int, int]] = {}
        """By tenant: rows and bytes of results."""

    def close(self) -> None:
        """End the process of careful attempts, if there is one."""
        if isinstance(self.engine, CarefulEngine):
            self.engine.close()

    def work(self, batches: Iterable[pa.RecordBatch]) -> ServerReport:
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
        self.present = present(rows, len(task.latest))
        self.joining: JoinIndex | None = None
        self.leads = self._update_join_rows(templates, rows, clock)
        turns = self._turns(templates, rows, clock)
        turns.compute()
        self.faults |= turns.faults
        for number, run in self.runs.items():
            if number not in turns.broken:
                self._keep_state(number, run)
        latest = after(task.latest, rows)
        sources, counts = np.unique(rows.column("source").to_numpy(), return_counts=True)
        return ServerReport(
            server=self.server,
            executor="/".join(map(str, executor_identity())),
            rows=rows.num_rows,
            rows_of_source=dict(zip(sources.tolist(), counts.tolist(), strict=True)),
            latest={int(source): int(latest[source]) for source in np.flatnonzero(latest > task.latest)},
            far_ahead_rows=far_ahead(latest, came),
            state=self._write_state(),
            gone=self.gone,
            results=self._write_results(),
            faults=self.faults,
            usage=turns.usage(rows, self.results_of),
            slow_ms=1e3 * turns.slow_seconds,
            fairness=turns.fairness(),
            busy_ms=1e3 * (time.perf_counter() - wall_began),
            cpu_ms=1e3 * (time.process_time() - cpu_began),
        )

    def _turns(self, templates: Sequence[TemplateFiles], rows: pa.Table, clock: Clock) -> Turns:
        """The templates of this batch, each with the work that waits for it, and the time that there is for all."""
        task = self.task
        parked = list[Parked]()
        for files in templates:
            template, constants = self._read_constants(files.constants)
            arrives = files.of_lost or files.of_origins
            if template.joins == 1 and not arrives and not self.present[self._sources_of(files)].any():
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
            before=fairness.uses,
        )
        return Turns(
            self.runs,
            self._try,
            purses,
            trials=fairness.trials,
            batch=task.batch,
            took=self._keep_results,
            parked=parked,
        )

    def _begin(self, files: TemplateFiles, rows: pa.Table, clock: Clock) -> None:
        """Begin with a template; one that cannot be read fails alone."""
        try:
            self.runs[files.template] = self._run_of(files, rows, clock)
        except BROKEN as error:
            log.exception("template %d on server %d failed", files.template, self.server)
            constants = self._read_constants(files.constants)[1]
            self.faults |= dict.fromkeys(constants.column("id").to_pylist(), unexpected(error))

    def _run_of(self, files: TemplateFiles, rows: pa.Table, clock: Clock) -> TemplateRun:
        template, constants = self._read_constants(files.constants)
        constants = self._without_faults(template, constants)
        state: dict[Label, list[Piece]] = {}
        for label, pieces in files.state.items():
            if not waits(label):
                state[label] = [Piece(stored.batch, stored) for stored in pieces]
        work = Work(
            template,
            constants,
            rows,
            clock,
            self.task.batch,
            state,
            partial(self._load_own, Residence(constants)),
            self.leads,
            present=self.present,
            joining=self.joining,
        )
        residence = Residence(constants)
        coming = residence.coming(self.task.batch)
        arriving = [(some, residence) for some in files.of_lost] + [
            (some, coming) for some in files.of_origins
        ]
        return TemplateRun(
            work,
            self.waiting.read(files.state, residence.without_stale),
            of_lost=[one for some, whose in arriving for one in self.waiting.read(some, whose.taken_over)],
            arrived=self._arriving_state(arriving),
            shared=self.waiting.shared,
        )

    def _keep_results(self, template: int, run: TemplateRun) -> None:
        """Encode the results that a template has by now."""
        for batch, table in run.results:
            owners = self._owners(template, run).weights(table.column("id").to_numpy())
            encoded = encode(table, template, batch, owners=owners)
            self.results.append(encoded)
            for owner, rows in owners:
                before, size = self.results_of.get(owner, (0, 0))
                part = len(encoded.data) * rows // max(1, table.num_rows)
                self.results_of[owner] = (before + rows, size + part)
            if sum(len(encoded.data) for encoded in self.results) > MAX_WAITING_BYTES:
                self._spill()
        run.results.clear()

    def _keep_state(self, template: int, run: TemplateRun) -> None:
        owners = self._owners(template, run)
        self.gone += [(template, label) for label in sorted(run.gone)]
        for label, tables in run.written.items():
            if (whole := pa.concat_tables(tables)).num_rows:
                whose = owners.weights(whole.column("id").to_numpy())
                self.state.append((template, label, encode(whole, template, label, owners=whose)))
        for label, deferred in run.put_aside.items():
            pieces = self.waiting.pieces(deferred, template, label, owners)
            self.state += [(template, label, piece) for piece in pieces]

    def _owners(self, template: int, run: TemplateRun) -> Owners:
        if template not in self.owners:
            constants = run.work.constants
            self.owners[template] = Owners(ids_of(constants), owners_of(constants))
        return self.owners[template]

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

    # -- rows that joins keep

    def _update_join_rows(self, templates: Sequence[TemplateFiles], rows: pa.Table, clock: Clock) -> int:
        """Add this batch's rows to those kept for joins; returns how many sources may lead a join's tuple."""
        assert self.engine is not None
        task, join_files = self.task, self.task.join_rows.get(self.server, JoinRowFiles())
        read = (self._read_constants(files.constants) for files in templates)
        joins: list[Join] = [(template, constants) for template, constants in read if template.joins > 1]
        if not joins and not join_files.pieces:
            return 1
        pieces = self._load([Piece(stored.batch, stored) for stored in join_files.pieces])
        arrived = self._arriving_join_rows(joins, join_files, pieces)
        kept = keep(joins, rows, [*pieces, *arrived], clock, task.batch)
        self.faults |= crowded(joins, kept, clock, task.limits.state_rows)
        self.engine.give(**kept.relations)
        self.joining = JoinIndex.of(kept.fresh, kept.before, len(task.latest))
        if kept.rewritten:
            self.gone.append((JOIN_ROWS, 0))
        else:
            for table in arrived:
                self._add_state(JOIN_ROWS, 0, table)
        self._add_state(JOIN_ROWS, 0, kept.written)
        return 3 if kept.before.num_rows else 1

    def _arriving_join_rows(
        self, joins: Sequence[Join], join_files: JoinRowFiles, present: Sequence[pa.Table]
    ) -> list[pa.Table]:
        """The rows that lost servers kept of the sources that are joined here, without those that this server has."""
        sources = {
            source
            for template, constants in joins
            for i in range(template.sources)
            for source in constants.column(f"s{i}").to_pylist()
        }
        arrived = list[pa.Table]()
        for lost in join_files.of_lost:
            pieces = [Piece(stored.batch, stored) for stored in lost]
            table = taken_over(self._load(pieces), [*present, *arrived], sorted(sources))
            if table is not None:
                arrived.append(table)
        return arrived

    def _without_faults(self, template: Template, constants: pa.Table) -> pa.Table:
        """The constants without the joins that already failed in this batch, because they keep too many rows."""
        if template.joins == 1 or not self.faults:
            return constants
        return constants.filter(pa.array(~_among(constants, self.faults)))

    # -- files

    def _arriving_state(
        self, arriving: Sequence[tuple[Mapping[Label, tuple[StoredTable, ...]], Residence]]
    ) -> dict[Label, pa.Table]:
        """What other servers have of computations of this server: those that were lost, and those where they were."""
        arrived: dict[Label, list[pa.Table]] = {}
        for state, residence in arriving:
            for label, pieces in state.items():
                if waits(label):
                    continue
                tables = self._load([Piece(stored.batch, stored) for stored in pieces])
                for stored, table in zip(pieces, tables, strict=True):
                    mine = residence.arriving(table, stored.batch)
                    if mine.num_rows:
                        arrived.setdefault(label, []).append(mine)
        return {label: pa.concat_tables(tables) for label, tables in arrived.items()}

    def _load_own(self, residence: Residence, pieces: Sequence[Piece]) -> list[pa.Table]:
        """The pieces of this server, without what computations left here that moved away and came back."""
        tables = zip(self._load(pieces), pieces, strict=True)
        return [residence.own(table, piece.batch) for table, piece in tables]

    def _load(self, pieces: Sequence[Piece]) -> list[pa.Table]:
        return [
            piece.ref if isinstance(piece.ref, pa.Table) else read_table(self.task.store, STATE, piece.ref)
            for piece in pieces
        ]

    def _read_constants(self, stored: StoredTable) -> tuple[Template, pa.Table]:
        key = (stored.file, stored.at)
        if key not in _constants:
            if len(_constants) >= MAX_CONSTANTS_TABLES:
                _constants.clear()
            table = read_table(self.task.store, CONSTANTS, stored)
            _constants[key] = (Template.from_json(json.loads(table.schema.metadata[b"template"])), table)
        return _constants[key]

    def _sources_of(self, files: TemplateFiles) -> NDArray[np.int64]:
        """The sources that the computations of a template read, each once."""
        key = (files.constants.file, files.constants.at)
        if key not in _sources:
            if len(_sources) >= MAX_CONSTANTS_TABLES:
                _sources.clear()
            _sources[key] = read_by(self._read_constants(files.constants)[1])
        return _sources[key]

    def _add_state(self, template: int, label: Label, table: pa.Table) -> None:
        if table.num_rows:
            self.state.append((template, label, encode(table, template, label)))

    def _write_state(self) -> list[tuple[int, int, StoredTable]]:
        def write(tables: list[EncodedTable]) -> list[StoredTable]:
            return write_tables(self.task.store, STATE, self.file_name, self.task.batch, tables)

        return placed(self.state, write)

    def _write_results(self) -> list[tuple[int, StoredTable]]:
        self._spill()
        return self.spilled

    def _spill(self) -> None:
        """Write the results that are in memory."""
        if self.results:
            name = f"{self.file_name}-{len(self.spilled)}" if self.spilled else self.file_name
            written = write_tables(self.task.store, RESULTS, name, self.task.batch, self.results)
            self.spilled += [
                (e.labels[0], replace(stored, batch=e.labels[1]))  # the batch whose rows they are of
                for e, stored in zip(self.results, written, strict=True)
            ]
            self.results.clear()


def _among(constants: pa.Table, ids: Iterable[int]) -> NDArray[np.bool_]:
    """Which of the computations have one of these ids."""
    return np.isin(constants.column("id").to_numpy(), np.array(list(ids), np.int64))
