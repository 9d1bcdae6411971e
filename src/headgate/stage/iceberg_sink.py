"""`sinks.Iceberg`: the output as an Iceberg table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.stage.batch_sink import LakeSink
from headgate.storage.iceberg_table import IcebergTable


class Iceberg(LakeSink[IcebergTable]):
    """An Iceberg table, to which each batch comes exactly once, in one commit. It needs
    `pip install 'headgate[iceberg]'`, and no jar.

    `catalog` is a catalog of pyiceberg, its name in pyiceberg's configuration, or a dict of what pyiceberg's
    `load_catalog` takes. `mode="append"` adds the rows. `mode="upsert"` with a `key` keeps the newest row of each key, so that
    the table is the current state of an aggregate. The table is made if there is none; `partition_by` and
    `properties` are used only then. It may have other writers, and other stages may write to it.
    `first_batch` says that the table begins with that batch of the stage.
    """

    def __init__(
        self,
        table: str,
        *,
        catalog: Any = None,
        mode: str = "append",
        key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        first_batch: int | None = None,
    ) -> None:
        self.table = table
        opened = IcebergTable(
            table, catalog=catalog, partition_by=partition_by, properties=properties, first=first_batch
        )
        super().__init__(opened, mode, key)

    def __repr__(self) -> str:
        return f"sinks.Iceberg({self.table!r}, mode={self.mode!r})"

    def compact(self) -> dict[str, Any]:
        """Merge small files into larger ones, and say how many files were removed and added. A query may run
        meanwhile. The old files stay until the snapshots that have them are expired.
        """
        return self._table.compact()
