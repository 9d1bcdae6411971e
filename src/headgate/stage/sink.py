"""What a sink is: it publishes the committed output of a batch (`headgate.stage.sinks` has those there are)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.errors import ConfigError
from headgate.stage.engine import Engine
from headgate.state.conform import conform_table
from headgate.storage.manifest import Written
from headgate.storage.parquet_folder import Owner, verify
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

    def output_store(self, checkpoint: Store) -> Store:
        """Where the tasks of a stage put output files. By default they are staged there."""
        return self.staging(checkpoint)

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
