"""What tables of a lakehouse share as sources: commits in their order, each with the Parquet files that it added.

An offset says how many files of a commit were read. A query begins with all files of the table's newest
version (`whole`), and then follows the commits after it. A commit that changes or removes rows cannot be
read as new rows: it stops the query, or is skipped if the user says so.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from headgate.errors import ConfigError, HeadgateError, MissingColumn, SourceFailed
from headgate.sources.cutting import FILE_ROWS, LEAST_WORK, batches, shares
from headgate.sources.fit import declared, plain_of, widens
from headgate.sources.place import Place
from headgate.sources.source import CHEAP_ROWS, Demand, Range, Ranges, Source
from headgate.state.payload import plain
from headgate.storage.store import Store

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_SCHEMA, _BEGIN = "schema.arrow", "begin.json"
ALL = -1
"""In an offset: all files of the commit were read."""
CHANGES = ("refuse", "skip")


class LakeFile(NamedTuple):
    """A Parquet file of a table."""

    url: str
    rows: int
    values: tuple[tuple[str, str | None], ...] = ()
    """Values of partition columns, as text, which the file need not have."""


class LakeTable(Source):
    """A table whose commits are a stream of new rows."""

    kind: str
    """The name of the format."""

    def __init__(self, changes: str, only_new: bool) -> None:
        if changes not in CHANGES:
            raise ConfigError(
                f"{self.kind}(changes={changes!r}): write 'refuse' or 'skip' for commits that change or remove rows"
            )
        self._changes, self._only_new = changes, only_new
        self._schema: pa.Schema | None = None
        self._columns: tuple[str, ...] | None = None
        self._begin: int | None = None
        """The commit after which the query begins, if not with the whole table."""
        self._seen: tuple[Any, int] | None = None
        """An offset, and a later commit up to which no file follows it."""

    # -- what a format tells

    @property
    @abstractmethod
    def place(self) -> str:
        """What messages call the table."""

    @abstractmethod
    def table_id(self) -> str:
        """What tells the table from another one at the same place."""

    @abstractmethod
    def columns(self) -> pa.Schema:
        """The columns of the table now."""

    @abstractmethod
    def newest(self) -> int | None:
        """The newest commit; None if the table has none."""

    @abstractmethod
    def all_files(self, commit: int) -> list[LakeFile]:
        """The files of the table as of a commit, always in the same order."""

    @abstractmethod
    def added_files(self, commit: int) -> list[LakeFile]:
        """The files that a commit added, always in the same order. Raise `SourceFailed` (`changed`) if
        it did anything else to the rows.
        """

    @abstractmethod
    def later(self, commit: int) -> list[int]:
        """The commits after one, the oldest first. Raise `SourceFailed` (`forgotten`) if some are gone."""

    def names_in(self, file: pq.ParquetFile) -> Mapping[str, str]:
        """The name of each column of a file, and its name in the table."""
        return {name: name for name in file.schema_arrow.names}

    # -- a source

    def __repr__(self) -> str:
        return f"{self.kind}({self.place})"

    def check(self) -> None:
        """Refuse a table that cannot be read."""
        self.columns()

    def recall(self, store: Store) -> None:
        """Use the columns that an earlier run found; the table may have more of them by now."""
        if store.exists(_SCHEMA):
            self._schema = pa.ipc.read_schema(pa.BufferReader(store.read(_SCHEMA)))

    def open(self, store: Store) -> None:
        """Keep in the checkpoint what must be the same later: the columns, and the commit after which a query begins."""
        store.make("")
        store.write_once(_SCHEMA, self._full().serialize().to_pybytes())
        if self._only_new:
            store.write_once(_BEGIN, json.dumps(self.newest()).encode())
            self._begin = json.loads(store.read(_BEGIN))

    def _full(self) -> pa.Schema:
        if self._schema is None:
            self._schema = declared(self.columns())
        return self._schema

    def schema(self) -> pa.Schema:
        """The columns that the table had when the query began."""
        full = self._full()
        if self._columns is None:
            return full
        return pa.schema([field for field in full if field.name in self._columns])

    def identity(self) -> dict[str, Any]:
        """The table and its columns."""
        columns = [[field.name, str(field.type)] for field in self._full()]
        return {"source": self.kind.lower(), "table": self.table_id(), "columns": columns}

    def fresh(self) -> LakeTable:
        """A copy: columns and beginning belong to one query."""
        copied = object.__new__(type(self))  # a plain copy would lose what a pickle does
        copied.__dict__.update(self.__dict__)
        return copied

    def only(self, columns: Sequence[str]) -> LakeTable:
        """The same table with fewer columns; at least one is read, so that rows can be counted."""
        names = self.schema().names
        if unknown := [name for name in columns if name not in names]:
            raise MissingColumn(f"{self!r} has no column {unknown[0]}; it has {', '.join(names)}")
        fewer = self.fresh()
        fewer._columns = tuple(name for name in names if name in set(columns)) or tuple(names[:1])
        return fewer

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        """Take the next files, each as a whole, and at least one of them."""
        start = self._start(offset)
        if start is None:
            return Ranges((), offset)
        commit, done, whole = start
        files = [] if done < 0 else self.all_files(commit) if whole else self.added_files(commit)
        files = files[max(0, done) :]
        taken: list[LakeFile] = []
        left, waiting = demand.rows, None
        while True:
            for file in files:
                if taken and file.rows > left:
                    return self._planned(taken, [commit, done, whole], demand, more=True)
                taken.append(file)
                left, done = left - file.rows, done + 1
            done = ALL
            if waiting is None:
                waiting = self._waiting(offset, commit)
            if not waiting or (taken and left <= 0):
                break
            commit, done, whole = waiting.pop(0), 0, False
            files = self.added_files(commit)
        if not taken:
            self._seen = (offset, commit)
            return Ranges((), offset)
        return self._planned(taken, [commit, done, whole], demand, more=bool(waiting))

    def _start(self, offset: Any) -> tuple[int, int, bool] | None:
        """A commit, how many of its files were read, and whether it stands for the whole table."""
        if offset is not None:
            commit, done, whole = offset
            return int(commit), int(done), bool(whole)
        if self._begin is not None:
            return self._begin, ALL, False
        newest = self.newest()
        return None if newest is None else (newest, 0, True)

    def _waiting(self, offset: Any, commit: int) -> list[int]:
        """The commits after one; those that are known to have added nothing are left out."""
        known = self._seen is not None and self._seen[0] == offset and (offset, self._begin) != (None, None)
        return self.later(self._seen[1] if known and self._seen is not None else commit)

    def _planned(self, taken: list[LakeFile], offset: Any, demand: Demand, *, more: bool) -> Ranges:
        work = [file.rows + FILE_ROWS for file in taken]
        parts = max(1, min(demand.tasks, sum(work) // LEAST_WORK, len(taken)))
        ranges: list[list[LakeFile]] = [[] for _ in range(parts)]
        for file, part in zip(taken, shares(work, parts), strict=True):
            ranges[part].append(file)
        made = [Range(tuple(part), sum(file.rows for file in part), len(part)) for part in ranges if part]
        return Ranges(tuple(made), offset, more=more)

    @property
    def rows_read_again(self) -> int:
        return CHEAP_ROWS

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        """The rows of some files."""
        return batches(table for file in what for table in self._tables(LakeFile(*file)))

    def _tables(self, file: LakeFile) -> Iterator[pa.Table]:
        import pyarrow.parquet as pq  # planning needs none

        folder, _, name = file.url.rpartition("/")
        place, schema = Place(folder), self.schema()
        try:
            with place.open(name) as opened:
                parquet = pq.ParquetFile(opened)
                here = {there: name for name, there in self.names_in(parquet).items()}
                wanted = [here[field.name] for field in schema if field.name in here]
                for group in range(parquet.num_row_groups):
                    rows = parquet.read_row_group(group, columns=wanted)
                    yield _fitted(rows, here, dict(file.values), schema, file.url)
        except HeadgateError:
            raise
        except FileNotFoundError as error:
            raise SourceFailed(
                f"{file.url} of {self.place} has vanished before it was read: it was vacuumed or expired. Keep the files of a table "
                "longer than a query that reads it is stopped, or begin with a new checkpoint"
            ) from error
        except (pa.ArrowException, OSError, ValueError) as error:
            raise SourceFailed(
                f"reading {file.url} of {self.place} failed: {error}; restore the file"
            ) from error

    # -- errors

    def changed(self, commit: int, how: str) -> SourceFailed:
        """A commit that is not just new rows."""
        return SourceFailed(
            f"commit {commit} of {self.place} {how}, so it cannot be read as new rows. To go on without such commits, use "
            "changes='skip'; to read the table as it is now, begin with a new checkpoint"
        )

    def forgotten(self, commit: int) -> SourceFailed:
        """A commit after which the table has lost its history."""
        return SourceFailed(
            f"the commits of {self.place} after {commit} are not all there any more: its log was cleaned, or the table was rolled "
            "back or replaced. Begin with a new checkpoint, and keep the history longer than a query that reads it is stopped"
        )


def _fitted(
    rows: pa.Table, here: Mapping[str, str], values: Mapping[str, str | None], schema: pa.Schema, url: str
) -> pa.Table:
    """The rows of a file in exactly the columns of the schema. A column that the file lacks has the value of
    its partition, or is null.
    """
    from headgate.state.conform import conform_table  # it loads compiled code

    columns = []
    for field in schema:
        if field.name in values:
            columns.append(_repeated(values[field.name], field.type, rows.num_rows))
        elif field.name not in here:
            columns.append(pa.nulls(rows.num_rows, field.type))
        else:
            column = plain(rows.column(here[field.name]))
            simple = plain_of(column.type)
            if not widens(simple, field.type):
                raise SourceFailed(
                    f"column {field.name} is {column.type} in {url}, and {field.type} in the table: write the file anew"
                )
            cast = column if simple == column.type else column.cast(simple)
            columns.append(conform_table(pa.table({field.name: cast}), pa.schema([field])).column(0))
    return pa.Table.from_arrays(columns, schema=schema)


def _repeated(text: str | None, kind: pa.DataType, count: int) -> pa.Array:
    """The value of a partition column, from its text, so many times. Times without a zone are in UTC."""
    column = pa.array([text] * count, pa.string())
    if (
        pa.types.is_timestamp(kind)
        and kind.tz is not None
        and text
        and not text.endswith("Z")
        and "+" not in text
    ):
        return column.cast(pa.timestamp(kind.unit)).cast(kind)
    return column.cast(kind)
