"""`sinks.Delta`: the output as a Delta table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.errors import ConfigError
from headgate.stage.batch_sink import LakeSink
from headgate.storage.delta_table import DeltaFolder
from headgate.storage.store import Store

FORGETS = "delta.setTransactionRetentionDuration"


class Delta(LakeSink[DeltaFolder]):
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
        for what, given in (("properties", properties), ("storage_options", storage_options)):
            if any(not isinstance(item, str) for pair in (given or {}).items() for item in pair):
                raise ConfigError(f"sinks.Delta({what}={given!r}): names and values are texts")
        if FORGETS in (properties or {}):
            raise ConfigError(
                f"sinks.Delta(properties=...) sets {FORGETS}: Delta would forget which batches it has. Leave it out"
            )
        self.path = path
        folder = DeltaFolder(
            path,
            partition_by=partition_by,
            properties=properties,
            storage_options=storage_options,
            first=first_batch,
        )
        super().__init__(folder, mode, key)

    def __repr__(self) -> str:
        return f"sinks.Delta({self.path!r}, mode={self.mode!r})"

    @property
    def place(self) -> str | None:
        return Store(self.path).url

    def compact(self) -> dict[str, Any]:
        """Merge small files into larger ones, and return Delta's account of it. A query may run meanwhile.
        The old files stay until `deltalake.DeltaTable(path).vacuum(...)` removes them.
        """
        return self._table.compact()
