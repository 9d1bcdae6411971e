"""The gates of a stage on Spark: staged rows are Parquet files in the checkpoint, and waves are DataFrames."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.util import inheritable_thread_target

from headgate.errors import CheckpointMismatch, CorruptState, HeadgateError, TaskFailed
from headgate.flow.fan_out import FanOut
from headgate.flow.gated_ranges import RangeWave
from headgate.flow.row_ranges import RowRange
from headgate.spark.engine_error import gist
from headgate.spark.gates.lazy_explode import LazyExplode, taken
from headgate.spark.gates.staged_rows import StagedFile, StagedRows, with_all_outputs
from headgate.spark.paths import literal
from headgate.stage.routed_rows import ORDER
from headgate.stage.settings import Expansion
from headgate.stage.waves import Ahead
from headgate.storage.commit_log import sealed, unsealed
from headgate.storage.store import Store

_INDEX = "staged.json"


@dataclass(frozen=True)
class SparkStaged:
    """Staged rows, and the gate that they wait at (`headgate.stage.waves.Staged`)."""

    files: StagedRows
    depth: int
    fresh: bool
    """Whether this process has written them."""

    @property
    def lengths(self) -> Sequence[int]:
        """The number of positions of each file."""
        return self.files.lengths

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(file.rows for file in self.files.files)

    def check(self, ranges: Sequence[RowRange]) -> None:
        """Refuse files that have changed since another process wrote them."""
        if not self.fresh:
            self.files.check(piece.file for piece in ranges)

    def take(
        self, wave: RangeWave, gate: Expansion, name: str, *, in_order: bool
    ) -> tuple[DataFrame, Callable[[], list[RowRange]]]:
        """The rows of a wave."""
        lazy = _lazy(gate)
        if lazy is None and any(piece.made for piece in wave.ranges):
            raise CheckpointMismatch(
                f"rows that wait in {self.files.store.path()} were drawn by explode=; give the stage the same "
                "expansion until the batch is done"
            )
        return taken(self.files, wave, lazy, f"{name}/{self.files.store.path()}", in_order=in_order)


class SparkWaveEngine:
    """What waves need from Spark (`headgate.stage.waves.WaveEngine`)."""

    def __init__(self, spark: Callable[[], SparkSession], gates: Sequence[Expansion]) -> None:
        """`spark` finds the session when the first wave needs it."""
        self._spark = spark
        for gate in gates:
            _lazy(gate)  # refuses a schema that cannot be read

    @property
    def spread(self) -> int:
        """Files that a wave takes rows from."""
        return int(self._spark().sparkContext.defaultParallelism)

    def now(self) -> float:
        """Seconds since an arbitrary moment."""
        return time.perf_counter()

    def none(self, rows: DataFrame) -> DataFrame:
        """No rows, with the same columns."""
        return rows.sparkSession.createDataFrame([], rows.schema)

    def whole(self, rows: DataFrame, gate: Expansion) -> DataFrame:
        """The rows as the step of a gate gets them if all are let through."""
        return whole(rows, gate)

    def stage(
        self, rows: DataFrame, store: Store, depth: int, fan_out: FanOut | None, *, plain: bool
    ) -> SparkStaged:
        """Compute rows and write them."""
        rows = rows.withColumn(ORDER, F.monotonically_increasing_id()) if plain else rows
        try:
            files = StagedRows.write(rows, store.child("input"), fan_out, sealed=True)
        except HeadgateError:
            raise
        except Exception as error:
            raise TaskFailed(
                f"the rows before the gate could not be written to {store.path()}: {gist(error)}. Spark itself writes "
                "them, so on an object store it needs its own connector"
            ) from error
        index = {
            "files": [astuple(file) for file in files.files],
            "schema": files.schema.json(),
            "depth": depth,
            "fan_out": None if fan_out is None else astuple(fan_out),
        }
        store.replace(_INDEX, sealed(index))
        return SparkStaged(files, depth, fresh=True)

    def staged(self, rows: DataFrame, store: Store) -> SparkStaged:
        """The rows that were written before a crash. The stage reads these files, not the rows that Spark
        delivers again.
        """
        where = store.path(_INDEX)
        try:
            index = unsealed(store.read(_INDEX), where)
        except FileNotFoundError:
            raise CorruptState(
                f"{where} is missing, though rows wait at the gate; restore it from a backup of the checkpoint"
            ) from None
        schema = T.StructType.fromJson(json.loads(index["schema"]))
        fan_out = FanOut(*index["fan_out"]) if index.get("fan_out") else None
        files = tuple(StagedFile(*file) for file in index["files"])
        staged = StagedRows(rows.sparkSession, schema, fan_out, store.child("input"), files)
        return SparkStaged(staged, index.get("depth", 0), fresh=False)

    def keep(self, rows: DataFrame, store: Store, *, in_order: bool) -> DataFrame:
        """Compute rows and write them. Spark reads files in any order, so rows are numbered where it matters."""
        rows = rows.withColumn(ORDER, F.monotonically_increasing_id()) if in_order else rows
        rows.write.mode("overwrite").parquet(store.url)
        return rows.sparkSession.read.schema(rows.schema).parquet(literal(store))

    @contextmanager
    def ahead(self, threads: int) -> Iterator[Ahead]:
        """Waves are computed in threads of their own."""
        target = inheritable_thread_target(self._spark())
        with ThreadPoolExecutor(threads, "headgate-wave") as pool:
            yield lambda work: pool.submit(target(work)).result


def whole(rows: DataFrame, gate: Expansion) -> DataFrame:
    """The rows as the step of a gate gets them if all of them are let through."""
    lazy = _lazy(gate)
    return with_all_outputs(rows, FanOut.of(gate.fan_out)) if lazy is None else lazy.whole(rows)


def _lazy(gate: Expansion) -> LazyExplode | None:
    return None if gate.explode is None else LazyExplode.checked(gate.explode, gate.schema)
