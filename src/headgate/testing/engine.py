"""This process as the engine of a stage: rows are Arrow tables, and channels run one after the other.

Everything else is the product's own: the stage, its tasks, the commit, the files, the cache.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from headgate.errors import MissingColumn
from headgate.flow.gate import AUTO
from headgate.operators.base import BoundOperator
from headgate.stage.answer import Answer
from headgate.stage.engine import Watch
from headgate.stage.parcel import Parcel
from headgate.stage.routed_rows import HASH, ORDER, routed_schema
from headgate.stage.settings import Expansion
from headgate.stage.sinks import Output
from headgate.stage.task import Attempt, Task
from headgate.stage.waves import Waves
from headgate.state.keys import KeySpec
from headgate.state.lanes import ints
from headgate.state.payload import plain_type
from headgate.storage.bin_cache import BinCache, cache_root
from headgate.storage.store import Store
from headgate.testing.watches import ModelledTime
from headgate.testing.waves import InProcessWaves, read_table, write_table

ROWS_OF_A_WAVE = 1000
"""The size of a wave if the gate does not fix it."""


def key_hashes(rows: pa.RecordBatch | pa.Table, key: KeySpec, *, distinct: int = 2**63) -> NDArray[np.int64]:
    """A hash of each row's key: equal keys have equal hashes. If `distinct` is
    small, many other keys collide too.

    >>> spec = KeySpec(("user",), (pa.string(),))
    >>> rows = pa.RecordBatch.from_pydict({"user": ["ann", "bob", "ann"]})
    >>> a, b, c = key_hashes(rows, spec); bool(a == c), bool(a == b)
    (True, False)
    """
    columns = [_array(rows.column(n)) for n in key.names]
    keys = key.encode(columns, np.zeros(rows.num_rows, np.int64))
    if key.is_fixed:
        null = np.zeros(len(keys), bool) if len(keys.valid) == 0 else keys.valid == 0
        raw = [b"" if null[i] else keys.data[i].tobytes() for i in range(len(keys))]
    else:
        raw = [keys.data[a:b].tobytes() for a, b in pairwise(keys.offsets)]
    return np.array([xxhash.xxh64_intdigest(k, 42) % distinct for k in raw], np.int64)


class InProcess:
    """An engine that runs in this process (`headgate.stage.engine.Engine`).

    Channels are distributed over `executors`, each of which has a cache. A small `distinct_hashes`
    makes keys collide. `chunks` are positions at which each channel's rows are cut. `watch` is the
    clock of the channels; by default time passes only if rows have a pace.
    """

    def __init__(
        self, *, executors: int = 2, watch: Watch | None = None, distinct_hashes: int = 2**63
    ) -> None:
        self.watch: Watch = watch or ModelledTime()
        self.executors, self.distinct = executors, distinct_hashes
        self.chunks: Sequence[int] = ()
        self.answers: list[Answer] = []
        """The answers of the last run."""
        self._attempts, self._now = count(), 0.0
        self.folder = tempfile.mkdtemp(prefix="headgate-", dir=cache_root())
        """A folder of this engine's own, in memory if there is room; it is removed with the engine."""
        self._caches: dict[tuple[int, str], BinCache] = {}
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def lose_memory(self) -> None:
        """Lose everything that the executors have cached, as if all of them had died."""
        for cache in self._caches.values():
            cache.clear()
        self._caches.clear()

    @property
    def caches(self) -> list[BinCache]:
        """The executors' caches."""
        return list(self._caches.values())

    def cache(self, task: Task, channel: int) -> BinCache:
        """The cache that a channel uses."""
        at = channel % self.executors, task.stage
        cache = self._caches.get(at)
        if cache is None or cache.layout != task.operator.layout:
            cache = self._caches[at] = BinCache(
                task.stage, task.operator.layout, base=f"{self.folder}/cache-{at[0]}"
            )
        return cache

    def now(self) -> float:
        """Seconds on the driver: a batch takes as long as its busiest channel."""
        return self._now

    def columns(self, rows: pa.Table, key: tuple[str, ...]) -> pa.Schema:
        """The columns of the table, unchanged."""
        missing = [name for name in key if name not in rows.schema.names]
        if missing:
            names = ", ".join(map(repr, rows.schema.names))
            raise MissingColumn(f"key column {missing[0]!r} is not in the stream, which has {names}")
        return rows.schema

    def describe(self, rows: pa.Table) -> str:
        """The schema as text."""
        return base64.b64encode(rows.schema.serialize().to_pybytes()).decode()

    def nothing(self, columns: str) -> pa.Table:
        """An empty table."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(columns))).empty_table()

    def count(self, rows: pa.Table) -> int:
        """How many rows there are."""
        return int(rows.num_rows)

    def hashes(self, keys: pa.RecordBatch, key: KeySpec) -> NDArray[np.int64]:
        """The hash of each of these keys."""
        return key_hashes(keys, key, distinct=self.distinct)

    def prepared(self, operator: BoundOperator) -> BoundOperator:
        """The operator itself."""
        return operator

    def routed(self, operator: BoundOperator, columns: pa.Schema, rows: pa.Table) -> pa.Schema:
        """The columns that a task receives; every row is sent with its hash, so
        that keys can be made to collide.
        """
        return routed_schema(operator, columns, hashed=True)

    def run(self, rows: pa.Table, task: Task) -> list[Answer]:
        """Run the task on one channel after the other."""
        parcels = self._parcels(rows, task)
        self.answers = []
        for channel in range(task.table.channels):
            attempt = Attempt(
                task,
                channel,
                str(next(self._attempts)),
                self.cache(task, channel),
                self.watch,
                self.place(channel),
            )
            self.answers.append(Answer.from_json(attempt.work(iter(parcels[channel])).to_json()))
        self._now += max(answer.busy_ms + answer.ahead_ms for answer in self.answers) / 1e3
        return self.answers

    def _parcels(self, rows: pa.Table, task: Task) -> list[list[Parcel]]:
        """What each channel receives."""
        hashes = key_hashes(rows, task.operator.key, distinct=self.distinct)
        channels = task.table.channel_of_hash(hashes)
        for key_hash, pins in task.table.splits.items():
            for row in np.flatnonzero(hashes == key_hash).tolist():
                text = str(rows.slice(row, 1).to_pylist()).encode()
                pin = pins[xxhash.xxh64_intdigest(text) % len(pins)]
                channels[row] = task.table.channel_of[pin.bin]
        arrays = [
            ints(hashes)
            if field.name == HASH
            else ints(np.arange(rows.num_rows))
            if field.name == ORDER and ORDER not in rows.schema.names
            else _array(rows.column(field.name))
            for field in task.rows
        ]
        sent = pa.RecordBatch.from_arrays(arrays, schema=task.rows)
        mine = (np.flatnonzero(channels == channel) for channel in range(task.table.channels))
        return [[Parcel.of(part) for part in self._cut(_taken(sent, chosen))] for chosen in mine]

    def _cut(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        ends = [at for at in sorted(set(self.chunks)) if 0 < at < rows.num_rows]
        for start, end in pairwise([0, *ends, rows.num_rows]):
            yield rows.slice(start, end - start)

    def places(self, near: Sequence[str]) -> list[str]:
        """The executors of the channels, which are fixed."""
        return [self.place(channel) for channel in range(len(near))]

    def place(self, channel: int) -> str:
        """The executor of a channel."""
        return f"executor-{channel % self.executors}"

    def emitted(self, schema: pa.Schema) -> pa.Schema:
        """The columns in Arrow's plain types."""
        return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])

    def frame(self, output: Output) -> pa.Table:
        """The rows as a table."""
        return output.table()

    def waves(self, gates: Sequence[Expansion], store: Store) -> Waves[pa.Table]:
        """The object that cuts batches into waves."""
        fixed = [
            replace(g, gate=replace(g.gate, batch=ROWS_OF_A_WAVE)) if g.gate and g.gate.batch == AUTO else g
            for g in gates
        ]
        return Waves(fixed, store, InProcessWaves(self.now))

    def build_rows(self, rows: pa.Table, on: tuple[str, ...], key: tuple[str, ...]) -> pa.Table:
        """Build rows with the stage's names for the key columns; rows with a null key are dropped."""
        names = [key[on.index(name)] if name in on else name for name in rows.column_names]
        rows = rows.rename_columns(names)
        keep = np.ones(rows.num_rows, bool)
        for name in key:
            keep &= np.asarray(rows.column(name).is_valid())
        return rows.filter(pa.array(keep))

    def save(self, rows: pa.Table, store: Store, folder: str) -> None:
        """Write one file."""
        store.make(folder)
        write_table(store, f"{folder}/rows.parquet", rows)

    def load(self, store: Store, folder: str) -> pa.Table | None:
        """Read what `save` wrote; None if there is nothing."""
        name = f"{folder}/rows.parquet"
        return read_table(store, name) if store.exists(name) else None


def _taken(rows: pa.RecordBatch, chosen: NDArray[np.int64]) -> pa.RecordBatch:
    """Some rows, without a copy if they are neighbours."""
    if not len(chosen) or chosen[-1] - chosen[0] + 1 == len(chosen):
        return rows.slice(int(chosen[0]) if len(chosen) else 0, len(chosen))
    return rows.take(ints(chosen))


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
