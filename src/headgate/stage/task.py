"""The work of one channel in one batch: rows in, an answer out.

A `Task` is a value that the driver sends to every channel: it says what is committed, and which table
holds. An `Attempt` does the work on one channel. It writes at most one file each of state, backlog,
output and rows put aside, under names that no other attempt uses, and commits nothing: until the driver names these files in
a manifest they are rubbish, so a retried, speculative or zombie attempt does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import HeadgateError
from headgate.flow.backlog import Backlog, BacklogEntry
from headgate.operators.admission import Admission, Process, urgent_first
from headgate.operators.arrival import Arrival, arrived_schema
from headgate.operators.base import BoundOperator
from headgate.operators.channel_run import ChannelRun
from headgate.operators.event_time import Clock
from headgate.routing.reshape import BinPart
from headgate.routing.table import Table
from headgate.stage.answer import HOT_ROWS, Answer, KeyCount, TouchedBin
from headgate.stage.bin_reader import BinReader, belongs
from headgate.stage.changed_state import changed_sections
from headgate.stage.engine import Watch
from headgate.stage.flow_control import Flow
from headgate.stage.parcel import Parcel
from headgate.stage.routed_rows import ORDER, hashes_of
from headgate.stage.shaping import Shaping
from headgate.stage.split_rows import SplitRows
from headgate.state.conform import conform
from headgate.state.table import BinTable
from headgate.storage import backlog_file, state_file
from headgate.storage.bin_cache import BinCache, Found
from headgate.storage.manifest import Written, staging_folder
from headgate.storage.output_file import write_parquet
from headgate.storage.patience import REQUESTS
from headgate.storage.state_index import StateIndex
from headgate.storage.store import Store

HOT_KEYS = 64
"""How many of its most frequent keys a channel reports."""
LOOKS, SMALLEST = 64, 8
"""If rows may be deferred, a chunk is processed in `LOOKS` slices of at least `SMALLEST` rows, and
the task looks at the clock between two slices.
"""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Everything that a channel needs to know about its batch."""

    batch: int
    stage: str
    """The name of the stage, which is unique."""
    run: str
    """The name of the driver's run, which is part of the names of its files."""
    table: Table
    operator: BoundOperator
    rows: pa.Schema
    """The columns that arrive."""
    state: StateIndex
    """The state that is committed."""
    snapshots: frozenset[int]
    """Bins to write whole."""
    reshaped: Mapping[int, tuple[BinPart, ...]]
    """Bins whose state is made from the state of other bins, because pins have changed."""
    regrouped: Mapping[int, tuple[BinPart, ...]]
    """Bins whose waiting rows come from other bins, for the same reason."""
    flow: Flow
    clock: Clock
    state_store: Store
    backlog_store: Store
    output_store: Store
    output_schema: pa.Schema
    shaping: Shaping | None
    aside_store: Store | None
    aside_schema: pa.Schema


