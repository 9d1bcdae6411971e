"""What runs in a Python worker: one channel's rows of one batch.

The task is a value sent by the driver (what is committed, under which table) and a function over Arrow
batches. It writes one state file and at most one output file under names that no other attempt uses, and
answers with one row: its report. It commits nothing: until the driver names these files in a manifest they
are rubbish, so a retried, speculative or zombie attempt does no harm.
"""

from __future__ import annotations

import json
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import HeadgateError
from headgate.flow.backlog import Backlog
from headgate.flow.backlog import BacklogEntry as Waiting
from headgate.operators.admission import Admission, Process
from headgate.operators.arrival import Arrival, arrived_schema
from headgate.operators.base import BoundOperator
from headgate.operators.channel_run import ChannelRun
from headgate.operators.event_time import Clock
from headgate.routing.reshape import Source
from headgate.routing.table import Table
from headgate.spark.exchange import ORDER, hashes_of
from headgate.spark.types import conform
from headgate.stage import split_keys
from headgate.stage.flow_control import Flow
from headgate.state.index import FOREVER
from headgate.state.section import Extract, apply, apply_removed, extract, join_extracts, take
from headgate.state.table import BinTable
from headgate.storage import backlog_file, state_file
from headgate.storage.bin_cache import BinCache, executor_identity
from headgate.storage.manifest import Manifest, staging_folder
from headgate.storage.output_file import write_parquet
from headgate.storage.store import Store

REPORT = "report string"
Entries = tuple[Waiting, ...]
"""Rows that wait in one file, taken up together."""
HOT_KEYS = 64
"""How many of its most frequent keys a channel reports."""
LOOKS, SMALLEST = 64, 8
"""Where rows may be left for later: looks at the clock while a chunk is processed, and rows between two of them at least."""


class Watch(Protocol):
    """What a channel measures its work by."""

    def now(self) -> float:
        """Seconds since some moment."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        ...


class RealTime:
    """Time as it is. (`headgate.testing.ModelledTime` is the other one.)"""

    def now(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class ChannelTask:
    """Everything that a channel needs to know about its batch."""

    batch: int
    stage: str
    run: str
    table: Table
    operator: BoundOperator
    rows: pa.Schema
    committed: Manifest | None
    snapshots: frozenset[int]
    state: Store
    output: Store
    reshaped: Mapping[int, tuple[Source, ...]]
    flow: Flow
    backlog: Store
    pace_us: Mapping[int, float]
    clock: Clock = field(default_factory=Clock)
    aside: Store | None = None
    watch: Watch = field(default_factory=RealTime)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """`mapInArrow`'s function."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        try:
            answer = _Attempt(self, context.partitionId(), context.taskAttemptId()).work(batches)
        except HeadgateError as error:  # comes back as data, so that the driver raises the very same error
            answer = {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(answer)]})


