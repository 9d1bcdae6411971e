"""`sinks.Table`: the output as a table in a database."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.errors import ConfigError
from headgate.stage.batch_sink import BatchSink
from headgate.storage.postgres_table import PostgreSQL
from headgate.storage.sql_table import Dialect, SqlTable
from headgate.storage.sqlite_table import PREFIX, SQLite


class Table(BatchSink[SqlTable]):
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
        super().__init__(SqlTable(_dialect(url), table, first_batch), mode, key)

    def __repr__(self) -> str:
        return f"sinks.Table({self._table.table!r} of {self._table.dialect.place}, mode={self.mode!r})"


def _dialect(url: str) -> Dialect:
    if url.startswith(PREFIX):
        return SQLite(url)
    if url.startswith(("postgresql://", "postgres://")):
        return PostgreSQL(url)
    raise ConfigError(
        "sinks.Table needs a URL such as postgresql://user@host/database or sqlite:///out/users.db"
    )
