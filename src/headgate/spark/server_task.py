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
from headgate.spark import section_file
from headgate.spark.bin_cache import executor_identity
from headgate.spark.piece_file import CONSTANTS, RESULTS, STATE, placed, read_table, table_bytes
from headgate.spark.serving_manifest import Stored
from headgate.spark.store import Store
from headgate.sql.clock import Clock, after
from headgate.sql.engine import Engine, Function
from headgate.sql.limits import Limits
from headgate.sql.shared import Label, Outcome, Piece, Work, guarded, moved, step, trimmed
from headgate.sql.template import Template

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
class ServerTask:
    """Everything that the servers need to know about a batch."""

    batch: int
    run: str
    store: Store
    rows: pa.Schema
    shares: Mapping[int, Sequence[Share]]
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
        self.gone: list[tuple[int, int, int]] = []
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
        for share in task.shares.get(self.server, ()):
            self._template(share, rows, clock)
        latest = after(task.latest, rows)
        moved_on = np.flatnonzero(latest > task.latest)
        sources, counts = np.unique(rows.column("source").to_numpy(), return_counts=True)
        return {
            "server": self.server,
            "executor": "/".join(map(str, executor_identity())),
            "rows": rows.num_rows,
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
        came = self._gained(share, constants)
        state: dict[Label, list[Piece]] = {
            label: [Piece(one.batch, one) for one in many] for label, many in share.state.items()
        }
        for label, table in came.items():
            state.setdefault(label, []).append(Piece(task.batch, table))
        work = Work(template, constants, rows, clock, task.batch, state, self._load, task.limits.state_rows)
        outcome, faults = guarded(work, self._attempt)
        self.faults |= faults
        for label in outcome.gone:
            self.gone.append((share.template, *label))
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
            self.written[STATE].append(((template, *label, table.num_rows), [table_bytes(table)]))

    def _gained(self, share: Share, constants: pa.Table) -> dict[Label, pa.Table]:
        """The state that comes here with computations that were elsewhere."""
        if not share.gained:
            return {}
        found: dict[Label, list[pa.Table]] = {}
        here = self._tables(share.state)
        ids = constants.column("id").to_numpy()
        for server, those in share.gained.items():
            gained = constants.filter(pa.array(np.isin(ids, np.array(those, np.int64))))
            for label, table in moved(
                self._tables(share.elsewhere.get(server, {})), gained, here, self.engine
            ).items():
                found.setdefault(label, []).append(table)
                here.setdefault(label, []).append(table)
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