class _Attempt:
    """One attempt at one channel's work."""

    def __init__(self, task: ChannelTask, channel: int, attempt: int) -> None:
        self.task, self.channel, self.watch = task, channel, task.watch
        self.name = f"{task.batch:012d}-{channel:05d}-{task.run}-{attempt}"
        self.cache = BinCache.of(task.stage, task.operator.layout)
        self.mine = set(task.table.bins_of(channel))
        # Bins that are reshaped are opened and written whole in any case, so their rows need not wait.
        self.asleep = task.flow.asleep & self.mine - task.reshaped.keys()
        self.pieces = {pin.bin for pins in task.table.splits.values() for pin in pins} & self.mine
        self.rebuilt = 0
        self.reading = 0.0
        self.idle = 0.0
        self.came = 0

    def work(self, batches: Iterator[pa.RecordBatch]) -> dict[str, Any]:
        self.started = self.watch.now()
        task, flow = self.task, self.task.flow
        self.cache.evict(flow.evicted.get(self.channel, ()))
        run = ChannelRun(task.operator, self._open, task.table.bins[-1] + 1, self.pieces, batch=task.batch)
        arrival = Arrival(task.operator, task.clock)
        pace = task.pace_us.get(self.channel, 0.0) * 1e-6
        rows = 0
        fresh: tuple[pa.RecordBatch | None, Any] = (None, None)

        def process(some: pa.RecordBatch, bins: NDArray[np.int32]) -> None:
            nonlocal rows
            run.feed(some, fresh[1] if some is fresh[0] else hashes_of(some, task.operator.key), bins)
            rows += some.num_rows
            if pace:
                self.watch.sleep(max(0.0, rows * pace - self._busy()))

        share = flow.shares[self.channel]
        admission = Admission(
            process,
            asleep=self.asleep,
            late=lambda: 1e3 * self._busy() >= share.work_ms,
            room=share.room_bytes,
        )
        arrived = np.zeros(task.table.bins[-1] + 1, np.int64)
        try:
            taken = self._resume(process)
            for chunk in self._chunks(batches, whole=share.room_bytes == 0):
                some = arrival.admit(chunk)
                fresh = (some, hashes_of(some, task.operator.key))
                bins = task.table.bin_of_hash(fresh[1], self.channel)
                arrived += np.bincount(bins, minlength=len(arrived))
                admission.add(some, bins)
            report = self._write(run, arrival, admission.left())
        finally:
            self.cache.release()
        came = np.flatnonzero(arrived)
        report["taken"] = Backlog(taken).to_json()
        report["arrived"] = [came.tolist(), arrived[came].tolist()]
        host, process_id = executor_identity()
        report |= {
            "channel": self.channel,
            "came": self.came,
            "rows": rows,
            "busy_ms": 1e3 * self._busy(),
            "idle_ms": 1e3 * self.idle,
        }
        report |= {"rebuilt_bins": self.rebuilt, "read_ms": 1e3 * self.reading}
        return report | {"executor": f"{host}/{process_id}"}

    def _busy(self) -> float:
        """Seconds of work so far: all but waiting for input."""
        return self.watch.now() - self.started - self.idle

    def _resume(self, process: Process) -> Entries:
        """What waited comes first. Rows of bins that were reshaped are looked at again: each belongs to one bin now."""
        task = self.task
        taken = task.flow.backlog.of(self.mine - task.reshaped.keys() - self.asleep)
        for _, entries in groupby(taken, key=lambda entry: entry.file):
            process(*self._waited(tuple(entries)))
        for b in sorted(task.reshaped.keys() & self.mine):
            for source in task.reshaped[b]:
                for entry in task.flow.backlog.of([source.bin]):
                    rows, _ = self._waited((entry,))
                    some = rows.filter(pa.array(_chosen(hashes_of(rows, task.operator.key), source)))
                    if some.num_rows:
                        process(some, np.full(some.num_rows, b, np.int32))
        return taken

    def _waited(self, entries: Entries) -> tuple[pa.RecordBatch, NDArray[np.int32]]:
        return backlog_file.read(
            self.task.backlog, entries, arrived_schema(self.task.operator, self.task.rows)
        )

    def _chunks(self, batches: Iterator[pa.RecordBatch], *, whole: bool) -> Iterator[pa.RecordBatch]:
        """Rows as they come; or all of them at once, where order matters in that of the source; in slices, if not `whole`."""
        operator = self.task.operator
        waiting: list[pa.RecordBatch] = []
        while True:
            before = self.watch.now()
            rows = next(batches, None)
            self.idle += self.watch.now() - before
            if rows is None:
                break
            self.came += rows.num_rows
            rows = conform(rows, self.task.rows)
            if operator.ordered or operator.gathers:
                waiting.append(rows)
            else:
                yield from _slices(rows, whole)
        if waiting:
            rows = pa.concat_batches(waiting)
            if operator.ordered:
                order = rows.column(ORDER).to_numpy()
                if np.any(np.diff(order) < 0):
                    rows = rows.take(pa.array(np.argsort(order, kind="stable")))
            yield from _slices(rows, whole)

    def _open(self, b: int) -> BinTable:
        if b not in self.mine:
            raise AssertionError(
                f"row of bin {b} reached channel {self.channel}, which has {sorted(self.mine)}"
            )
        committed = self.task.committed
        expected = committed.heads.get(b, "") if committed else ""
        if b in self.task.reshaped:
            expected = f"reshaped in {self.name}"  # no cached table can stand for it
        before = self.watch.now()
        table, rebuilt = self.cache.open(b, expected, lambda empty: self._rebuild(b, empty))
        if rebuilt:
            self.rebuilt += 1
            self.reading += self.watch.now() - before
        return table

    def _rebuild(self, b: int, table: BinTable) -> None:
        """Read a bin back from its chain of files, or from those of the bins that it is made of.

        Pieces of a split key that come together are merged.
        """
        sources = self.task.reshaped.get(b, (Source(b, frozenset(), True),))
        bounds = self.task.committed.due if self.task.committed else {}
        table.due = min((bounds.get(source.bin, FOREVER) for source in sources), default=FOREVER)
        seen = Counter(source.hashes for source in sources if not source.without)
        for source in sources:
            if source.without or seen[source.hashes] == 1:
                self._read(source, table)
        for hashes in (hashes for hashes, times in seen.items() if times > 1):
            apply(table, self._merged([source for source in sources if source.hashes == hashes]))

    def _merged(self, sources: list[Source]) -> Extract:
        found = []
        for source in sources:
            table = BinTable.create(self.task.operator.layout)
            self._read(source, table)
            found.append(extract(table, table.live, whole=True))
        return self.task.operator.merge(join_extracts(found))

    def _read(self, source: Source, table: BinTable) -> None:
        for kind, piece in self._chain(source.bin):
            mine = piece if not source.hashes else _part(piece, source)
            apply_removed(table, mine) if kind == state_file.GONE else apply(table, mine)

    def _chain(self, b: int) -> Iterator[tuple[int, Extract]]:
        committed = self.task.committed
        for file in committed.chain(b) if committed else []:
            for _, kind, piece in state_file.read(self.task.state, file.name, self.task.operator.layout, {b}):
                yield kind, piece

    def _close(self, run: ChannelRun, left: Iterable[int]) -> None:
        """Due work. What rows wait for is closed as far as it was when they arrived: they were in time then."""
        task, clock = self.task, self.task.clock
        known = task.committed.due if task.committed else {}
        mine = self.mine - task.reshaped.keys()  # those are opened, and know better
        bounds = {b: time for b, time in known.items() if b in mine}
        waiting = self.asleep.union(left)
        run.close(run.due(bounds, clock.watermark) - waiting, clock.watermark)
        # They arrived in this batch, as all that came before was processed.
        run.close(run.due(bounds, clock.closed) & waiting - self.asleep, clock.closed)

    def _write(
        self, run: ChannelRun, arrival: Arrival, left: Mapping[int, list[pa.RecordBatch]]
    ) -> dict[str, Any]:
        """Write what changed, what is emitted and what is to wait, and settle the cache on it."""
        task, layout = self.task, self.task.operator.layout
        snapshots = sorted((task.snapshots | task.reshaped.keys()) & self.mine | self.pieces)
        for b in snapshots:
            run.table(b)
        hot = run.hot_keys(HOT_KEYS)
        self._close(run, left)
        touched = run.finish()
        pieces = []
        for b, change in touched.items():
            if b not in snapshots:
                sections = ((state_file.GONE, change.gone), (state_file.DELTA, change.rows))
                pieces += [state_file.Piece(b, kind, rows) for kind, rows in sections if len(rows)]
        for b in snapshots:
            table = run.table(b)
            pieces.append(state_file.Piece(b, state_file.SNAPSHOT, extract(table, table.live, whole=True)))
        written, name = 0, ""
        if pieces:
            name = f"{self.name}.hgs"
            written = state_file.write(task.state, name, layout, pieces)
        waiting = backlog_file.write(task.backlog, f"{self.name}.hgb", left) if left else []
        output, aside = self._put(task.output, run.output), None
        if task.aside is not None:
            aside = self._put(task.aside, arrival.aside + run.aside)
        changed = {p.bin for p in pieces}
        heads = task.committed.heads if task.committed else {}
        self.cache.settle({b: t for b, t in run.tables.items() if b in changed}, name)
        for b in run.tables.keys() - changed:  # only looked at
            self.cache.settle({b: run.tables[b]}, heads.get(b, ""))
        bins = sorted(run.tables)
        return {
            "file": name,
            "bins": sorted(changed),
            "snapshots": snapshots,
            "written": written,
            "delta_bytes": sum(p.nbytes for p in touched.values()),
            "output": output,
            "out_rows": sum(o.num_rows for o in run.output),
            "aside": aside,
            "seen": arrival.seen(run.skipped),
            "waiting": Backlog(tuple(waiting)).to_json(),
            "pieces": {str(p.bin): split_keys.packed(p.rows, layout) for p in pieces if p.bin in self.pieces},
            "hot": [hot[0].tolist(), hot[1].tolist(), hot[2]],
            "touched": {
                "bin": bins,
                "rows": run.rows_of_bin[bins].tolist(),
                "state_bytes": [run.tables[b].state_bytes for b in bins],
                "keys": [run.tables[b].rows for b in bins],
                "due": [run.tables[b].due for b in bins],
            },
        }

    def _put(self, store: Store, rows: list[pa.RecordBatch]) -> list[Any] | None:
        """Write rows to a file for a sink; what the commit is to say of it, or nothing if there are none."""
        if not any(part.num_rows for part in rows):
            return None
        name = f"{staging_folder(self.task.batch, self.task.run)}/part-{self.name}.parquet"
        return write_parquet(store, name, pa.Table.from_batches(rows)).to_json()


def _slices(rows: pa.RecordBatch, whole: bool) -> Iterator[pa.RecordBatch]:
    if whole:
        yield rows
        return
    step = max(SMALLEST, -(-rows.num_rows // LOOKS))
    for at in range(0, rows.num_rows, step):
        yield rows.slice(at, step)


def _part(piece: Extract, source: Source) -> Extract:
    """The rows of a piece that a reshaped bin takes."""
    return take(piece, np.flatnonzero(_chosen(piece.keys.hashes, source)))


def _chosen(hashes: NDArray[np.int64], source: Source) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.isin(hashes, np.fromiter(source.hashes, np.int64))
    return ~found if source.without else found
