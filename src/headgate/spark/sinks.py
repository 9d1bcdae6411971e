"""Where a stage's output goes. Tasks stage output files, the commit names them, and then the sink publishes
them.

Publishing may happen again after a crash, with the same files: every sink here makes the second time
harmless.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.errors import ConfigError, HeadgateError, SinkFailed
from headgate.spark.store import Store, translated


class Sink(ABC):
    """Publishes the committed output of a batch."""

    def staging(self, checkpoint: Store) -> Store:
        """Where tasks put output files before the commit."""
        return checkpoint.child("output")

    def check(self) -> None:
        """Refuse a batch that could not be published; nothing is computed then."""
        return None

    @abstractmethod
    def publish(
        self, staged: Store, files: tuple[str, ...], batch: int, schema: pa.Schema, spark: Any
    ) -> None:
        """Show the committed `files` (names in `staged`) of a batch. Called again with the same after a
        crash.
        """


class Parquet(Sink):
    """A Parquet folder, exactly once: batch N appears as `batch=N/`, whole, in one rename, and never again.

    Readers see the column `batch`; the newest row of a key is the one with the largest `batch`. On file
    systems that cannot rename a folder in one step (object stores), a reader may see part of the newest batch
    while it is being moved.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._store = Store(path)

    def __repr__(self) -> str:
        return f"sinks.Parquet({self.path!r})"

    def staging(self, checkpoint: Store) -> Store:
        return self._store.child("_staging")

    def occupied(self) -> bool:
        """Whether something has been published here."""
        return any(name.startswith("batch=") for name in self._store.names(""))

    def publish(
        self, staged: Store, files: tuple[str, ...], batch: int, schema: pa.Schema, spark: Any
    ) -> None:
        final = self._store.path(f"batch={batch}")
        fs = self._store.fs
        with translated(final, "publishing"):
            if files and not fs.exists(final):
                ready = staged.path(f"ready-{batch:012d}")
                fs.makedirs(ready, exist_ok=True)
                for name in files:
                    target = f"{ready}/{name.rsplit('/', 1)[-1]}"
                    if not fs.exists(target):
                        fs.mv(staged.path(name), target)
                fs.mv(ready, final, recursive=True)
        staged.remove(f"{batch:012d}")


class Function(Sink):
    """Calls `function(DataFrame, batch_id)`, as `foreachBatch` would: at least once, always with the same
    rows for an id.
    """

    def __init__(self, function: Callable[[Any, int], None]) -> None:
        self.function = function

    def __repr__(self) -> str:
        return f"sinks.Function({getattr(self.function, '__name__', self.function)!s})"

    def publish(
        self, staged: Store, files: tuple[str, ...], batch: int, schema: pa.Schema, spark: Any
    ) -> None:
        from headgate.spark.types import spark_schema

        declared = spark_schema(schema)
        if files:
            rows = spark.read.schema(declared).parquet(
                *(staged.fs.unstrip_protocol(staged.path(f)) for f in files)
            )
        else:
            rows = spark.createDataFrame([], declared)
        self.function(rows, batch)


class Nowhere(Sink):
    """Stands for the sink of a stage that has none yet: what follows it in a pipeline."""

    def check(self) -> None:
        raise ConfigError(
            "this stage has no sink; give it one, or put it into hg.Pipeline(first, second, ...)"
        )

    def publish(
        self, staged: Store, files: tuple[str, ...], batch: int, schema: pa.Schema, spark: Any
    ) -> None:
        self.check()


class Memory(Sink):
    """Keeps the output in this process, by batch: for tests and notebooks. It forgets with the process, while
    the state does not.
    """

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}

    def __repr__(self) -> str:
        return f"sinks.Memory({len(self.batches)} batches)"

    def publish(
        self, staged: Store, files: tuple[str, ...], batch: int, schema: pa.Schema, spark: Any
    ) -> None:
        from headgate.spark.types import conform_table

        tables = []
        for name in files:
            with staged.fs.open(staged.path(name), "rb") as file:
                tables.append(pq.ParquetFile(file).read())
        rows = [conform_table(table, schema) for table in tables]
        self.batches[batch] = pa.concat_tables(rows) if rows else schema.empty_table()

    def table(self) -> pa.Table:
        """All rows, in batch order."""
        if not self.batches:
            return pa.table({})
        return pa.concat_tables([self.batches[b] for b in sorted(self.batches)])

    def latest(self, *key: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """The newest row of each key."""
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in self.table().to_pylist():
            rows[tuple(row[k] for k in key)] = row
        return rows


def as_sink(sink: Sink | Callable[[Any, int], None]) -> Sink:
    """A sink, or a plain function as one."""
    if isinstance(sink, Sink):
        return sink
    if callable(sink):
        return Function(sink)
    raise ConfigError(
        f"sink={sink!r} is not a sink; use sinks.Parquet(path), sinks.Memory() or a function (DataFrame, batch_id)"
    )


def publish(
    sink: Sink, staged: Store, files: tuple[str, ...], batch: int, schema: pa.Schema, spark: Any
) -> None:
    """Publish, and say what to do if that fails."""
    try:
        sink.publish(staged, files, batch, schema, spark)
    except HeadgateError:
        raise
    except Exception as error:
        raise SinkFailed(
            f"batch {batch} is committed, but {sink!r} could not publish it: {type(error).__name__}: {error}. "
            "Mend the sink and start the query again: the same rows are published then, and nothing is computed twice"
        ) from error
