"""`sinks.Delta`: the output as a Delta table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headgate.errors import ConfigError
from headgate.stage.sink import Output, Sink, check_case, key_of, staged_batch
from headgate.storage.columns_fit import check_key
from headgate.storage.delta_table import DeltaFolder
from headgate.storage.parquet_folder import Owner
from headgate.storage.store import Store


class Delta(Sink):
    """A Delta table, to which each batch comes exactly once, in one commit. It needs
    `pip install 'headgate[delta]'`, and no jar.

    `mode="append"` adds the rows. `mode="upsert"` with a `key` keeps the newest row of each key, so that the
    table is the current state of an aggregate. The table is made if there is none; `partition_by`
    and `properties` are used only then. It may have other writers, and other stages may write to it.
    `first_batch` says that the table begins with that batch of the stage.
    """

    def __init__(
        self,
        path: str,
        *,
        mode: str = "append",
        key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        first_batch: int | None = None,
    ) -> None:
        self.path, self.mode, self.key = path, mode, key_of(mode, key, "sinks.Delta")
        parts = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        for what, given in (("properties", properties), ("storage_options", storage_options)):
            if any(not isinstance(item, str) for pair in (given or {}).items() for item in pair):
                raise ConfigError(f"sinks.Delta({what}={given!r}): names and values are texts")
        self._table = DeltaFolder(
            path,
            partition_by=parts,
            properties=properties,
            storage_options=storage_options,
            first=first_batch,
        )

    def __repr__(self) -> str:
        return f"sinks.Delta({self.path!r}, mode={self.mode!r})"

    @property
    def place(self) -> str | None:
        return Store(self.path).url

    def check_columns(self, schema: pa.Schema) -> None:
        check_case(schema)
        check_key(schema, self.key, repr(self))
        self._table.check(schema, self.key)

    def own(self, owner: Owner, committed: int | None = None) -> None:
        self._table.own(owner, committed)

    def publish(self, output: Output) -> None:
        self._table.publish(staged_batch(output, repr(self)), self.key)

    def compact(self) -> dict[str, Any]:
        """Merge small files into larger ones, and return Delta's account of it. A query may run meanwhile.
        The old files stay until `deltalake.DeltaTable(path).vacuum(...)` removes them.
        """
        return self._table.compact()
