"""One channel's work in one batch, without Spark: rows go in, changed state and output come out.

Rows are sorted by bin (stably, so the order within a key is kept) and each bin's table is updated by
compiled code. The caller provides the tables (`open_bin`) and stores the changes; tests use plain memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.operators.arrival import CLOSED, with_reason
from headgate.operators.base import BoundOperator, Chunk
from headgate.operators.combine_groups import by_hash
from headgate.state.kernels import sort_by_bin
from headgate.state.keys import KeyColumn
from headgate.state.lanes import NO_INTS
from headgate.state.section import Change, Extract, extract, extract_keys, extract_removed, join_extracts
from headgate.state.table import BinTable

NAMED = 64
"""How many keys of a chunk are named, if the operator counts their rows."""


class ChannelRun:
    """The state tables that a batch touches, and what it emits.

    Call `feed` with rows, `close` with the bins that are due, then `finish`.
    """

    def __init__(
        self,
        operator: BoundOperator,
        open_bin: Callable[[int], BinTable],
        bins: int,
        *,
        batch: int = 0,
    ) -> None:
        self.operator, self._open, self._bins = operator, open_bin, bins
        self.tables: dict[int, BinTable] = {}
        self.rows_of_bin = np.zeros(bins, np.int64)
        self.output: list[pa.RecordBatch] = []
        self.aside: list[pa.RecordBatch] = []
        self.skipped: dict[str, int] = {}
        """The number of rows that the operator could not use, by reason."""
        self._serial = batch << 32
        self._answered = False
        self._counted: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._named: dict[int, str] = {}
        self._extracts: dict[int, tuple[tuple[int, int], Extract]] = {}

    def feed(self, rows: pa.RecordBatch, hashes: NDArray[np.int64], bins: NDArray[np.int32]) -> None:
        """Process rows whose key hashes and bins are known."""
        if rows.num_rows == 0:
            return
        op = self.operator
        keys = op.key.encode([rows.column(n) for n in op.key.names], hashes)
        closed = rows.column(CLOSED).to_numpy() if op.event_time is not None else NO_INTS
        chunk = Chunk(rows, keys, op.lanes(rows), closed, self._serial)
        self._serial += rows.num_rows
        op.begin(chunk)
        order, starts = sort_by_bin(bins, self._bins)
        for b in np.flatnonzero(np.diff(starts)).tolist():
            mine = order[starts[b] : starts[b + 1]]
            table = self.table(b)
            op.update(table, self._slots(table, keys, mine), mine, chunk)
            self.rows_of_bin[b] += len(mine)
        if op.counts_rows:
            self._count(chunk)
        for unusable, reason in chunk.aside:
            self.aside.append(with_reason(op, rows.take(pa.array(unusable)), reason))
            self.skipped[reason] = self.skipped.get(reason, 0) + len(unusable)
        emitted = op.row_output(chunk)
        if emitted is not None:
            self.output.append(emitted)

    def _slots(self, table: BinTable, keys: KeyColumn, mine: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self.operator.probes:
            return NO_INTS
        if not self.operator.reads_only:
            return table.probe(keys, mine)
        slots = table.find(keys, mine)
        table.count(slots)
        return slots

    def table(self, b: int) -> BinTable:
        """The table of a bin, ready for this batch."""
        table = self.tables.get(b)
        if table is None:
            table = self.tables[b] = self._open(b)
            table.begin()
        return table

    def hot_keys(
        self, most: int, *, least: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
        """Hashes, exact row counts and names of the `most` most frequent keys with at least so many rows; call
        it after `feed`.
        """
        if self.operator.counts_rows:
            return self._most_frequent(most, least)
        tables = list(self.tables.values())
        touches = [table.touches for table in tables]
        hashes = np.concatenate([NO_INTS, *(h for h, _ in touches)])
        counts = np.concatenate([NO_INTS, *(n for _, n in touches)])
        where = np.arange(len(hashes))
        if self.operator.layout.parts:  # a key has several rows
            group, where = by_hash(hashes, NO_INTS)
            counts = np.bincount(group, counts, len(where)).astype(np.int64)
        chosen = _largest(counts, most)
        chosen = chosen[counts[chosen] >= least]
        if not len(chosen):
            return NO_INTS, NO_INTS, []
        chosen = chosen[np.argsort(-counts[chosen], kind="stable")]
        rows = where[chosen]
        ends = np.cumsum([0, *(len(h) for h, _ in touches)])
        which = np.searchsorted(ends, rows, side="right") - 1
        pieces, places = list[Extract](), list[int]()
        for at, table in enumerate(tables):
            mine = np.flatnonzero(which == at)
            if len(mine):
                pieces.append(Extract(extract_keys(table, table.changed[rows[mine] - ends[at]]), {}))
                places += mine.tolist()
        named = dict(zip(places, self._names(pieces), strict=True))
        return hashes[rows], counts[chosen], [named[place] for place in range(len(rows))]

    def _count(self, chunk: Chunk) -> None:
        """Note how many rows of a chunk each key has, and the names of the most frequent ones."""
        rows = np.concatenate([NO_INTS, *(rows for rows, _ in chunk.groups)])
        counts = np.concatenate([NO_INTS, *(counts for _, counts in chunk.groups)])
        self._counted.append((chunk.keys.hashes[rows], counts))
        top = _largest(counts, NAMED)
        top = rows[top[counts[top] > 1]]
        columns = [
            chunk.rows.column(name).take(pa.array(top)).to_pylist() for name in self.operator.key.names
        ]
        for h, key in zip(chunk.keys.hashes[top].tolist(), zip(*columns, strict=True), strict=True):
            self._named[h] = _name(key)

    def _most_frequent(self, most: int, least: int) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
        hashes = np.concatenate([NO_INTS, *(h for h, _ in self._counted)])
        group, first = by_hash(hashes, NO_INTS)
        each = np.concatenate([NO_INTS, *(n for _, n in self._counted)])
        counts = np.bincount(group, each, len(first)).astype(np.int64)
        chosen = _largest(counts, most)
        chosen = chosen[counts[chosen] >= least]
        chosen = chosen[np.argsort(-counts[chosen], kind="stable")]
        found = hashes[first[chosen]]
        return found, counts[chosen], [self._named.get(h, "") for h in found.tolist()]

    def _names(self, pieces: list[Extract]) -> list[str]:
        if not pieces:
            return []
        columns = [column.to_pylist() for column in self.operator.key.decode(join_extracts(pieces).keys)]
        return [_name(key) for key in zip(*columns, strict=True)]

    def due(self, bounds: Mapping[int, int], now: int) -> set[int]:
        """The bins with work that is due by the watermark `now`.

        `bounds` has the committed due time of each bin; this batch may have added earlier ones.
        """
        opened = {b for b, table in self.tables.items() if table.due <= now}
        return opened | {b for b, bound in bounds.items() if bound <= now and b not in self.tables}

    def close(self, bins: Iterable[int], now: int) -> None:
        """Close what is due in the given bins. Rows for touched keys are emitted first."""
        self._answer()
        pieces = []
        for b in sorted(bins):
            emitted = self.operator.close(self.table(b), now)
            if isinstance(emitted, Extract):
                pieces.append(emitted)
            elif emitted is not None and emitted.num_rows:
                self.output.append(emitted)
        self._emit(pieces)

    def _answer(self) -> None:
        """Emit the operator's output by key, once."""
        if self._answered or not self.operator.answers_by_key:
            return
        self._answered = True
        self._emit([self._answering(b, t) for b, t in self._touched()])

    def _emit(self, pieces: list[Extract]) -> None:
        """Emit the operator's output for state rows of several bins, in one go."""
        emitted = self.operator.key_output(join_extracts(pieces)) if pieces else None
        if emitted is not None:
            self.output.append(emitted)

    def _touched(self) -> list[tuple[int, BinTable]]:
        return [(b, table) for b, table in sorted(self.tables.items()) if len(table.changed)]

    def finish(self) -> dict[int, Change]:
        """What the batch changed, by bin; afterwards `output` is complete."""
        if self.operator.reads_only:
            return {}
        self._answer()
        return {b: Change(self._extract(b, t), extract_removed(t)) for b, t in self._touched()}

    def _answering(self, b: int, table: BinTable) -> Extract:
        if type(self.operator).answering is BoundOperator.answering:
            return self._extract(b, table)
        return extract(table, self.operator.answering(table), whole=True)

    def _extract(self, b: int, table: BinTable) -> Extract:
        """The touched rows of a bin; copied only once, unless more have changed since."""
        changed = len(table.changed), len(table.removed)
        if b not in self._extracts or self._extracts[b][0] != changed:
            self._extracts[b] = changed, extract(table, table.touched, whole=False)
        return self._extracts[b][1]


def _largest(counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Where the `most` largest are, in any order."""
    found = np.argpartition(counts, -most)[-most:] if len(counts) > most else np.arange(len(counts))
    return np.asarray(found, np.int64)


def _name(key: Iterable[object]) -> str:
    """A key for people."""
    return ", ".join(str(value)[:40] for value in key)
