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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.errors import ConfigError, required
from headgate.storage import published
from headgate.storage.adopt import bring
from headgate.storage.columns_fit import bare, filled, newest_rows
from headgate.storage.delta_actions import milliseconds, statistics
from headgate.storage.lake_table import ATTEMPTS, LakeTable
from headgate.storage.manifest import Written
from headgate.storage.parquet_folder import Owner
from headgate.storage.published import StagedBatch
from headgate.storage.store import Store, translated

CHECKED = ("delta.constraints.", "delta.columnMapping.")
"""Properties of a table whose files must be written by somebody who knows them."""


class DeltaFolder(LakeTable):
    """A Delta table at a path."""

    def __init__(
        self,
        path: str,
        *,
        partition_by: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        first: int | None = None,
    ) -> None:
        super().__init__(partition_by, properties, first)
        self.delta = required("deltalake", "a Delta table")
        self.actions = required("deltalake.transaction", "a Delta table")
        self.conflicts = (self.delta.exceptions.CommitFailedError,)
        self.failures = (self.delta.exceptions.DeltaError, OSError)
        self.store, self.options = Store(path), dict(storage_options or {})

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

    def recorded(self, table: Any, name: str) -> int | None:
        """The version of an application transaction."""
        found: int | None = table.transaction_version(name)
        return found

    # -- before the first batch

    def _check_settings(self, table: Any, key: Sequence[str]) -> None:
        if key and table.metadata().configuration.get("delta.appendOnly", "").lower() == "true":
            raise ConfigError(f"{self.place} has delta.appendOnly=true, so its rows cannot be upserted")

    def _partitions(self, table: Any) -> list[str]:
        return list(table.metadata().partition_columns)

    def _converted(self, schema: pa.Schema) -> Any:
        return self.delta.Schema.from_arrow(bare(schema))

    def _types(self, schema: Any) -> dict[str, str]:
        return {field.name: _text(json.loads(field.to_json())["type"]) for field in schema.fields}

    def _columns(self, table: Any) -> tuple[dict[str, str], list[str]]:
        has = table.schema()
        return self._types(has), [field.name for field in has.fields if not field.nullable]

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
            raise self.conflicts[0](str(error)) from error
        self._settle(-1)

    # -- a batch

    def _write(self, table: Any, batch: StagedBatch, key: Sequence[str]) -> None:
        version = table.version()
        if not batch.files:
            self._commit(table, [], batch.owner, batch.number)
        elif key:
            self._merge(table, batch, key)
        elif self._adopts(table):
            self._adopt(table, batch)
        else:
            self._rewrite(table, batch)
        self._settle(version)

    def _add_columns(self, table: Any, schema: pa.Schema) -> bool:
        has = {field.name for field in table.schema().fields}
        new = [field for field in self._converted(schema).fields if field.name not in has]
        if new:
            table.alter.add_columns(new)
        return bool(new)

    def _adopts(self, table: Any) -> bool:
        """Whether the table takes files as they are. One that checks rows has to see them."""
        about, fields = table.metadata(), table.schema().fields
        special = any(name.startswith(CHECKED) for name in about.configuration)
        checked = any(field.metadata or not field.nullable for field in fields)
        return not (special or checked or about.partition_columns)

    def _adopt(self, table: Any, batch: StagedBatch) -> None:
        """Commit the files of the tasks."""
        added = self._bring_all(batch, lambda file: self._brought(batch, file))
        if added is None:
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
            filled(batch.rows(), pa.schema(table.schema().to_arrow())),
            mode="append",
            commit_properties=self._properties(batch.owner, batch.number),
        )

    def _merge(self, table: Any, batch: StagedBatch, key: Sequence[str]) -> None:
        """Replace the rows of the batch's keys, and add those that are new."""
        rows = newest_rows(batch.rows().cast(bare(batch.schema)), key)
        match = [_same(name, nulls=rows.column(name).null_count > 0) for name in key]
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
            with suppress(*self.conflicts):
                return dict(table.optimize.compact())
        raise self._busy()


def _same(name: str, *, nulls: bool) -> str:
    """The condition that a row of the table has the key column of a row of the batch. The parentheses matter:
    Delta reads `a IS NOT DISTINCT FROM b AND c` as `a IS NOT DISTINCT FROM (b AND c)`.
    """
    compare = "IS NOT DISTINCT FROM" if nulls else "="
    return f"(target.{_quoted(name)} {compare} source.{_quoted(name)})"


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