class Attempt:
    """One attempt at the work of one channel, under a `name` that no other attempt has. Call `work`."""

    def __init__(
        self, task: Task, channel: int, name: str, cache: BinCache, watch: Watch, executor: str
    ) -> None:
        self.task, self.channel, self.cache, self.watch, self.executor = task, channel, cache, watch, executor
        self.name = f"{task.batch:012d}-{channel:05d}-{task.run}-{name}"
        self.reader = BinReader(task.operator, task.state, task.state_store, task.reshaped)
        self.mine = set(task.table.bins_of(channel))
        self.pieces = {pin.bin for pins in task.table.splits.values() for pin in pins} & self.mine
        # Reshaped bins are opened and written whole in any case, and pieces have no state: their rows need not wait.
        self.asleep = task.flow.asleep & (self.mine - task.regrouped.keys() - self.pieces)
        self.split = SplitRows(task.operator)
        self.came = self.rows = self.rebuilt = self.ahead = 0
        self.reading = self.idle = self.ahead_s = 0.0
        self.held: list[BacklogEntry] = []
        """Rows of this batch that producers hold back."""

    def work(self, parcels: Iterator[Parcel]) -> Answer:
        """Process the rows that waited and the rows that arrive, write what
        changed, and return the answer.
        """
        self.started, self.requests = self.watch.now(), REQUESTS.sent
        task, flow = self.task, self.task.flow
        self.cache.evict(flow.evicted.get(self.channel, ()))
        run = ChannelRun(task.operator, self._open, task.table.bins[-1] + 1, batch=task.batch)
        arrival = Arrival(task.operator, task.clock)
        pace = self.watch.pace(self.channel)
        fresh: tuple[pa.RecordBatch | None, NDArray[np.int64]] = (None, np.zeros(0, np.int64))

        def process(rows: pa.RecordBatch, bins: NDArray[np.int32]) -> None:
            hashes = fresh[1] if rows is fresh[0] else hashes_of(rows, task.operator.key)
            split = self._of_split_keys(bins)  # they had to wait when the key was not split yet
            if split is None:
                run.feed(rows, hashes, bins)
            else:
                self.split.add(rows.filter(pa.array(split)), hashes[split], None)
                run.feed(rows.filter(pa.array(~split)), hashes[~split], bins[~split])
            done(rows)

        def done(rows: pa.RecordBatch) -> None:
            self.rows += rows.num_rows
            if pace:
                self.watch.sleep(max(0.0, self.rows * pace - self._busy() + self.reading))

        share = flow.shares[self.channel]
        admission = Admission(
            process,
            asleep=self.asleep,
            late=lambda: 1e3 * self._busy() >= share.work_ms,
            room=share.room_bytes,
            deadlines=flow.deadlines,
        )
        arrived = np.zeros(task.table.bins[-1] + 1, np.int64)
        try:
            taken = self._resume(process)
            for rows, order in self._chunks(parcels, arrival, whole=share.room_bytes == 0):
                hashes = hashes_of(rows, task.operator.key)
                bins = task.table.bin_of_hash(hashes, self.channel)
                arrived += np.bincount(bins, minlength=len(arrived))
                split = self._of_split_keys(bins)
                if split is not None:
                    mine = rows.filter(pa.array(split))
                    self.split.add(mine, hashes[split], None if order is None else order[split])
                    done(mine)
                    rows, hashes, bins = rows.filter(pa.array(~split)), hashes[~split], bins[~split]
                fresh = (rows, hashes)
                admission.add(rows, bins)
            left = admission.left()
            for entry in self.held:
                arrived[entry.bin] += entry.rows
            self._fit(process, left, share.room_bytes)
            answer = self._finish(run, arrival, left, taken, arrived)
            self._read_ahead()
            return replace(answer, ahead_bins=self.ahead, ahead_ms=1e3 * self.ahead_s)
        finally:
            self.cache.release()

    def _busy(self) -> float:
        """Seconds of work so far, without the time spent waiting for input."""
        return self.watch.now() - self.started - self.idle

    # -- rows in

    def _resume(self, process: Process) -> tuple[BacklogEntry, ...]:
        """Process the rows that waited. Those of reshaped bins are assigned again, each to the
        one bin that it belongs to now.
        """
        task = self.task
        taken = task.flow.backlog.of(self.mine - task.regrouped.keys() - self.asleep)
        for _, entries in groupby(taken, key=lambda entry: entry.file):
            process(*self._waited(tuple(entries)))
        for b in sorted(task.regrouped.keys() & self.mine):
            for source in task.regrouped[b]:
                for entry in task.flow.backlog.of([source.bin]):
                    rows, _ = self._waited((entry,))
                    rows = rows.filter(pa.array(belongs(hashes_of(rows, task.operator.key), source)))
                    if rows.num_rows:
                        process(rows, np.full(rows.num_rows, b, np.int32))
        return taken

    def _fit(self, process: Process, left: Mapping[int, list[pa.RecordBatch]], room: int) -> None:
        """Process rows that producers hold back, the oldest first, as far as the buffer has no room for them."""
        late = [entry for entry in self.held if entry.bin in self.task.flow.held_back]
        used = sum(part.nbytes for b, parts in left.items() if b not in self.asleep for part in parts)
        while late and used + sum(entry.bytes for entry in late) > room:
            first = [entry for entry in late if entry.bin == late[0].bin]
            for entry in first:
                process(*self._waited((entry,)))
                late.remove(entry)
                self.held.remove(entry)

    def _waited(self, entries: tuple[BacklogEntry, ...]) -> tuple[pa.RecordBatch, NDArray[np.int32]]:
        schema = arrived_schema(self.task.operator, self.task.rows)
        return backlog_file.read(self.task.backlog_store, entries, schema)

    def _chunks(
        self, parcels: Iterator[Parcel], arrival: Arrival, *, whole: bool
    ) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64] | None]]:
        """The rows that are not late, in the chunks in which they arrive, or all at once for operators that
        need that (if order matters, in the order of the source, and with their places in it). Unless
        `whole` is set, chunks are cut into slices.
        """
        operator = self.task.operator
        gathered: list[pa.RecordBatch] = []
        ranges: list[int] = []
        while True:
            before = self.watch.now()
            parcel = next(parcels, None)
            self.idle += self.watch.now() - before
            if parcel is None:
                break
            self.came += parcel.came
            self.held += parcel.waiting
            if parcel.seen is None:
                rows = arrival.admit(conform(parcel.rows, self.task.rows))
            else:
                arrival.note(parcel.seen, parcel.aside)
                rows = conform(parcel.rows, arrived_schema(operator, self.task.rows))
            if operator.ordered or operator.gathers:
                gathered.append(rows)
                ranges.append(parcel.number)
            else:
                yield from self._slices(rows, None, whole=whole)
        if gathered:
            rows = pa.concat_batches(gathered)
            order: NDArray[np.int64] | None = None
            if operator.ordered and ORDER in self.task.rows.names:
                places = rows.column(ORDER).to_numpy()
                if np.any(np.diff(places) < 0):
                    sorted_ = np.argsort(places, kind="stable")
                    rows, places = rows.take(pa.array(sorted_)), places[sorted_]
                order = places
            elif operator.ordered:
                order = np.repeat(np.array(ranges, np.int64), [part.num_rows for part in gathered])
            yield from self._slices(rows, order, whole=whole)

    def _slices(
        self, rows: pa.RecordBatch, order: NDArray[np.int64] | None, *, whole: bool
    ) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64] | None]]:
        """The rows in slices, the most urgent first: those that come last are the first to wait."""
        if whole:
            yield rows, order
            return
        if self.task.flow.deadlines:
            bins = self.task.table.bin_of_hash(hashes_of(rows, self.task.operator.key), self.channel)
            sorted_ = urgent_first(bins, self.task.flow.deadlines)
            rows, order = rows.take(pa.array(sorted_)), None if order is None else order[sorted_]
        step = max(SMALLEST, -(-rows.num_rows // LOOKS))
        for at in range(0, rows.num_rows, step):
            yield rows.slice(at, step), None if order is None else order[at : at + step]

    def _of_split_keys(self, bins: NDArray[np.int32]) -> NDArray[np.bool_] | None:
        """Which rows, by their bins, are of split keys; None if no row is."""
        if not self.pieces:
            return None
        split = np.isin(bins, np.fromiter(self.pieces, np.int32))
        return split if split.any() else None

    def _open(self, b: int) -> BinTable:
        """The table of a bin: the cached one if it is current, otherwise read back from the checkpoint."""
        if b not in self.mine:
            raise AssertionError(
                f"row of bin {b} reached channel {self.channel}, which has {sorted(self.mine)}"
            )
        version = self.task.state.heads.get(b, "")
        if b in self.task.reshaped:
            version = f"reshaped in {self.name}"  # no cached table has this version
        before = self.watch.now()
        table, found = self.cache.open(b, version, self.reader.of(b))
        if found is not Found.current:
            self.rebuilt += found is Found.nowhere
            slow = self.watch.reading(table.state_bytes)
            if slow:
                self.watch.sleep(max(0.0, slow - (self.watch.now() - before)))
            self.reading += self.watch.now() - before
        return table

    def _read_ahead(self) -> None:
        """Read the state of bins that will arrive here, until the time for it is over. An error ends it: whoever
        needs the bin reads it then, and raises the error if it is still one.
        """
        ahead, began, heads = self.task.flow.ahead, self.watch.now(), self.task.state.heads
        until = began + ahead.work_ms.get(self.channel, 0.0) / 1e3

        def late() -> bool:
            return self.watch.now() >= until

        bins = ahead.bins.get(self.channel, ())
        known = {b: self.cache.has(b, self.reader.chain(b)) for b in bins}
        with suppress(HeadgateError):
            for b in sorted(bins, key=known.__getitem__):  # what is there already only needs what was added
                if late():
                    break
                self.ahead += self.cache.warm(b, heads.get(b, ""), self.reader.of(b), late)
        self.ahead_s = self.watch.now() - began

    # -- state and output out

    def _close(self, run: ChannelRun, left: Iterable[int]) -> None:
        """Do the work that is due. A bin with waiting rows is closed only up to the time that was
        closed when they arrived, because they were not late then.
        """
        task, clock = self.task, self.task.clock
        # Reshaped bins are open, and their tables have exact times; the driver closes what is split.
        mine = self.mine - task.reshaped.keys() - self.pieces
        bounds = {b: time for b, time in task.state.due.items() if b in mine}
        waiting = self.asleep.union(left)
        run.close(run.due(bounds, clock.watermark) - waiting, clock.watermark)
        # Rows of bins that are not asleep arrived in this batch: all earlier ones were processed.
        run.close(run.due(bounds, clock.closed) & waiting - self.asleep, clock.closed)

    def _finish(
        self,
        run: ChannelRun,
        arrival: Arrival,
        left: Mapping[int, list[pa.RecordBatch]],
        taken: tuple[BacklogEntry, ...],
        arrived: NDArray[np.int64],
    ) -> Answer:
        """Write changed state, output and waiting rows, and tag the cached tables with the new state file."""
        task, layout = self.task, self.task.operator.layout
        snapshots = sorted((task.snapshots | task.reshaped.keys()) & (self.mine - self.pieces))
        for b in snapshots:
            run.table(b)
        hot = zip(*run.hot_keys(HOT_KEYS, least=HOT_ROWS), strict=True)
        frequent = [KeyCount(int(h), int(count), label) for h, count, label in hot]
        # The rows of a split key are added up, so a piece of it is reported however few they are.
        frequent += [KeyCount(h, n, task.table.splits[h][0].label) for h, n in self.split.counts.items()]
        self._close(run, [*left, *(entry.bin for entry in self.held)])
        touched = run.finish()
        sections = changed_sections(run, touched, snapshots)
        size, name = 0, ""
        if sections:
            name = f"{self.name}.hgs"
            size = state_file.write(task.state_store, name, layout, sections)
        waiting = backlog_file.write(task.backlog_store, f"{self.name}.hgb", left) if left else []
        emitted = run.output if task.shaping is None else task.shaping.apply(run.output)
        output, aside = self._put(task.output_store, emitted, task.output_schema), None
        if task.aside_store is not None:
            aside = self._put(task.aside_store, arrival.aside + run.aside, task.aside_schema)
        changed = {section.bin for section in sections}
        self.cache.settle({b: t for b, t in run.tables.items() if b in changed}, name)
        for b in run.tables.keys() - changed:  # opened, but not changed
            self.cache.settle({b: run.tables[b]}, task.state.heads.get(b, ""))
        bins = np.flatnonzero(arrived)
        return Answer(
            channel=self.channel,
            executor=self.executor,
            came=self.came,
            rows=self.rows,
            out_rows=sum(rows.num_rows for rows in emitted),
            busy_ms=1e3 * self._busy(),
            idle_ms=1e3 * self.idle,
            read_ms=1e3 * self.reading,
            rebuilt_bins=self.rebuilt,
            state_file=name,
            changed=tuple(sorted(changed)),
            snapshots=tuple(snapshots),
            state_bytes=size,
            delta_bytes=sum(change.nbytes for change in touched.values()),
            output=output,
            aside=aside,
            seen=arrival.seen(run.skipped),
            taken=Backlog(taken),
            waiting=Backlog((*self.held, *waiting)),
            arrived=dict(zip(bins.tolist(), arrived[bins].tolist(), strict=True)),
            touched=tuple(
                TouchedBin(b, int(run.rows_of_bin[b]), table.state_bytes, table.rows, table.due)
                for b, table in sorted(run.tables.items())
            ),
            pieces=self.split.packed(),
            frequent=tuple(frequent),
            requests=REQUESTS.since(self.requests),
        )

    def _put(self, store: Store, rows: list[pa.RecordBatch], schema: pa.Schema) -> Written | None:
        """Write rows to a file for a sink and describe it for the commit; None if there are no rows."""
        if not any(part.num_rows for part in rows):
            return None
        name = f"{staging_folder(self.task.batch, self.task.run)}/part-{self.name}.parquet"
        return write_parquet(store, name, pa.Table.from_batches(rows), schema)
