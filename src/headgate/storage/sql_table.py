"""A table of a database that gets the batches of stages, each exactly once.

The table `headgate_batches` beside it has a row for each stage with the number of its last batch. This row is
locked, compared and changed in the transaction that writes the rows of a batch, so both are there or
neither is. Of two drivers with the same batch the second waits, and then finds that the batch is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headgate.errors import ConfigError, HeadgateError, MissingColumn, UnsupportedType
from headgate.storage import published
from headgate.storage.columns_fit import newest_rows, unlike
from headgate.storage.parquet_folder import Owner
from headgate.storage.published import StagedBatch

LEDGER = "headgate_batches"


@dataclass(frozen=True)
class Column:
    """A column of a table that exists."""

    kind: str
    """Its type, in the database's words."""
    required: bool = False
    """Whether a row must have a value for it."""


class Dialect(Protocol):
    """What differs from database to database."""

    error: type[Exception]
    """The base of its errors."""
    place: str
    """What messages call the database, without a password."""

    def connect(self) -> Any:
        """A connection of its own."""

    def begin(self, cursor: Any) -> None:
        """Begin a transaction that may write."""

    def marked(self, sql: str) -> str:
        """A statement with the database's own mark for a value in the place of `?`."""

    def locked(self, sql: str) -> str:
        """A SELECT that locks its row until the end of the transaction."""

    def alone(self, cursor: Any) -> None:
        """Let no other driver make tables until the end of the transaction."""

    def columns(self, cursor: Any, table: str) -> dict[str, Column]:
        """The columns of a table; none if it does not exist."""

    def is_unique(self, cursor: Any, table: str, key: Sequence[str]) -> bool:
        """Whether the table can have only one row for each key."""

    def type_of(self, kind: pa.DataType) -> str | None:
        """The database's type for an Arrow type; None if it has none."""

    def fits(self, wanted: str, there: str) -> bool:
        """Whether all values of a type fit into a column of another."""

    def insert(self, cursor: Any, table: str, rows: pa.Table) -> None:
        """Add rows."""

    def upsert(self, cursor: Any, table: str, rows: pa.Table, key: Sequence[str]) -> None:
        """Add rows, each in the place of the one that has its key. No two of them have the same key."""


