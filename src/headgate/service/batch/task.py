"""What runs in a Python worker for one server of the query service: its templates over its rows of one batch.

Like a channel's task it writes files under names of its own and answers with a report; nothing counts until the driver commits it.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import HeadgateError
from headgate.service.batch.manifest import KEPT, Stored
from headgate.service.batch.piece_file import CONSTANTS, RESULTS, STATE, placed, read_table, table_bytes
from headgate.sql.clock import Clock, after, far_ahead
from headgate.sql.engine import Engine, Function
from headgate.sql.join_state import Join, crowded, keep, taken_over
from headgate.sql.limits import Limits
from headgate.sql.shared import Label, Piece, Work, guarded, moved, step, trimmed
from headgate.sql.shared import TemplateResult as Outcome
from headgate.sql.template import Template
from headgate.storage import section_file
from headgate.storage.bin_cache import executor_identity
from headgate.storage.store import Store

MOST_TABLES = 4_000
"""Tables of constants that a worker remembers."""


@dataclass(frozen=True)
class Share:
    """A template's part on a server: where its constants and its state are, and whose state comes to it in this batch."""

    template: int
    constants: Stored
    state: Mapping[Label, tuple[Stored, ...]] = field(default_factory=dict)
    gained: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Server of before -> computations that came from there."""
    elsewhere: Mapping[int, Mapping[Label, tuple[Stored, ...]]] = field(default_factory=dict)
    """Server of before -> its pieces."""


@dataclass(frozen=True)
class KeptRows:
    """The rows that a server keeps for its joins, and those of servers from which computations come in this batch."""

    pieces: tuple[Stored, ...] = ()
    elsewhere: Mapping[int, tuple[Stored, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerTask:
    """Everything that the servers need to know about a batch."""

    batch: int
    run: str
    store: Store
    rows: pa.Schema
    shares: Mapping[int, Sequence[Share]]
    kept: Mapping[int, KeptRows]
    latest: NDArray[np.int64]
    delay: NDArray[np.int64]
    limits: Limits
    functions: Mapping[str, Function]
    memory: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """`mapInArrow`'s function."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        answer = self.answer(batches, context.partitionId(), context.taskAttemptId())
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(answer)]})

    def answer(self, batches: Iterable[pa.RecordBatch], server: int, attempt: int) -> dict[str, Any]:
        """One server's rows to its report."""
        try:
            return _Attempt(self, server, f"{self.batch:012d}-{server:05d}-{self.run}-{attempt}").work(
                batches
            )
        except HeadgateError as error:  # comes back as data, so that the driver raises the very same error
            return {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}


_engines: dict[tuple[str, ...], Engine] = {}
_tables: dict[tuple[str, int], tuple[Template, pa.Table]] = {}


def _engine(functions: Mapping[str, Function], memory: str) -> Engine:
    """The engine of this worker process, made once."""
    key = (memory, *functions)
    if key not in _engines:
        _engines[key] = Engine(functions, memory=memory)
    return _engines[key]


