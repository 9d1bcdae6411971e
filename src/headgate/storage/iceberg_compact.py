"""Merges the small files of an Iceberg table into larger ones.

Pyiceberg has no such action; its parts make one. The rows of some files of a partition are written into new
files, and one commit of the kind `replace` puts these in the place of the old ones: no row is added or
removed, and sources pass over such a commit. If others commit meanwhile, only the commit is made again. If they have
replaced one of the files, the new files are removed, and it begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.errors import required

GROUP_BYTES = 256 * 2**20
"""Files are merged in groups of at most this size: the driver holds the rows of one group."""
TARGET = "write.target-file-size-bytes"
TARGET_BYTES = 512 * 2**20
"""How large files are to be, if the table does not say."""


def groups_of(files: Sequence[Any], target: int) -> list[list[Any]]:
    """Small files of the same partition in groups; what would stay alone is left as it is. A file is small
    if it has less than three quarters of the target. Files from which rows were deleted are left out.
    """
    by_partition: dict[tuple[Any, ...], list[list[Any]]] = {}
    for task in sorted(files, key=lambda task: str(task.file.file_path)):
        size = task.file.file_size_in_bytes
        if task.delete_files or size >= min(0.75 * target, GROUP_BYTES):
            continue
        groups = by_partition.setdefault((task.file.spec_id, repr(task.file.partition)), [[]])
        if sum(other.file.file_size_in_bytes for other in groups[-1]) + size > GROUP_BYTES:
            groups.append([])
        groups[-1].append(task)
    return [group for groups in by_partition.values() for group in groups if len(group) > 1]


class Compaction:
    """One compaction of a table."""

    def __init__(self, open_table: Callable[[], Any], conflicts: tuple[type[Exception], ...]) -> None:
        self._open, self._conflicts = open_table, conflicts
        self._arrow = required("pyiceberg.io.pyarrow", "an Iceberg table")
        self._gone = required("pyiceberg.exceptions", "an Iceberg table").ValidationException
        self.removed = self.added = 0

    def run(self, attempts: int) -> bool:
        """Merge all groups; whether that succeeded within so many attempts."""
        for _ in range(attempts):
            table = self._open()
            target = int(table.properties.get(TARGET, TARGET_BYTES))
            spec = table.spec().spec_id
            tasks = [task for task in table.scan().plan_files() if task.file.spec_id == spec]
            if all(self._merge(table, group, attempts) for group in groups_of(tasks, target)):
                return True
        return False

    def _merge(self, table: Any, group: list[Any], attempts: int) -> bool:
        """Replace the files of a group; False if others have removed one of them, or write all the time."""
        everything = required("pyiceberg.expressions", "an Iceberg table").AlwaysTrue()
        scan = self._arrow.ArrowScan(table.metadata, table.io, table.schema(), everything)
        new = list(self._arrow._dataframe_to_data_files(table.metadata, scan.to_table(group), table.io))
        for _ in range(attempts):
            try:
                self._replace(self._open(), [task.file for task in group], new)
            except self._conflicts:
                continue
            except self._gone:
                break
            self.removed, self.added = self.removed + len(group), self.added + len(new)
            return True
        for file in new:
            table.io.delete(file.file_path)
        return False

    def _replace(self, table: Any, old: list[Any], new: list[Any]) -> None:
        snapshots = required("pyiceberg.table.snapshots", "an Iceberg table")
        with table.transaction() as change, change.update_snapshot().overwrite() as snapshot:
            summary = snapshot._summary

            def replaced(*given: Any, **options: Any) -> Any:
                made = summary(*given, **options)  # pyiceberg can sum up an overwrite, and no replacement
                return snapshots.Summary(snapshots.Operation.REPLACE, **made.additional_properties)

            snapshot._summary = replaced
            for file in old:
                snapshot.delete_data_file(file)
            for file in new:
                snapshot.append_data_file(file)
