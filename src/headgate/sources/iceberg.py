"""An Iceberg table as a source: the rows that its snapshots add. No jar: pyiceberg reads the table's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headgate.errors import ConfigError, required
from headgate.sources.lake import LakeFile, LakeTable
from headgate.storage.iceberg_catalog import open_catalog

if TYPE_CHECKING:
    import pyarrow.parquet as pq

FIELD_ID = b"PARQUET:field_id"


class Iceberg(LakeTable):
    """The rows of an Iceberg table, and then those that each snapshot adds. It needs `pip install 'headgate[iceberg]'`.

    `catalog` is as for `hg.sinks.Iceberg`. A query begins with the rows that the table has; with `only_new=True` it
    begins with the snapshots after its first start. A snapshot that changes or removes rows raises `SourceFailed`; with
    `changes="skip"` such snapshots are left out. Snapshots that only rewrite files add no rows. New columns of
    the table are not read before the query has a new checkpoint.
    """

    kind = "Iceberg"

    def __init__(
        self, table: str, *, catalog: Any = None, changes: str = "refuse", only_new: bool = False
    ) -> None:
        required("pyiceberg", "an Iceberg table")
        self._name = table
        self._catalog: Any = open_catalog(catalog)
        self._uuid: str | None = None
        self._ids: dict[int, str] = {}
        super().__init__(changes, only_new)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks read files, and do not need the catalog."""
        return {**self.__dict__, "_catalog": None}

    @property
    def place(self) -> str:
        return f"the Iceberg table {self._name}"

    def _table(self) -> Any:
        errors = required("pyiceberg.exceptions", "an Iceberg table")
        try:
            table = self._catalog.load_table(self._name)
        except (errors.NoSuchTableError, errors.NoSuchNamespaceError) as error:
            raise ConfigError(f"there is no Iceberg table {self._name} in the catalog") from error
        except Exception as error:
            raise ConfigError(f"{self.place} cannot be read: {error}") from error
        self._ids = {field.field_id: field.name for field in table.schema().fields}
        self._uuid = str(table.metadata.table_uuid)
        return table

    def columns(self) -> pa.Schema:
        schema = self._table().schema().as_arrow()
        return pa.schema([pa.field(field.name, field.type) for field in schema])

    def table_id(self) -> str:
        """The id that the table got when it was made, and its name."""
        if self._uuid is None:
            self._table()
        return f"{self._name} {self._uuid}"

    def newest(self) -> int | None:
        snapshot = self._table().current_snapshot()
        return None if snapshot is None else int(snapshot.snapshot_id)

    def all_files(self, commit: int) -> list[LakeFile]:
        table = self._table()
        if table.snapshot_by_id(commit) is None:
            raise self.forgotten(commit)
        return self._files(commit, table.scan(snapshot_id=commit).plan_files())

    def _files(self, commit: int, tasks: Any) -> list[LakeFile]:
        found = []
        for task in tasks:
            if task.delete_files:
                raise self.changed(commit, "has rows that were deleted from their files")
            found.append(LakeFile(task.file.file_path, int(task.file.record_count)))
        return sorted(found)

    def added_files(self, commit: int) -> list[LakeFile]:
        table = self._table()
        snapshot = table.snapshot_by_id(commit)
        if snapshot is None:
            raise self.forgotten(commit)
        operation = "" if snapshot.summary is None else snapshot.summary.operation.value
        if operation == "append":
            scan = table.incremental_append_scan(
                from_snapshot_id_exclusive=snapshot.parent_snapshot_id, to_snapshot_id_inclusive=commit
            )
            return self._files(commit, scan.plan_files())
        if operation == "replace" or self._changes == "skip":
            return []
        raise self.changed(commit, f"is of the kind {operation!r}")

    def later(self, commit: int) -> list[int]:
        table, found = self._table(), list[int]()
        snapshot = table.current_snapshot()
        while snapshot is not None and snapshot.snapshot_id != commit:
            found.append(int(snapshot.snapshot_id))
            parent = snapshot.parent_snapshot_id
            if parent == commit:
                return found[::-1]
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        if snapshot is None:
            raise self.forgotten(commit)
        return found[::-1]

    def names_in(self, file: pq.ParquetFile) -> Mapping[str, str]:
        """By the ids of fields, which stay the same when a column is renamed; files that were adopted have none."""
        names = {}
        for field in file.schema_arrow:
            number = (field.metadata or {}).get(FIELD_ID)
            there = field.name if number is None else self._ids.get(int(number))
            if there is not None:
                names[field.name] = there
        return names
