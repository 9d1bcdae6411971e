"""What the sinks into tables have in common: rows are appended, or the newest row of each key is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from headgate.errors import ConfigError
from headgate.stage.sink import Output, Sink, check_case
from headgate.storage.columns_fit import check_key
from headgate.storage.parquet_folder import Owner
from headgate.storage.published import StagedBatch

MODES = ("append", "upsert")


class BatchTable(Protocol):
    """A table outside that gets the batches of stages, each once."""

    def check(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """Refuse columns that the table cannot take."""

    def own(self, owner: Owner, committed: int | None) -> None:
        """Compare the table with what the stage has committed."""

    def publish(self, batch: StagedBatch, key: Sequence[str]) -> None:
        """Write a batch, unless the table has it."""


Outside = TypeVar("Outside", bound=BatchTable)


class BatchSink(Sink, Generic[Outside]):
    """Writes each batch into a table, exactly once."""

    def __init__(self, table: Outside, mode: str, key: str | Sequence[str] | None) -> None:
        self.mode, self.key, self._table = mode, key_of(mode, key, f"sinks.{type(self).__name__}"), table

    def check_columns(self, schema: pa.Schema) -> None:
        check_key(schema, self.key, repr(self))
        self._table.check(schema, self.key)

    def own(self, owner: Owner, committed: int | None = None) -> None:
        self._table.own(owner, committed)

    def publish(self, output: Output) -> None:
        if output.owner is None:
            raise ConfigError(f"{self!r} needs to know whose output it gets (Output.owner)")
        batch = StagedBatch(
            output.batch, output.owner, output.store, output.files, output.schema, output.table, output.again
        )
        self._table.publish(batch, self.key)


class LakeSink(BatchSink[Outside]):
    """Writes into a table whose files are Parquet."""

    def check_columns(self, schema: pa.Schema) -> None:
        check_case(schema)
        super().check_columns(schema)


def key_of(mode: str, key: str | Sequence[str] | None, sink: str) -> tuple[str, ...]:
    """The columns of the key that a sink upserts by; none if it appends.

    >>> key_of("upsert", "user", "sinks.Delta"), key_of("append", None, "sinks.Delta")
    (('user',), ())
    """
    if mode not in MODES:
        raise ConfigError(f"{sink}(mode={mode!r}) is neither 'append' nor 'upsert'")
    names = () if key is None else (key,) if isinstance(key, str) else tuple(key)
    if mode == "upsert" and not names:
        raise ConfigError(
            f"{sink}(mode='upsert') needs a key: the columns that tell rows apart, as in key='user'"
        )
    if mode == "append" and names:
        raise ConfigError(f"{sink}(key={key!r}) is for mode='upsert'; rows that are appended need none")
    if len(set(names)) != len(names) or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"{sink}(key={key!r}): name each column once")
    return names
