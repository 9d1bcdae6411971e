"""`sinks.Iceberg`: the output as an Iceberg table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headgate.stage.sink import Output, Sink, check_case, key_of, staged_batch
from headgate.storage.columns_fit import check_key
from headgate.storage.iceberg_table import IcebergTable
from headgate.storage.parquet_folder import Owner


class Iceberg(Sink):
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
        self.table, self.mode, self.key = table, mode, key_of(mode, key, "sinks.Iceberg")
        parts = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        self._table = IcebergTable(
            table, catalog=catalog, partition_by=parts, properties=properties, first=first_batch
        )

    def __repr__(self) -> str:
        return f"sinks.Iceberg({self.table!r}, mode={self.mode!r})"

    def check_columns(self, schema: pa.Schema) -> None:
        check_case(schema)
        check_key(schema, self.key, repr(self))
        self._table.check(schema, self.key)

    def own(self, owner: Owner, committed: int | None = None) -> None:
        self._table.own(owner, committed)

    def publish(self, output: Output) -> None:
        self._table.publish(staged_batch(output, repr(self)), self.key)
