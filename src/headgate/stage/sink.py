"""What a sink is: it publishes the committed output of a batch (`headgate.stage.sinks` has those there are)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.errors import ConfigError
from headgate.stage.engine import Engine
from headgate.state.conform import conform_table
from headgate.storage.manifest import Written
from headgate.storage.parquet_folder import Owner, verify
from headgate.storage.published import StagedBatch
from headgate.storage.store import Store


@dataclass(frozen=True)
class Output:
    """The committed output of a batch: files in a store, and their schema."""

    batch: int
    store: Store
    files: tuple[Written, ...]
    schema: pa.Schema
    engine: Engine[Any]
    again: bool = False
    """Whether the output may have been published before, or another driver wrote it."""
    owner: Owner | None = None
    """Whose output it is; None if no stage has committed it (`hg.bounded`)."""

    def verify(self) -> None:
        """Compare the files with the commit, if `again` is set."""
        if self.again:
            for file in self.files:
                verify(self.store, file.name, file)

    def table(self) -> pa.Table:
        """The rows as an Arrow table in this process."""
        self.verify()
        parts = [
            pq.ParquetFile(pa.BufferReader(self.store.read(file.name))).read(use_threads=False)
            for file in self.files
        ]
        tables = [conform_table(part, self.schema) for part in parts]
        return pa.concat_tables(tables) if tables else self.schema.empty_table()

    def frame(self) -> Any:
        """The rows as the engine holds them: a DataFrame on Spark."""
        self.verify()
        return self.engine.frame(self)


class Sink(ABC):
    """Publishes the committed output of a batch."""

    @property
    def place(self) -> str | None:
        """The folder of the output, if it has one: it may not lie in the input."""
        return None

    def staging(self, checkpoint: Store) -> Store:
        """Where tasks put output files before the commit."""
        return checkpoint.child("output")

    def check(self) -> None:
        """Refuse, before anything is computed, a batch that could not be published."""
        return None

    def check_columns(self, schema: pa.Schema) -> None:
        """Refuse columns that cannot be written."""
        return None

    def own(self, owner: Owner, committed: int | None = None) -> None:
        """Before a stage's first batch: refuse a place that belongs to another stage, or that
        lacks batches committed so far.
        """
        return None

    @abstractmethod
    def publish(self, output: Output) -> None:
        """Publish the output of a batch. After a crash it is called again with
        the same output (`output.again`).
        """


MODES = ("append", "upsert")


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


def staged_batch(output: Output, sink: str) -> StagedBatch:
    """The output as storage takes it."""
    if output.owner is None:
        raise ConfigError(f"{sink} needs to know whose output it gets (Output.owner)")
    return StagedBatch(
        output.batch, output.owner, output.store, output.files, output.schema, output.table, output.again
    )


def check_case(schema: pa.Schema) -> None:
    """Refuse columns whose names differ only in case: Spark cannot read them back from Parquet."""
    seen = dict[str, str]()
    for name in schema.names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise ConfigError(
                f"the output has the columns {other!r} and {name!r}, which differ only in case, so Spark could not read it: "
                "rename one of them"
            )