class SqlTable:
    """A table in a database: `users`, or `analytics.users` in a schema."""

    def __init__(self, dialect: Dialect, table: str, first: int | None = None) -> None:
        if not table or not all(table.split(".")):
            raise ConfigError(
                f"table={table!r} is not the name of a table, such as 'users' or 'analytics.users'"
            )
        self.dialect, self.table, self.first = dialect, table, first
        folder, _, _ = table.rpartition(".")
        self.ledger = f"{folder}.{LEDGER}" if folder else LEDGER
        self._schema: pa.Schema | None = None
        self._key: Sequence[str] = ()

    @property
    def place(self) -> str:
        """What messages call it."""
        return f"the table {self.table} of {self.dialect.place}"

    # -- before the first batch

    def check(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """Refuse columns that the table cannot take, and a key that may have several rows."""
        wanted = self._types(schema)
        self._schema, self._key = schema, key
        with self._cursor("cannot be read") as cursor:
            there = self.dialect.columns(cursor, self.table)
            if not there:
                return
            lacks = [name for name in wanted if name not in there and name.lower() not in _folded(there)]
            if lacks:
                add = (
                    f"ALTER TABLE {quoted(self.table)} ADD COLUMN {quoted_name(lacks[0])} {wanted[lacks[0]]}"
                )
                raise MissingColumn(f"{self.place} has no column {lacks[0]!r}: add it with {add};")
            fitting = {
                name: wanted[name]
                if name in wanted and self.dialect.fits(wanted[name], column.kind)
                else column.kind
                for name, column in there.items()
            }
            strict = [name for name, column in there.items() if column.required]
            told = unlike(wanted, fitting, strict, self.place)
            if told:
                raise UnsupportedType(told)
            if key and not self.dialect.is_unique(cursor, self.table, key):
                names = ", ".join(quoted_name(name) for name in key)
                raise ConfigError(
                    f"{self.place} may have several rows for a key: make it unique with CREATE UNIQUE INDEX ON {quoted(self.table)} "
                    f"({names});"
                )

    def _types(self, schema: pa.Schema) -> dict[str, str]:
        types = {field.name: self.dialect.type_of(field.type) for field in schema}
        for name, kind in types.items():
            if kind is None:
                raise UnsupportedType(
                    f"column {name!r} is {schema.field(name).type}, which {self.dialect.place} cannot hold: cast it before it is written"
                )
        return {name: kind for name, kind in types.items() if kind is not None}

    def own(self, owner: Owner, committed: int | None) -> None:
        """Compare the table with what the stage has committed, and enter a stage that is new to it. A table
        that does not exist is made, if its columns are known (`check`).
        """
        with self._transaction("cannot be written to") as cursor:
            self.dialect.alone(cursor)
            there = bool(self.dialect.columns(cursor, self.table))
            if not self.dialect.columns(cursor, self.ledger):
                cursor.execute(
                    f"CREATE TABLE {quoted(self.ledger)} (query TEXT NOT NULL, target TEXT NOT NULL, batch BIGINT NOT NULL, "
                    "PRIMARY KEY (query, target))"
                )
            # What is recorded for a table that somebody has dropped counts no more.
            begin = published.begin(
                self.place,
                owner,
                recorded=self._recorded(cursor, published.name_of(owner)) if there else None,
                earlier=self._recorded(cursor, published.address_of(owner)) if there else None,
                committed=committed,
                first=self.first,
            )
            if not there and self._schema is not None:
                self._create(cursor, self._schema)
            if begin is not None:
                self._record(cursor, owner, begin)

    def _create(self, cursor: Any, schema: pa.Schema) -> None:
        columns = [f"{quoted_name(name)} {kind}" for name, kind in self._types(schema).items()]
        if self._key:  # not a primary key: that would refuse nulls
            columns.append(f"UNIQUE ({', '.join(quoted_name(name) for name in self._key)})")
        cursor.execute(f"CREATE TABLE {quoted(self.table)} ({', '.join(columns)})")

    # -- a batch

    def publish(self, batch: StagedBatch, key: Sequence[str]) -> None:
        """Write a batch, unless the table has it. With a key its newest rows take the place of older ones."""
        rows = batch.rows()
        with self._transaction(None) as cursor:
            recorded = self._recorded(cursor, published.name_of(batch.owner), lock=True)
            if not published.pending(self.place, batch.owner, batch.number, recorded):
                return
            if rows.num_rows and key:
                self.dialect.upsert(cursor, self.table, newest_rows(rows, key), key)
            elif rows.num_rows:
                self.dialect.insert(cursor, self.table, rows)
            self._record(cursor, batch.owner, batch.number)

    def _recorded(self, cursor: Any, name: str, *, lock: bool = False) -> int | None:
        select = f"SELECT batch FROM {quoted(self.ledger)} WHERE query = ? AND target = ?"
        cursor.execute(
            self.dialect.marked(self.dialect.locked(select) if lock else select), (name, self.table)
        )
        row = cursor.fetchone()
        return None if row is None else int(row[0])

    def _record(self, cursor: Any, owner: Owner, number: int) -> None:
        write = (
            f"INSERT INTO {quoted(self.ledger)} (query, target, batch) VALUES (?, ?, ?) "
            "ON CONFLICT (query, target) DO UPDATE SET batch = EXCLUDED.batch"
        )
        for name in (published.name_of(owner), published.address_of(owner)):
            cursor.execute(self.dialect.marked(write), (name, self.table, number))

    @contextmanager
    def _transaction(self, failure: str | None) -> Iterator[Any]:
        """Everything that the block does is committed after it, or nothing is."""
        with self._cursor(failure) as cursor:
            self.dialect.begin(cursor)
            try:
                yield cursor
            except BaseException:
                with suppress(self.dialect.error):  # a broken connection has nothing to roll back
                    cursor.execute("ROLLBACK")
                raise
            self._commit(cursor)

    def _commit(self, cursor: Any) -> None:
        cursor.execute("COMMIT")

    @contextmanager
    def _cursor(self, failure: str | None) -> Iterator[Any]:
        try:
            with closing(self.dialect.connect()) as connection, closing(connection.cursor()) as cursor:
                yield cursor
        except self.dialect.error as error:
            if failure is None or isinstance(error, HeadgateError):
                raise
            raise ConfigError(f"{self.place} {failure}: {error}") from error


def _folded(columns: Mapping[str, Column]) -> set[str]:
    return {name.lower() for name in columns}


def quoted_name(name: str) -> str:
    """A name in quotes, as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


def quoted(table: str) -> str:
    """A table's name in quotes, with its schema.

    >>> quoted("analytics.users")
    '"analytics"."users"'
    """
    return ".".join(quoted_name(part) for part in table.split("."))
