"""The gate of a stage: cuts a micro-batch into waves.

The rows of the micro-batch are first written to the checkpoint, before they expand, and then go
through the stage wave by wave. Each wave is committed like a batch, and its commit names the rest
of the micro-batch. So a batch that explodes needs memory and disk for `in_flight` waves only, and
after a crash the stage continues with the next wave, from the same files.

The stage must see rows in order, so it processes one wave at a time; the other waves in
flight are expanding meanwhile.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.util import inheritable_thread_target

from headgate.errors import CorruptState, HeadgateError, TaskFailed
from headgate.flow.gate import AUTO, Batcher, Gate, Wave
from headgate.flow.row_ranges import RangeQueue, RowRange
from headgate.flow.wave_size import WaveSize
from headgate.spark.engine_error import gist
from headgate.spark.gates.staged_rows import StagedFile, StagedRows
from headgate.spark.paths import literal
from headgate.stage.engine import WaveRows
from headgate.stage.routed_rows import ORDER
from headgate.storage.commit_log import sealed, unsealed
from headgate.storage.store import Store

LEAST_ROWS, MOST_ROWS = 50_000, 4_000_000
_INDEX = "staged.json"


class SparkWaves:
    """Cuts micro-batches into waves by a gate, and remembers which wave size worked well."""

    def __init__(self, gate: Gate, store: Store, expand: Callable[[DataFrame], DataFrame] | None) -> None:
        self._gate, self._store, self._expand = gate, store, expand
        self._fixed = None if gate.batch == AUTO else gate.size
        self._size = WaveSize(LEAST_ROWS, MOST_ROWS)

    @property
    def rows_per_second(self) -> float | None:
        """The speed of the last waves; None before the second wave, because the
        first one includes warming up.
        """
        rows, seconds = sum(r for r, _ in self._size.seen), sum(s for _, s in self._size.seen)
        return rows / seconds if seconds else None

    def of(
        self, df: DataFrame, name: str, rest: Sequence[RowRange] | None, *, ordered: bool
    ) -> Iterator[WaveRows[DataFrame]]:
        """The waves of a micro-batch, whose rows are written to the folder `name`; with `rest`, the waves
        that are left of it there. The caller commits each wave before it asks for the next one.
        """
        folder = self._store.child(name)
        staged = self._write(df, folder) if rest is None else self._reopened(df, folder, rest)
        waiting = RangeQueue(
            staged.lengths if rest is None else (),
            1 if ordered else df.sparkSession.sparkContext.defaultParallelism,
        )
        for piece in reversed(rest or ()):
            waiting.give_back(piece)
        batcher = Batcher(self._sized())
        batcher.offer((0,), waiting)
        ready: deque[tuple[Wave, Future[DataFrame] | DataFrame]] = deque()
        with ThreadPoolExecutor(self._gate.in_flight, "headgate-wave") as pool:
            while True:
                for batch in batcher.admit():
                    rows = staged.read(batch.items)
                    expanded = "expanded-" + "-".join(map(str, batch.stamp[1:]))
                    ready.append((batch, self._ahead(rows, folder.child(expanded), pool)))
                if not ready:
                    break
                batch, expansion = ready.popleft()
                later = [piece for other, _ in ready for piece in other.items]
                started = time.perf_counter()
                frame = expansion.result() if isinstance(expansion, Future) else expansion
                yield WaveRows(frame, tuple(later + waiting.left), sum(file.rows for file in staged.files))
                batcher.done(batch.stamp)
                self._size = self._size.after(batch.rows, time.perf_counter() - started)
                batcher.gate = self._sized()

    def forget(self, name: str, is_older: Callable[[str], bool]) -> None:
        """The source's whole batch is committed: remove its rows, and those
        that earlier drivers left behind.
        """
        self._store.remove(name, *(other for other in self._store.names("") if is_older(other)))

    def _sized(self) -> Gate:
        return replace(self._gate, batch=self._fixed or self._size.batch)

    def _ahead(
        self, rows: DataFrame, store: Store, pool: ThreadPoolExecutor
    ) -> Future[DataFrame] | DataFrame:
        """The rows for the stage: as they are if there is no step, otherwise a future
        that ends when they have expanded.
        """
        if self._expand is None:
            return rows
        expanded = self._expand(rows)
        if self._gate.in_flight == 1:
            return expanded

        def work() -> DataFrame:
            expanded.write.mode("overwrite").parquet(store.url)
            return rows.sparkSession.read.schema(expanded.schema).parquet(literal(store))

        return pool.submit(inheritable_thread_target(rows.sparkSession)(work))

    def _write(self, df: DataFrame, folder: Store) -> StagedRows:
        rows = df if self._expand is not None else df.withColumn(ORDER, F.monotonically_increasing_id())
        try:
            staged = StagedRows.write(rows, folder.child("input"), sealed=True)
        except HeadgateError:
            raise
        except Exception as error:
            raise TaskFailed(
                f"the rows before the gate could not be written to {folder.path()}: {gist(error)}. Spark itself writes "
                "them, so on an object store it needs its own connector"
            ) from error
        index = {"files": [astuple(file) for file in staged.files], "schema": staged.schema.json()}
        folder.replace(_INDEX, sealed(index))
        return staged

    def _reopened(self, df: DataFrame, folder: Store, rest: Sequence[RowRange]) -> StagedRows:
        """The rows that were written before a crash. The stage reads these files, not the
        rows that Spark delivers again.
        """
        where = folder.path(_INDEX)
        try:
            index = unsealed(folder.read(_INDEX), where)
        except FileNotFoundError:
            raise CorruptState(
                f"{where} is missing, though rows wait at the gate; restore it from a backup of the checkpoint"
            ) from None
        schema = T.StructType.fromJson(json.loads(index["schema"]))
        files = tuple(StagedFile(*file) for file in index["files"])
        staged = StagedRows(df.sparkSession, schema, None, folder.child("input"), files)
        staged.check(piece.file for piece in rest)
        return staged
