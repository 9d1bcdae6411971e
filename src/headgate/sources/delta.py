"""A Delta table as a source: the rows that its commits add. No jar: deltalake reads the table, and its log is JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from headgate.errors import ConfigError, SourceFailed, required
from headgate.sources.lake import LakeFile, LakeTable
from headgate.storage.store import Store

LOG = "_delta_log"


class Delta(LakeTable):
    """The rows of a Delta table, and then those that each commit adds. It needs `pip install 'headgate[delta]'`.

    A query begins with the rows that the table has, in the order of the times at which their files were written; with
    `only_new=True` it begins with the commits after its first start. A commit that changes or removes rows raises
    `SourceFailed`; with `changes="skip"` such commits are left out. Commits that only compact
    files add no rows. New columns of the table are not read before the query has a new checkpoint.
    """

    kind = "Delta"

    def __init__(
        self,
        path: str,
        *,
        changes: str = "refuse",
        only_new: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        required("deltalake", "a Delta table")
        self._store, self._options = Store(path), dict(storage_options or {})
        self._id: str | None = None
        self._looked = False
        super().__init__(changes, only_new)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks read files, and not the log; options of a store may be secrets."""
        return {**self.__dict__, "_options": {}}

    @property
    def place(self) -> str:
        return f"the Delta table {self._store.path()}"

    def _table(self, version: int | None = None) -> Any:
        delta = required("deltalake", "a Delta table")
        try:
            return delta.DeltaTable(self._store.url, version=version, storage_options=self._options)
        except delta.exceptions.TableNotFoundError as error:
            raise ConfigError(f"there is no Delta table at {self._store.path()}: name its folder") from error
        except (delta.exceptions.DeltaError, OSError) as error:
            if version is not None:
                raise self.forgotten(version) from error
            raise ConfigError(f"{self.place} cannot be read: {error}") from error

    def columns(self) -> pa.Schema:
        table = self._table()
        mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
        if mode != "none":
            raise ConfigError(f"{self.place} has delta.columnMapping.mode={mode}, which cannot be read here")
        self._id = str(table.metadata().id)
        return pa.schema(table.schema())

    def table_id(self) -> str:
        """The id that Delta gave the table when it was made, and its place."""
        if self._id is None:
            self._id = str(self._table().metadata().id)
        return f"{self._store.url} {self._id}"

    def newest(self) -> int | None:
        return int(self._table().version())

    def all_files(self, commit: int) -> list[LakeFile]:
        table = self._table(commit)
        if pa.table(table.deletion_vectors()).num_rows:
            raise self.changed(commit, "has deletion vectors")
        added = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        added.sort(key=lambda file: (file["modification_time"], file["path"]))
        return [self._file(file["path"], file.get("partition"), file["num_records"]) for file in added]

    def _file(self, path: str, partition: Mapping[str, Any] | None, rows: int | None) -> LakeFile:
        """A file as the log names it. There an empty text is a null, too."""
        url = unquote(path) if "://" in path else f"{self._store.url}/{unquote(path)}"
        values = [
            (name, None if value in (None, "") else str(value)) for name, value in (partition or {}).items()
        ]
        return LakeFile(url, rows or 0, tuple(values))

    def added_files(self, commit: int) -> list[LakeFile]:
        found, removed = [], False
        for line in self._store.read(_entry(commit)).splitlines():
            action = json.loads(line)
            add, remove = action.get("add"), action.get("remove")
            if remove is not None and remove.get("dataChange", True):
                removed = True
            if add is not None and add.get("dataChange", True):
                if add.get("deletionVector"):
                    removed = True
                rows = json.loads(add["stats"]).get("numRecords", 0) if add.get("stats") else 0
                found.append(self._file(add["path"], add.get("partitionValues"), rows))
        if removed:
            if self._changes == "skip":
                return []
            raise self.changed(commit, "changes or removes rows")
        return found

    def later(self, commit: int) -> list[int]:
        found = []
        while self._store.exists(_entry(commit + 1)):
            commit += 1
            found.append(commit)
        if not found and not self._looked:
            versions = [int(name[:20]) for name in self._store.names(LOG) if name[:20].isdecimal()]
            if not versions:
                raise SourceFailed(f"{self.place} has no log any more: restore it")
            if max(versions) > commit:
                raise self.forgotten(commit)
        self._looked = True
        return found


def _entry(version: int) -> str:
    return f"{LOG}/{version:020d}.json"
