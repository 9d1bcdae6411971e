"""One channel's work in one batch, without Spark: rows in, touched state and output out.

Rows are sorted by bin (stably, so the order within a key is kept) and each bin's table is brought up to date
by compiled code. The caller says where tables come from (`open_bin`) and what becomes of the pieces; tests
give it plain memory.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.operators.base import BoundOperator, Chunk
from headgate.state.kernels import sort_by_bin
from headgate.state.lanes import NO_INTS
from headgate.state.section import Extract, extract, extract_keys, join_extracts
from headgate.state.table import BinTable


class ChannelRun:
    """The state tables that a batch touches, and what it emits. Feed rows, then `finish`.

    Bins in `pieces` hold a part of a split key: what they know is emitted once it is merged, and not here.
    """

    def __init__(
        self,
        operator: BoundOperator,
        open_bin: Callable[[int], BinTable],
        bins: int,
        pieces: Container[int] = (),
    ) -> None:
        self.operator, self._open, self._bins, self._pieces = operator, open_bin, bins, pieces
        self.tables: dict[int, BinTable] = {}
        self.rows_of_bin = np.zeros(bins, np.int64)
        self.output: list[pa.RecordBatch] = []

    def feed(self, rows: pa.RecordBatch, hashes: NDArray[np.int64], bins: NDArray[np.int32]) -> None:
        """Process rows whose key hashes and bins are known."""
        if rows.num_rows == 0:
            return
        op = self.operator
        keys = op.key.encode([rows.column(n) for n in op.key.names], hashes)
        chunk = Chunk(rows, keys, op.lanes(rows))
        op.begin(chunk)
        order, starts = sort_by_bin(bins, self._bins)
        for b in np.flatnonzero(np.diff(starts)).tolist():
            mine = order[starts[b] : starts[b + 1]]
            table = self.table(b)
            slots = table.find(keys, mine) if op.reads_only else table.probe(keys, mine)
            op.update(table, slots, mine, chunk)
            self.rows_of_bin[b] += len(mine)
        emitted = op.row_output(chunk)
        if emitted is not None:
            self.output.append(emitted)

    def table(self, b: int) -> BinTable:
        """The table of a bin, ready for this batch."""
        table = self.tables.get(b)
        if table is None:
            table = self.tables[b] = self._open(b)
            table.begin()
        return table

    def hot_keys(self, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
        """Hashes, row counts and names of the `most` frequent keys of the batch, exact; call it after
        `feed`.
        """
        tables = [t for t in self.tables.values() if len(t.touched)]
        if not tables:
            return NO_INTS, NO_INTS, []
        counts = [t.touches for t in tables]
        flat = np.concatenate(counts)
        chosen = np.argpartition(flat, -most)[-most:] if len(flat) > most else np.arange(len(flat))
        chosen = chosen[np.argsort(-flat[chosen], kind="stable")]
        ends = np.cumsum([0, *map(len, counts)])
        pieces = []
        for at in chosen.tolist():
            which = int(np.searchsorted(ends, at, side="right")) - 1
            pieces.append((tables[which], tables[which].touched[at - ends[which]]))
        hashes = np.array([t.arrays["hash"][row] for t, row in pieces], np.int64)
        return hashes, flat[chosen], [self._name(t, row) for t, row in pieces]

    def _name(self, table: BinTable, row: int) -> str:
        columns = self.operator.key.decode(extract_keys(table, np.array([row], np.int32)))
        return ", ".join(str(column[0].as_py())[:40] for column in columns)

    def finish(self) -> dict[int, Extract]:
        """What the batch changed, by bin; `output` is then complete."""
        if self.operator.reads_only:
            return {}
        touched = {
            b: extract(t, t.touched, whole=False) for b, t in sorted(self.tables.items()) if len(t.touched)
        }
        whole = [piece for b, piece in touched.items() if b not in self._pieces]
        if whole:
            emitted = self.operator.key_output(join_extracts(whole))
            if emitted is not None:
                self.output.append(emitted)
        return touched
