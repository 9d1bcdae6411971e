"""A Delta table that gets the batches of stages, each exactly once. No jar: deltalake reads and writes the log.

A batch is one commit of the table. It holds the rows and, as Delta's application transaction, the
number of the batch under the stage's name. Before each commit the number is read. If another
driver commits the same batch meanwhile, Delta refuses the second commit: it was made from an
older version of the table, and names the same application.

Files that tasks have written become part of the table as they are: they are linked (on a disk) or
copied (on other stores) into its folder, and the commit names them. A table that is partitioned, or
that checks its rows, needs other files; then the driver writes the rows again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.errors import CheckpointError, ConfigError, SinkFailed, UnsupportedType, required
from headgate.storage import published
from headgate.storage.adopt import bring
from headgate.storage.columns_fit import bare, newest_rows, unlike
from headgate.storage.delta_actions import milliseconds, statistics
from headgate.storage.manifest import Written
from headgate.storage.parquet_folder import Owner
from headgate.storage.published import StagedBatch
from headgate.storage.store import Store, translated

ATTEMPTS = 20
"""How often a commit is tried while others write to the table."""
CHECKED = ("delta.constraints.", "delta.columnMapping.")
"""Properties of a table whose files must be written by somebody who knows them."""


class DeltaFolder:
    """A Delta table at a path."""

    def __init__(
        self,
        path: str,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        first: int | None = None,
    ) -> None:
        self.delta = required("deltalake", "a Delta table")
        self.actions = required("deltalake.transaction", "a Delta table")
        self.store, self.first = Store(path), first
        self.partition_by, self.properties = list(partition_by), dict(properties or {})
        self.options = dict(storage_options or {})
        self._schema: Any = None

    @property
    def place(self) -> str:
        """What messages call it."""
        return f"the Delta table {self.store.path()}"

    def open(self) -> Any:
        """The table (`deltalake.DeltaTable`) as it is now; None if there is none."""
        with self._translated("cannot be read"):
            if not self.delta.DeltaTable.is_deltatable(self.store.url, storage_options=self.options):
                return None
            return self.delta.DeltaTable(self.store.url, storage_options=self.options)

    # -- before the first batch

    def check(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """Refuse columns that the table cannot take."""
        self._schema, table = self._delta_schema(schema), self.open()
        for name in self.partition_by:
            if name not in schema.names:
                raise ConfigError(
                    f"partition_by names {name!r}, which is not in the output: {', '.join(schema.names)}"
                )
        if table is None:
            return
        about = table.metadata()
        if self.partition_by and self.partition_by != list(about.partition_columns):
            raise ConfigError(
                f"{self.place} is partitioned by {list(about.partition_columns)}, and not by {self.partition_by}: leave "
                "partition_by out, or name another table"
            )
        if key and about.configuration.get("delta.appendOnly", "").lower() == "true":
            raise ConfigError(f"{self.place} has delta.appendOnly=true, so its rows cannot be upserted")
        has = table.schema()
        strict = [field.name for field in has.fields if not field.nullable]
        told = unlike(_types(self._schema), _types(has), strict, self.place)
        if told:
            raise UnsupportedType(told)

    def own(self, owner: Owner, committed: int | None) -> None:
        """Compare the table with what the stage has committed, and enter a stage that is new to it. A table
        that does not exist is made, if its columns are known (`check`).
        """
        for _ in range(ATTEMPTS):
            table = self.open()
            begin = published.begin(
                self.place,
                owner,
                recorded=None if table is None else table.transaction_version(published.name_of(owner)),
                earlier=None if table is None else table.transaction_version(published.address_of(owner)),
                committed=committed,
                first=self.first,
            )
            if begin is None or (table is None and self._schema is None):
                return
            with self._translated("cannot be written to"), suppress(self._conflict):
                return self._enter(table, owner, begin)
        raise self._busy()

    def _enter(self, table: Any, owner: Owner, begin: int) -> None:
        if table is not None:
            return self._commit(table, [], owner, begin)
        self.store.make("")
        try:
            self.delta.DeltaTable.create(
                self.store.url,
                self._schema,
                mode="error",
                partition_by=self.partition_by or None,
                configuration=self.properties or None,
                storage_options=self.options,
                commit_properties=self._properties(owner, begin),
            )
        except self.delta.exceptions.DeltaError as error:
            if self.open() is None:
                raise
            raise self._conflict(str(error)) from error
        self._settle(-1)

    # -- a batch

    def publish(self, batch: StagedBatch, key: Sequence[str]) -> None:
        """Write a batch, unless the table has it. With a key its newest rows take the place of older ones."""
        for _ in range(ATTEMPTS):
            table = self.open()
            recorded = None if table is None else table.transaction_version(published.name_of(batch.owner))
            if not published.pending(self.place, batch.owner, batch.number, recorded):
                return
            with suppress(self._conflict):
                if self._add_columns(table, batch.schema):
                    continue
                version = table.version()
                if not batch.files:
                    self._commit(table, [], batch.owner, batch.number)
                elif key:
                    self._merge(table, batch, key)
                elif self._adopts(table):
                    self._adopt(table, batch)
                else:
                    self._rewrite(table, batch)
                return self._settle(version)
        raise self._busy()

    def _add_columns(self, table: Any, schema: pa.Schema) -> bool:
        """Add the columns that the table lacks, in a commit of its own."""
        has = {field.name for field in table.schema().fields}
        new = [field for field in self._delta_schema(schema).fields if field.name not in has]
        if new:
            table.alter.add_columns(new)
        return bool(new)

    def _adopts(self, table: Any) -> bool:
        """Whether the table takes files as they are."""
        about = table.metadata()
        special = any(name.startswith(CHECKED) for name in about.configuration)
        return not (special or about.partition_columns or any(f.metadata for f in table.schema().fields))

    def _adopt(self, table: Any, batch: StagedBatch) -> None:
        """Commit the files of the tasks."""
        try:
            added = [self._brought(batch, file) for file in batch.files]
        except (CheckpointError, FileNotFoundError):
            # Another driver may just have published the batch and removed its staged files.
            now = self.open()
            recorded = None if now is None else now.transaction_version(published.name_of(batch.owner))
            if published.pending(self.place, batch.owner, batch.number, recorded):
                raise
            return
        self.store.flush("")
        self._commit(table, added, batch.owner, batch.number)

    def _brought(self, batch: StagedBatch, file: Written) -> Any:
        """Bring a file into the table's folder, and describe it for the log."""
        name = bring(batch, file, self.store)
        path = self.store.path(name)
        with translated(path, "reading"), self.store.fs.open(path, "rb") as opened:
            footer = pq.ParquetFile(opened).metadata
            changed = milliseconds(self.store.fs.modified(path))
        told = statistics(footer, batch.schema)
        return self.actions.AddAction(name, file.size, {}, changed, True, told)

    def _rewrite(self, table: Any, batch: StagedBatch) -> None:
        """Write the rows again, as the table wants its files."""
        self.delta.write_deltalake(
            table,
            batch.rows().cast(bare(batch.schema)),
            mode="append",
            commit_properties=self._properties(batch.owner, batch.number),
        )

    def _merge(self, table: Any, batch: StagedBatch, key: Sequence[str]) -> None:
        """Replace the rows of the batch's keys, and add those that are new."""
        rows = newest_rows(batch.rows().cast(bare(batch.schema)), key)
        match = [
            f"target.{_quoted(name)} {'IS NOT DISTINCT FROM' if rows.column(name).null_count else '='} source.{_quoted(name)}"
            for name in key
        ]
        values = {_quoted(name): f"source.{_quoted(name)}" for name in rows.column_names}
        merge = table.merge(
            rows,
            " AND ".join(match),
            source_alias="source",
            target_alias="target",
            commit_properties=self._properties(batch.owner, batch.number),
        )
        merge.when_matched_update(values).when_not_matched_insert(values).execute()

    def _commit(self, table: Any, actions: list[Any], owner: Owner, number: int) -> None:
        table.create_write_transaction(
            actions, "append", table.schema(), None, commit_properties=self._properties(owner, number)
        )

    def _properties(self, owner: Owner, number: int) -> Any:
        names = (published.name_of(owner), published.address_of(owner))
        return self.delta.CommitProperties(
            app_transactions=[self.delta.Transaction(name, number) for name in names]
        )

    def _settle(self, before: int) -> None:
        """On a durable disk: make the commits after a version survive a loss of power, with the files they name."""
        disk = self.store.disk
        if disk is None or not self.store.durable:
            return
        version = before + 1
        while self.store.exists(entry := f"_delta_log/{version:020d}.json"):
            for line in self.store.read(entry).splitlines():
                path = json.loads(line).get("add", {}).get("path")
                if path is not None and self.store.exists(path):
                    disk.flush(self.store.path(path))
            disk.flush(self.store.path(entry))
            version += 1
        self.store.flush("_delta_log")

    def compact(self) -> dict[str, Any]:
        """Merge small files into larger ones, and return Delta's own account of it."""
        for _ in range(ATTEMPTS):
            table = self.open()
            if table is None:
                raise ConfigError(f"{self.place} does not exist")
            with suppress(self._conflict):
                return dict(table.optimize.compact())
        raise self._busy()

    # -- errors

    @property
    def _conflict(self) -> type[Exception]:
        """What deltalake raises when others have changed the table meanwhile."""
        error: type[Exception] = self.delta.exceptions.CommitFailedError
        return error

    def _busy(self) -> SinkFailed:
        return SinkFailed(
            f"{self.place} was changed by others during each of {ATTEMPTS} attempts to commit: start the query again, and let "
            "fewer others write there at the same time"
        )

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except (self._conflict, ConfigError):
            raise
        except (self.delta.exceptions.DeltaError, OSError) as error:
            raise ConfigError(f"{self.place} {what}: {error}") from error

    def _delta_schema(self, schema: pa.Schema) -> Any:
        try:
            return self.delta.Schema.from_arrow(bare(schema))
        except Exception as error:
            raise UnsupportedType(
                f"the output has a column that {self.place} cannot hold: {error}; cast it before it is written"
            ) from error


def _types(schema: Any) -> dict[str, str]:
    """The types of a Delta schema as text."""
    return {field.name: _text(json.loads(field.to_json())["type"]) for field in schema.fields}


def _text(kind: Any) -> str:
    """A type as text, without what is said about nulls."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "array":
        return f"array<{_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_text(kind['keyType'])}, {_text(kind['valueType'])}>"
    fields = [f"{field['name']}: {_text(field['type'])}" for field in kind["fields"]]
    return f"struct<{', '.join(fields)}>"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
