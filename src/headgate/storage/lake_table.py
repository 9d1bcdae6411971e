"""What the tables of Delta and Iceberg have in common: which batches are written, and that a commit is made again
from the newest version if others have changed the table meanwhile.

A batch is one commit, with its rows and its number. The number is read before each commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pyarrow as pa

from headgate.errors import CheckpointError, ConfigError, SinkFailed, UnsupportedType
from headgate.storage import published
from headgate.storage.columns_fit import unlike
from headgate.storage.manifest import Written
from headgate.storage.parquet_folder import Owner
from headgate.storage.published import StagedBatch

ATTEMPTS = 20
"""How often a commit is tried while others write to the table."""
Brought = TypeVar("Brought")


class LakeTable(ABC):
    """A table of a lakehouse. A table that does not exist is made with these partitions and properties."""

    conflicts: tuple[type[Exception], ...]
    """What the format's library raises when others have changed the table meanwhile."""
    failures: tuple[type[Exception], ...]
    """What it raises when the table cannot be reached."""
    passed: tuple[type[Exception], ...] = ()
    """What the one who asks for it deals with."""

    def __init__(
        self, partition_by: str | Sequence[str], properties: Mapping[str, str] | None, first: int | None
    ) -> None:
        self.partition_by = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        self.properties, self.first = dict(properties or {}), first
        self._schema: Any = None
        """The columns of the output in the format's words, once they are known."""

    @property
    @abstractmethod
    def place(self) -> str:
        """What messages call it."""

    @abstractmethod
    def open(self) -> Any:
        """The table as it is now; None if there is none."""

    @abstractmethod
    def recorded(self, table: Any, name: str) -> int | None:
        """The number that the table has under a name (`published`)."""

    # -- before the first batch

    def check(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """Refuse columns that the table cannot take."""
        try:
            self._schema = self._converted(schema)
        except Exception as error:
            raise UnsupportedType(
                f"the output has a column that {self.place} cannot hold: {error}; cast it before it is written"
            ) from error
        for name in self.partition_by:
            if name not in schema.names:
                raise ConfigError(
                    f"partition_by names {name!r}, which is not in the output: {', '.join(schema.names)}"
                )
        table = self.open()
        if table is None:
            return
        there = self._partitions(table)
        if self.partition_by and self.partition_by != there:
            raise ConfigError(
                f"{self.place} is partitioned by {there}, and not by {self.partition_by}: leave partition_by out, or name another "
                "table"
            )
        self._check_settings(table, key)
        told = unlike(self._types(self._schema), *self._columns(table), self.place)
        if told:
            raise UnsupportedType(told)

    @abstractmethod
    def _converted(self, schema: pa.Schema) -> Any:
        """The columns in the format's words; any error says that it cannot hold them."""

    @abstractmethod
    def _types(self, schema: Any) -> dict[str, str]:
        """The types of such columns as text."""

    @abstractmethod
    def _columns(self, table: Any) -> tuple[dict[str, str], list[str]]:
        """The types of the table's columns as text, and the columns that must have a value."""

    @abstractmethod
    def _partitions(self, table: Any) -> list[str]:
        """The columns by which the table is partitioned."""

    def _check_settings(self, table: Any, key: Sequence[str]) -> None:
        """Refuse a table whose settings do not fit."""
        return None

    def own(self, owner: Owner, committed: int | None) -> None:
        """Compare the table with what the stage has committed, and enter a stage that is new to it. A table
        that does not exist is made, if its columns are known (`check`).
        """
        for _ in range(ATTEMPTS):
            table = self.open()
            recorded, earlier = (
                None if table is None else self.recorded(table, name(owner))
                for name in (published.name_of, published.address_of)
            )
            begin = published.begin(
                self.place, owner, recorded=recorded, earlier=earlier, committed=committed, first=self.first
            )
            if begin is None or (table is None and self._schema is None):
                return
            with self._translated("cannot be written to"), suppress(*self.conflicts):
                return self._enter(table, owner, begin)
        raise self._busy()

    @abstractmethod
    def _enter(self, table: Any, owner: Owner, begin: int) -> None:
        """Record a number for a stage that is new to the table; make the table if it is None."""

    # -- a batch

    def publish(self, batch: StagedBatch, key: Sequence[str]) -> None:
        """Write a batch, unless the table has it. With a key its newest rows take the place of older ones."""
        for _ in range(ATTEMPTS):
            table = self.open()
            if not self._is_pending(table, batch):
                return
            with suppress(*self.conflicts):
                if not self._add_columns(table, batch.schema):
                    return self._write(table, batch, key)
        raise self._busy()

    def _is_pending(self, table: Any, batch: StagedBatch) -> bool:
        recorded = None if table is None else self.recorded(table, published.name_of(batch.owner))
        return published.pending(self.place, batch.owner, batch.number, recorded)

    @abstractmethod
    def _add_columns(self, table: Any, schema: pa.Schema) -> bool:
        """Add the columns that the table lacks, in a commit of its own; say whether there were any."""

    @abstractmethod
    def _write(self, table: Any, batch: StagedBatch, key: Sequence[str]) -> None:
        """Commit a batch."""

    def _bring_all(self, batch: StagedBatch, bring: Callable[[Written], Brought]) -> list[Brought] | None:
        """Bring the files of the tasks into the table's folder. None if another driver has just published the batch."""
        try:
            return [bring(file) for file in batch.files]
        except (CheckpointError, FileNotFoundError):
            # That driver may have removed the staged files.
            if self._is_pending(self.open(), batch):
                raise
            return None

    # -- errors

    def _busy(self) -> SinkFailed:
        return SinkFailed(
            f"{self.place} was changed by others during each of {ATTEMPTS} attempts to commit: start the query again, and let "
            "fewer others write there at the same time"
        )

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        passed: tuple[type[Exception], ...] = (*self.conflicts, *self.passed, ConfigError)
        try:
            yield
        except passed:
            raise
        except self.failures as error:
            raise ConfigError(f"{self.place} {what}: {error}") from error
