"""A stage without Spark: channels that keep their bins in plain memory and hand them over as the bytes of sections.

It runs any operator over any batches under any sequence of tables, so that the laws of state can be tried in milliseconds. Between
two batches a bin lives on in its channel or, once its channel changed, is rebuilt from the sections written for it, as on an executor.
Bins can sleep, pins can change, and a batch can be delivered twice.
Not here: files, commits and the cache (`headgate.spark`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from headgate.operators.arrival import Arrival
from headgate.operators.base import BoundOperator
from headgate.operators.channel_run import ChannelRun
from headgate.operators.event_time import Clock
from headgate.routing.reshape import reshaped
from headgate.routing.table import Table
from headgate.state.index import FOREVER
from headgate.state.keys import KeySpec
from headgate.state.section import Extract, apply, apply_removed, decode, encode, extract, take
from headgate.state.table import BinTable

Section = tuple[bool, int, bytes]


def key_hashes(rows: pa.RecordBatch, key: KeySpec, *, distinct: int = 2**63) -> NDArray[np.int64]:
    """A hash of each row's key: equal keys have equal hashes. With `distinct` small, so have many others.

    >>> spec = KeySpec(("user",), (pa.string(),))
    >>> rows = pa.RecordBatch.from_pydict({"user": ["ann", "bob", "ann"]})
    >>> a, b, c = key_hashes(rows, spec); bool(a == c), bool(a == b)
    (True, False)
    """
    keys = key.encode([rows.column(n) for n in key.names], np.zeros(rows.num_rows, np.int64))
    if key.is_fixed:
        null = np.zeros(len(keys), bool) if len(keys.valid) == 0 else keys.valid == 0
        raw = [b"" if null[i] else keys.data[i].tobytes() for i in range(len(keys))]
    else:
        raw = [keys.data[a:b].tobytes() for a, b in zip(keys.offsets[:-1], keys.offsets[1:], strict=True)]
    return np.array([xxhash.xxh64_intdigest(k, 42) % distinct for k in raw], np.int64)


@dataclass(frozen=True)
class _Committed:
    """All that is not lost when memory is: sections by bin, when each is due, rows that wait, the clock and the table."""

    sections: Mapping[int, tuple[Section, ...]]
    due: Mapping[int, int]
    waiting: Mapping[int, tuple[pa.RecordBatch, ...]]
    clock: Clock
    table: Table | None


class Channels:
    """The channels of one operator. `batch` gives what the operator emits."""

    def __init__(self, operator: BoundOperator, *, distinct_hashes: int = 2**63) -> None:
        self.operator = operator
        self.opened: list[tuple[int, int]] = []
        """(channel, bin) of every table that the last batch opened."""
        self.aside: list[pa.RecordBatch] = []
        """Rows that could not be used, of all batches."""
        self.batches = 0
        self._committed = _Committed({}, {}, {}, Clock.start(operator.event_time), None)
        self._kept: dict[int, tuple[int, BinTable]] = {}
        self._distinct = distinct_hashes

    @property
    def sections(self) -> Mapping[int, tuple[Section, ...]]:
        """Per bin the sections since its last snapshot, oldest first: (whether it names removed keys, rows, bytes)."""
        return self._committed.sections

    @property
    def clock(self) -> Clock:
        """Event time before the next batch."""
        return self._committed.clock

    def batch(
        self,
        rows: pa.RecordBatch,
        under: Table,
        *,
        chunks: Sequence[int] = (),
        snapshots: Iterable[int] = (),
        asleep: Container[int] = (),
        crash: bool = False,
    ) -> pa.Table:
        """Process a batch, each channel's rows cut at the positions `chunks`; then rewrite the bins of `snapshots` whole.

        Rows of bins that are `asleep` wait for a batch in which they are not. With `crash` the first attempt comes to nothing:
        the batch is delivered again.
        """
        if crash:
            aside, committed = len(self.aside), self._committed
            self._attempt(rows, under, chunks, asleep)
            del self.aside[aside:]
            self._committed = committed
            self.forget()
        output = self._attempt(rows, under, chunks, asleep)
        self.batches += 1
        for b in snapshots:
            self.snapshot(b)
        return pa.Table.from_batches(output, schema=self.operator.output)

    def _attempt(
        self, rows: pa.RecordBatch, under: Table, chunks: Sequence[int], asleep: Container[int]
    ) -> list[pa.RecordBatch]:
        before = self._committed
        if before.table is not None and before.table.pins != under.pins:
            self._reshape(before.table, under)
            before = self._committed
        hashes = key_hashes(rows, self.operator.key, distinct=self._distinct)
        channels = under.channel_of_hash(hashes)
        self.opened = []
        output: list[pa.RecordBatch] = []
        seen = []
        waiting = dict(before.waiting)
        for channel in range(under.channels):
            mine = np.flatnonzero(channels == channel)
            bins = set(under.bins_of(channel))
            arrival = Arrival(self.operator, before.clock)
            opening = partial(self._open, channel)
            run = ChannelRun(self.operator, opening, under.bins[-1] + 1, batch=self.batches)
            for b in sorted(bins & waiting.keys()):
                if b not in asleep:
                    for some in waiting.pop(b):
                        self._feed(run, some, under)
            for part in np.split(mine, [at for at in sorted(chunks) if at < len(mine)]):
                some = arrival.admit(rows.take(pa.array(part)))
                at = under.bin_of_hash(key_hashes(some, self.operator.key, distinct=self._distinct))
                slow = np.array([b in asleep for b in at.tolist()], bool)
                for b in sorted(set(at[slow].tolist())):
                    waiting[b] = (*waiting.get(b, ()), some.filter(pa.array(at == b)))
                self._feed(run, some.filter(pa.array(~slow)), under)
            due = run.due({b: t for b, t in before.due.items() if b in bins}, before.clock.watermark)
            run.close((b for b in due if b not in asleep and b not in waiting), before.clock.watermark)
            for b, change in run.finish().items():
                self._write(b, change.gone, gone=True)
                self._write(b, change.rows)
            due_now = {b: table.due for b, table in run.tables.items()}
            self._committed = replace(self._committed, due={**self._committed.due, **due_now})
            output += run.output
            self.aside += arrival.aside + run.aside
            seen.append(arrival.seen(run.skipped))
        clock = before.clock.after(self.operator.event_time, seen)
        self._committed = replace(self._committed, waiting=waiting, clock=clock, table=under)
        return output

    def _feed(self, run: ChannelRun, rows: pa.RecordBatch, under: Table) -> None:
        hashes = key_hashes(rows, self.operator.key, distinct=self._distinct)
        run.feed(rows, hashes, under.bin_of_hash(hashes))

    def _reshape(self, old: Table, new: Table) -> None:
        """Pins have changed: the state of the keys concerned, and the rows that wait for them, go to their new bins."""
        waiting = [some for b in sorted(self._committed.waiting) for some in self._committed.waiting[b]]
        tables, due = {}, dict(self._committed.due)
        for b, sources in reshaped(old, new).items():
            table = tables[b] = BinTable.create(self.operator.layout)
            for source in sources:
                before = self.rebuilt(source.bin)
                piece = extract(before, before.live, whole=True)
                chosen = (
                    np.isin(piece.keys.hashes, np.array(sorted(source.hashes), np.int64)) != source.without
                )
                apply(table, take(piece, np.flatnonzero(chosen)))
            table.due = min((due.get(source.bin, FOREVER) for source in sources), default=FOREVER)
        for b, table in tables.items():
            due[b] = table.due
            self._committed = replace(self._committed, sections={**self.sections, b: ()})
            self._write(b, extract(table, table.live, whole=True))
            self._kept.pop(b, None)
        moved: dict[int, tuple[pa.RecordBatch, ...]] = {}
        for some in waiting:
            bins = new.bin_of_hash(key_hashes(some, self.operator.key, distinct=self._distinct))
            for b in sorted(set(bins.tolist())):
                moved[b] = (*moved.get(b, ()), some.filter(pa.array(bins == b)))
        there = frozenset(new.bins)
        self._committed = replace(
            self._committed,
            waiting=moved,
            due={b: time for b, time in due.items() if b in there},
            sections={b: found for b, found in self.sections.items() if b in there},
        )

    def snapshot(self, b: int) -> None:
        """Replace the sections of a bin by one that holds all of it."""
        if b in self.sections:
            table = self.table(b)
            piece = extract(table, table.live, whole=True)
            self._committed = replace(self._committed, sections={**self.sections, b: ()})
            self._write(b, piece)

    def forget(self) -> None:
        """Lose everything but the sections, as when all executors die."""
        self._kept.clear()

    def table(self, b: int) -> BinTable:
        """The table of a bin as its channel has it."""
        return self._kept[b][1] if b in self._kept else self.rebuilt(b)

    def rebuilt(self, b: int) -> BinTable:
        """The table of a bin made from its sections."""
        table = BinTable.create(self.operator.layout)
        for gone, rows, data in self.sections.get(b, ()):
            layout = self.operator.layout.keys_only if gone else self.operator.layout
            piece = decode(np.frombuffer(bytearray(data), np.uint8), rows, layout)
            apply_removed(table, piece) if gone else apply(table, piece)
        table.due = self._committed.due.get(b, FOREVER)
        return table

    def _open(self, channel: int, b: int) -> BinTable:
        self.opened.append((channel, b))
        holder, table = self._kept.get(b, (-1, None))
        if table is None or holder != channel:
            table = self.rebuilt(b)
            self._kept[b] = (channel, table)
        return table

    def _write(self, b: int, piece: Extract, *, gone: bool = False) -> None:
        if len(piece):
            layout = self.operator.layout.keys_only if gone else self.operator.layout
            section = (gone, len(piece), b"".join(p.tobytes() for p in encode(piece, layout)))
            sections = {**self.sections, b: (*self.sections.get(b, ()), section)}
            self._committed = replace(self._committed, sections=sections)
