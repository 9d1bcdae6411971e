"""A stage without Spark: channels that keep their bins in plain memory and hand them over as the bytes of sections.

It runs any operator over any batches under any sequence of tables, so that the laws of state can be tried in milliseconds. Between
two batches a bin lives on in its channel or, once its channel changed, is rebuilt from the sections written for it, as on an executor.
Not here: files, commits and the cache (`headgate.spark`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from headgate.operators.base import BoundOperator
from headgate.operators.channel_run import ChannelRun
from headgate.routing.table import Table
from headgate.state.keys import KeySpec
from headgate.state.section import apply, decode, encode, extract
from headgate.state.table import BinTable


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


class Channels:
    """The channels of one operator. `batch` gives what the operator emits."""

    def __init__(self, operator: BoundOperator, *, distinct_hashes: int = 2**63) -> None:
        self.operator = operator
        self.sections: dict[int, list[tuple[int, bytes]]] = {}
        """Per bin the sections since its last snapshot, oldest first: (rows, bytes)."""
        self.opened: list[tuple[int, int]] = []
        """(channel, bin) of every table that the last batch opened."""
        self._kept: dict[int, tuple[int, BinTable]] = {}
        self._distinct = distinct_hashes

    def batch(
        self, rows: pa.RecordBatch, under: Table, *, chunks: Sequence[int] = (), snapshots: Iterable[int] = ()
    ) -> pa.Table:
        """Process a batch, each channel's rows cut at the positions `chunks`; then rewrite the bins of `snapshots` whole."""
        hashes = key_hashes(rows, self.operator.key, distinct=self._distinct)
        bins = under.bin_of_hash(hashes)
        channels = under.channel_of_hash(hashes)
        self.opened = []
        output: list[pa.RecordBatch] = []
        for channel in range(under.channels):
            mine = np.flatnonzero(channels == channel)
            run = ChannelRun(self.operator, partial(self._open, channel), under.bins[-1] + 1)
            for part in np.split(mine, [at for at in sorted(chunks) if at < len(mine)]):
                run.feed(rows.take(pa.array(part)), hashes[part], bins[part])
            for b, piece in run.finish().items():
                self._write(b, len(piece), encode(piece, self.operator.layout))
            output += run.output
        for b in snapshots:
            self.snapshot(b)
        return pa.Table.from_batches(output, schema=self.operator.output)

    def snapshot(self, b: int) -> None:
        """Replace the sections of a bin by one that holds all of it."""
        if b in self.sections:
            table = self.table(b)
            piece = extract(table, np.arange(table.rows, dtype=np.int32), whole=True)
            self.sections[b] = []
            self._write(b, len(piece), encode(piece, self.operator.layout))

    def forget(self) -> None:
        """Lose everything but the sections, as when all executors die."""
        self._kept.clear()

    def table(self, b: int) -> BinTable:
        """The table of a bin as its channel has it."""
        return self._kept[b][1] if b in self._kept else self.rebuilt(b)

    def rebuilt(self, b: int) -> BinTable:
        """The table of a bin made from its sections."""
        table = BinTable.create(self.operator.layout)
        for rows, data in self.sections.get(b, []):
            apply(table, decode(np.frombuffer(bytearray(data), np.uint8), rows, self.operator.layout))
        return table

    def _open(self, channel: int, b: int) -> BinTable:
        self.opened.append((channel, b))
        holder, table = self._kept.get(b, (-1, None))
        if table is None or holder != channel:
            table = self.rebuilt(b)
            self._kept[b] = (channel, table)
        return table

    def _write(self, b: int, rows: int, parts: list[NDArray[np.uint8]]) -> None:
        self.sections.setdefault(b, []).append((rows, b"".join(p.tobytes() for p in parts)))
