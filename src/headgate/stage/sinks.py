"""Sinks: where the output of a stage goes. Tasks stage output files, the commit names them,
and then the sink publishes them.

After a crash the same files may be published again; with every sink here the second time is
harmless. The commit has the size and the checksum of each file, so that files that were not
published before a restart are verified before anyone sees them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headgate.errors import ConfigError, HeadgateError, SinkFailed
from headgate.stage.delta_sink import Delta
from headgate.stage.iceberg_sink import Iceberg
from headgate.stage.kafka_sink import Kafka
from headgate.stage.sink import Output, Sink, check_case
from headgate.stage.table_sink import Table
from headgate.storage.parquet_folder import STAGING, Owner, ParquetFolder
from headgate.storage.store import Store

__all__ = [
    "Delta",
    "Function",
    "Iceberg",
    "Kafka",
    "Memory",
    "Nowhere",
    "Output",
    "Parquet",
    "Sink",
    "Table",
    "as_sink",
    "publish",
]


class Parquet(Sink):
    """A Parquet folder that belongs to one stage. Each batch N appears exactly
    once, as a whole, as `batch=N/`.

    Readers see the number of the batch as the column `batch` (`batch_column` gives it another
    name); the newest row of a key is the one with the largest `batch`. On a local disk a batch
    appears in one rename. Object stores cannot rename: there a batch is complete when its record in
    `_batches` exists, and `files` gives the files of complete batches. A folder has all batches of
    its stage, unless `first_batch` says that it begins later.

    >>> import tempfile
    >>> Parquet(tempfile.mkdtemp()).files()
    []
    """

    def __init__(self, path: str, *, batch_column: str = "batch", first_batch: int | None = None) -> None:
        if not batch_column or set(batch_column) & set("/=\\") or batch_column[0] in "_.":
            raise ConfigError(f"batch_column={batch_column!r} must be a plain name: it is a part of paths")
        self.path, self.first_batch = path, first_batch
        self._folder = ParquetFolder(path, batch_column, first_batch)

    def __repr__(self) -> str:
        return f"sinks.Parquet({self.path!r})"

    @property
    def place(self) -> str | None:
        return self._folder.store.url

    def staging(self, checkpoint: Store) -> Store:
        return self._folder.store.child(STAGING)

    def output_store(self, checkpoint: Store) -> Store:
        return self._folder.output_store()

    def own(self, owner: Owner, committed: int | None = None) -> None:
        self._folder.own(owner, committed)

    def check_columns(self, schema: pa.Schema) -> None:
        check_case(schema)
        column = self._folder.column
        clash = [name for name in schema.names if name.lower() == column.lower()]
        if clash:
            raise ConfigError(
                f"the output has a column {clash[0]!r}, and {self!r} adds a column {column!r} for the number of the batch: rename "
                "the column, or change the sink's with sinks.Parquet(path, batch_column=...)"
            )

    def occupied(self) -> bool:
        """Whether any batch has been published here."""
        return self._folder.occupied()

    def batches(self) -> list[int]:
        """The numbers of the complete batches, including batches without output."""
        return self._folder.batches()

    def files(self, batch: int | None = None) -> list[str]:
        """The files of a batch, or of all complete batches: `spark.read.parquet(*sink.files())`."""
        return self._folder.files(batch)

    def publish(self, output: Output) -> None:
        self.check_columns(output.schema)
        self._folder.show(output.store, output.files, output.batch, again=output.again)
        if output.files and not output.store.in_place:
            output.store.remove(output.files[0].name.rpartition("/")[0])


class Function(Sink):
    """Calls `function(DataFrame, batch_id)` as `foreachBatch` does: at least once per batch,
    always with the same rows for an id.
    """

    def __init__(self, function: Callable[[Any, int], None]) -> None:
        self.function = function

    def __repr__(self) -> str:
        return f"sinks.Function({getattr(self.function, '__name__', self.function)!s})"

    def check_columns(self, schema: pa.Schema) -> None:
        check_case(schema)

    def publish(self, output: Output) -> None:
        self.function(output.frame(), output.batch)


class Nowhere(Sink):
    """Stands for the missing sink of a stage that another stage follows in a pipeline."""

    def check(self) -> None:
        raise ConfigError(
            "this stage has no sink; give it one, or put it into hg.Pipeline(first, second, ...)"
        )

    def publish(self, output: Output) -> None:
        self.check()


class Memory(Sink):
    """Keeps the output in this process, by batch: for tests and notebooks. A restart loses it,
    but not the state of the stage.
    """

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}

    def __repr__(self) -> str:
        return f"sinks.Memory({len(self.batches)} batches)"

    def publish(self, output: Output) -> None:
        self.batches[output.batch] = output.table()

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
    """The sink itself, or a plain function wrapped as a sink."""
    if isinstance(sink, Sink):
        return sink
    if isinstance(sink, type):
        raise ConfigError(
            f"sink={sink.__name__} is a class; make one of it, as in sinks.{sink.__name__}(...)"
        )
    if callable(sink):
        return Function(sink)
    raise ConfigError(
        f"sink={sink!r} is not a sink; use sinks.Parquet(path), sinks.Memory() or a function (DataFrame, batch_id)"
    )


def publish(sink: Sink, output: Output) -> None:
    """Publish the output; if that fails, raise an error that says what to do."""
    try:
        sink.publish(output)
    except HeadgateError:
        raise
    except Exception as error:
        raise SinkFailed(
            f"batch {output.batch} is committed, but {sink!r} could not publish it: {type(error).__name__}: {error}. "
            "Repair the sink and start the query again: then the same rows are published, and nothing is computed twice"
        ) from error