class _Attempt:
    """One attempt at one server's work."""

    def __init__(self, task: ServerTask, server: int, name: str) -> None:
        self.task, self.server, self.name = task, server, name
        self.written: dict[str, list[tuple[tuple[int, ...], list[Any]]]] = {STATE: [], RESULTS: []}
        self.gone: list[tuple[int, int]] = []
        self.faults: dict[int, str] = {}
        self.cut: dict[int, int] = {}
        self.spent: list[tuple[int, float, int]] = []

    def work(self, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
        started, began = time.perf_counter(), time.process_time()
        task = self.task
        parts = [pa.Table.from_batches([batch]).cast(task.rows) for batch in batches]
        rows = pa.concat_tables([task.rows.empty_table(), *parts])
        rows = rows.filter(rows.column("time").is_valid())
        self.engine = _engine(task.functions, task.memory)
        self.engine.give(rows=rows)
        clock = Clock.over(task.latest, task.delay, rows)
        shares = task.shares.get(self.server, ())
        self.leads = self._keep_rows(shares, rows, clock)
        for share in shares:
            self._template(share, rows, clock)
        latest = after(task.latest, rows)
        moved_on, lost = np.flatnonzero(latest > task.latest), far_ahead(latest, rows)
        sources, counts = np.unique(rows.column("source").to_numpy(), return_counts=True)
        return {
            "server": self.server,
            "executor": "/".join(map(str, executor_identity())),
            "rows": rows.num_rows,
            "far_ahead": [list(lost), list(lost.values())],
            "latest": [moved_on.tolist(), latest[moved_on].tolist()],
            "counts": [sources.tolist(), counts.tolist()],
            STATE: self._write(STATE),
            RESULTS: self._write(RESULTS),
            "gone": self.gone,
            "faults": [list(self.faults), list(self.faults.values())],
            "cut": [list(self.cut), list(self.cut.values())],
            "spent": self.spent,
            "busy_ms": 1e3 * (time.perf_counter() - started),
            "cpu_ms": 1e3 * (time.process_time() - began),
        }

    def _template(self, share: Share, rows: pa.Table, clock: Clock) -> None:
        began = time.perf_counter()
        task = self.task
        template, constants = self._constants(share.constants)
        constants = self._without_faults(template, constants)
        came = self._gained(share)
        state: dict[Label, list[Piece]] = {
            label: [Piece(one.batch, one) for one in many] for label, many in share.state.items()
        }
        for label, table in came.items():
            state.setdefault(label, []).append(Piece(task.batch, table))
        work = Work(template, constants, rows, clock, task.batch, state, self._load, self.leads)
        outcome, faults = guarded(work, self._attempt)
        self.faults |= faults
        for label in outcome.gone:
            self.gone.append((share.template, label))
        for label, table in came.items():
            if label not in outcome.gone:
                self._keep(share.template, label, table)
        for label, table in outcome.written.items():
            self._keep(share.template, label, table)
        out = 0
        if outcome.results is not None and outcome.results.num_rows:
            results, cut = trimmed(outcome.results, task.limits.rows_out)
            self.cut |= cut
            out = results.num_rows
            self.written[RESULTS].append(((share.template, out), [table_bytes(results)]))
        self.spent.append((share.template, round(1e3 * (time.perf_counter() - began), 3), out))

    def _attempt(self, work: Work) -> Outcome:
        """A step that is stopped when it takes too long."""
        watch = threading.Timer(self.task.limits.seconds, self.engine.interrupt)
        watch.start()
        try:
            return step(work, self.engine)
        finally:
            watch.cancel()

    def _keep(self, template: int, label: Label, table: pa.Table) -> None:
        if table.num_rows:
            self.written[STATE].append(((template, label, table.num_rows), [table_bytes(table)]))

    def _keep_rows(self, shares: Sequence[Share], rows: pa.Table, clock: Clock) -> int:
        """See to the rows that joins keep; returns how many sources may lead a join's tuple."""
        task, mine = self.task, self.task.kept.get(self.server, KeptRows())
        joins: list[Join] = [j for j in (self._constants(s.constants) for s in shares) if j[0].sources > 1]
        if not joins and not mine.pieces:
            return 1
        pieces = self._load([Piece(one.batch, one) for one in mine.pieces])
        came = self._rows_gained(shares, mine, pieces)
        kept = keep(joins, rows, [*pieces, *came], clock, task.batch)
        self.faults |= crowded(joins, kept, clock, task.limits.state_rows)
        kept.give(self.engine)
        if kept.rewritten:
            self.gone.append((KEPT, 0))
        else:
            for table in came:
                self._keep(KEPT, 0, table)
        self._keep(KEPT, 0, kept.written)
        return 3 if kept.before.num_rows else 1

    def _rows_gained(
        self, shares: Sequence[Share], mine: KeptRows, ours: Sequence[pa.Table]
    ) -> list[pa.Table]:
        """The rows that come here with joins that were elsewhere."""
        read: dict[int, set[int]] = {}
        for share in shares:
            template, constants = self._constants(share.constants)
            for origin, those in share.gained.items() if template.sources > 1 else ():
                gained = constants.filter(pa.array(_among(constants, those)))
                for i in range(template.sources):
                    read.setdefault(origin, set()).update(gained.column(f"s{i}").to_pylist())
        found = list[pa.Table]()
        for origin, sources in read.items():
            theirs = self._load([Piece(one.batch, one) for one in mine.elsewhere.get(origin, ())])
            table = taken_over(theirs, [*ours, *found], sorted(sources))
            if table is not None:
                found.append(table)
        return found

    def _without_faults(self, template: Template, constants: pa.Table) -> pa.Table:
        if template.sources == 1 or not self.faults:
            return constants
        return constants.filter(pa.array(~_among(constants, self.faults)))

    def _gained(self, share: Share) -> dict[Label, pa.Table]:
        """The state that comes here with computations that were elsewhere."""
        found: dict[Label, list[pa.Table]] = {}
        for server, those in share.gained.items():
            theirs = self._tables(share.elsewhere.get(server, {}))
            for label, table in moved(theirs, np.array(those, np.int64)).items():
                found.setdefault(label, []).append(table)
        return {label: pa.concat_tables(tables) for label, tables in found.items()}

    def _tables(self, state: Mapping[Label, tuple[Stored, ...]]) -> dict[Label, list[pa.Table]]:
        return {label: self._load([Piece(one.batch, one) for one in many]) for label, many in state.items()}

    def _load(self, pieces: Sequence[Piece]) -> list[pa.Table]:
        return [
            piece.ref if isinstance(piece.ref, pa.Table) else read_table(self.task.store, STATE, piece.ref)
            for piece in pieces
        ]

    def _constants(self, stored: Stored) -> tuple[Template, pa.Table]:
        key = (stored.file, stored.at)
        if key not in _tables:
            if len(_tables) >= MOST_TABLES:
                _tables.clear()
            table = read_table(self.task.store, CONSTANTS, stored)
            _tables[key] = (Template.from_json(json.loads(table.schema.metadata[b"template"])), table)
        return _tables[key]

    def _write(self, folder: str) -> dict[str, Any]:
        sections = self.written[folder]
        if not sections:
            return {"file": None, "sections": []}
        store = self.task.store.child(folder)
        section_file.write(store, self.name, {}, sections)
        return {"file": self.name, "sections": placed(store, self.name)}


def _among(constants: pa.Table, ids: Iterable[int]) -> NDArray[np.bool_]:
    return np.isin(constants.column("id").to_numpy(), np.array(list(ids), np.int64))
