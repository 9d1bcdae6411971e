"""`sinks.Table`: the output as a table in a database."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headgate.errors import ConfigError
from headgate.stage.sink import Output, Sink, key_of, staged_batch
from headgate.storage.columns_fit import check_key
from headgate.storage.parquet_folder import Owner
from headgate.storage.postgres_table import PostgreSQL
from headgate.storage.sql_table import Dialect, SqlTable
from headgate.storage.sqlite_table import PREFIX, SQLite


class Table(Sink):
    """A table in PostgreSQL (`postgresql://user@host/database`, which needs `pip install 'headgate[postgres]'`) or in a
    SQLite file (`sqlite:///out/users.db`). Each batch comes to it exactly once, in one transaction.

    `mode="append"` adds the rows. `mode="upsert"` with a `key` keeps the newest row of each key, so that the
    table is the current state of an aggregate. The table is made if there is none. The number of the last batch
    is kept in the table `headgate_batches` beside it. `first_batch` says that the table begins with that
    batch of the stage.

    >>> Table("sqlite:///out/users.db", "users", mode="upsert", key="user")
    sinks.Table('users' of SQLite out/users.db, mode='upsert')
    """

    def __init__(
        self,
        url: str,
        table: str,
        *,
        mode: str = "append",
        key: str | Sequence[str] | None = None,
        first_batch: int | None = None,
    ) -> None:
        self.mode, self.key = mode, key_of(mode, key, "sinks.Table")
        self._table = SqlTable(_dialect(url), table, first_batch)

    def __repr__(self) -> str:
        return f"sinks.Table({self._table.table!r} of {self._table.dialect.place}, mode={self.mode!r})"

    def check_columns(self, schema: pa.Schema) -> None:
        check_key(schema, self.key, repr(self))
        self._table.check(schema, self.key)

    def own(self, owner: Owner, committed: int | None = None) -> None:
        self._table.own(owner, committed)

    def publish(self, output: Output) -> None:
        self._table.publish(staged_batch(output, repr(self)), self.key)


def _dialect(url: str) -> Dialect:
    if url.startswith(PREFIX):
        return SQLite(url)
    if url.startswith(("postgresql://", "postgres://")):
        return PostgreSQL(url)
    raise ConfigError(
        "sinks.Table needs a URL such as postgresql://user@host/database or sqlite:///out/users.db"
    )
