"""A folder of files as a source: Parquet, JSON lines or CSV."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headgate import logs
from headgate.errors import ConfigError, HeadgateError, MissingColumn, SourceFailed
from headgate.sources import formats
from headgate.sources.cutting import batches, cut
from headgate.sources.file_log import FileLog
from headgate.sources.fit import inside
from headgate.sources.formats import Format, Learned, Piece
from headgate.sources.listing import listing_of
from headgate.sources.source import CHEAP_ROWS, Demand, Range, Ranges, Source
from headgate.storage.store import Store

log = logs.logger("headgate.stream")
MOST_FILES = 100_000
"""The most files that one batch takes."""
_SCHEMA = "schema.arrow"
_FORMATS = ("parquet", "json", "csv")


class Files(Source):
    """The files of a folder, each read once. New files are found by listing the folder at each batch.

    `path` is a folder, one file, or a glob, local or of any file system that fsspec knows. `pattern` is a glob that
    names must fit, and `recursive` says whether folders below are listed too. Names that begin with `_` or `.`, and
    names that end in `.tmp` or `._COPYING_`, are ignored. A file must appear whole, by a rename into the folder, and
    may not change before it is read. After that it may be changed or removed; it is not read again.

    Files that one listing finds are read in the order of their times of modification, then of their paths. A file that
    shows up later comes later, however old it is. The order is written down in the checkpoint before it is used.

    `schema` may have fewer columns than the files, or more, and wider types: `fit.py` has the rules. Parquet
    may do without: the query then has the columns of the first file. A folder `column=value` gives a declared column its value.

    Parquet is cut at row groups, and JSON lines at newlines. A CSV file and a file that ends in `.gz` are not cut, and
    become one range each. `options` of CSV are `header` (True), `delimiter` (","), `null` ("", or a list of
    texts) and `decimal` (".").

    `ignore` names files, relative to the folder, that are skipped though they may be in the log: the way on if a
    file is lost or damaged.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        format: str | None = None,  # noqa: A002
        pattern: str = "*",
        recursive: bool = True,
        ignore: Iterable[str | os.PathLike[str]] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if format is not None and format not in _FORMATS:
            raise ConfigError(f"Files(format={format!r}): the formats are {', '.join(_FORMATS)}")
        names = _names(ignore)
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise ConfigError(f"Files({path!r}) names no folder: give a path, such as 'in/events'")
        if not isinstance(pattern, str) or not pattern:
            raise ConfigError(f"Files(pattern={pattern!r}): give a glob for names, such as '*.json'")
        if schema is not None and not isinstance(schema, pa.Schema):
            raise ConfigError(
                f"Files(schema={schema!r}) is not a pyarrow.Schema: give one, as pa.schema([...])"
            )
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"Files(options={options!r}): give a dict, such as {{'header': True}}")
        self._listing = listing_of(os.fspath(path), pattern, recursive)
        self._place = self._listing.place
        self._url = f"{self._place.url}/{self._listing.single or self._listing.glob}".rstrip("/")
        self._schema = None if schema is None else schema.remove_metadata()
        self._told = schema is not None
        self._columns: tuple[str, ...] | None = None
        self._name = format
        self._options = dict(options or {})
        self._ignore = frozenset(self._place.relative(name) for name in names)
        self._learned = Learned()
        self._log: FileLog | None = None
        if format is not None:
            self._check(format)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_listing": None, "_log": None, "_learned": Learned()}

    @property
    def folder(self) -> str:
        """The address of the folder."""
        return str(self._place.url)

    def fresh(self) -> Files:
        """The same files for another query, which has a log of its own."""
        other = Files.__new__(Files)
        other.__dict__.update({**self.__dict__, "_log": None, "_learned": Learned()})
        other._listing = copy.deepcopy(self._listing)
        return other

    def __repr__(self) -> str:
        return f"Files({self._url!r})"

    def _check(self, name: str) -> Format:
        """The format of a name, with a schema and options that it can have."""
        known: Mapping[str, Any] = {}
        if name != "parquet" and self._schema is None:
            raise ConfigError(f"{self!r} needs schema=...: {name} files do not tell their columns and types")
        if name == "json":
            from headgate.sources.json_format import check as check_json

            check_json(self._schema)
        if name == "csv":
            from headgate.sources.csv_format import OPTIONS as known
            from headgate.sources.csv_format import check as check_csv

            check_csv(self._schema)
        if unknown := sorted(self._options.keys() - known.keys()):
            raise ConfigError(
                f"{self!r} does not know option {unknown[0]!r}; {name} has {', '.join(known) or 'none'}"
            )
        for option, usual in known.items():
            given = self._options.get(option, usual)
            if option == "null" and isinstance(given, list) and all(isinstance(one, str) for one in given):
                continue
            if not isinstance(given, type(usual)) or (option in ("delimiter", "decimal") and len(given) != 1):
                wanted = type(usual).__name__ + (
                    " of one character" if option in ("delimiter", "decimal") else ""
                )
                raise ConfigError(
                    f"{self!r}: option {option}={given!r} must be a {wanted}, as in {option}={usual!r}"
                )
        return formats.load(name, self._options)

    def check(self) -> None:
        """Refuse a folder that does not exist."""
        self._listing.check()

    def recall(self, store: Store) -> None:
        """Use the schema that an earlier run found in the first file. That file may be gone."""
        if not self._told and store.exists(_SCHEMA):
            self._schema = pa.ipc.read_schema(pa.BufferReader(store.read(_SCHEMA)))

    def open(self, store: Store) -> None:
        """Read the log of files. The schema, if it comes from the first file, is kept with the log."""
        # What was listed for another log is not known to this one.
        self._listing = replace(self._listing, _seen={})
        self._listing.check()
        self._log = FileLog(store)
        self._check_ignored(self._log)
        if not self._told:
            try:
                data = store.read(_SCHEMA)
            except FileNotFoundError:
                inferred = self._schema or self._inferred()
                store.write_once(_SCHEMA, inferred.serialize().to_pybytes())
                data = store.read(_SCHEMA)
            self._schema = pa.ipc.read_schema(pa.BufferReader(data))
        elif not len(self._log):
            self._warn_of_missing()

    def _warn_of_missing(self) -> None:
        """Say which declared columns neither the first nor the last file has: they may be misspelled."""
        found = [entry for entry in self._listing.new((), 0.0) if entry.path not in self._ignore]
        self._listing.forget()  # the time above is none
        have, missing = dict[str, None](), set(self.schema().names)
        for entry in found[:1] + found[1:][-1:]:
            names: Sequence[str] | None = None
            with suppress(
                HeadgateError, OSError, ValueError
            ):  # whoever reads the file says what is wrong with it
                kind = formats.load(self._name or formats.format_of(entry.path), self._options)
                names = kind.names(self._place, entry)
            if names is None:
                return
            have |= dict.fromkeys(names)
            missing &= inside(self.schema(), entry.path) - set(names)
        if found and missing:
            log.warning(
                "%r: no file has the declared column %s, which is null then: the columns are %s. Names are spelled as in the file",
                self,
                ", ".join(sorted(missing)),
                ", ".join(have),
            )

    def _check_ignored(self, log: FileLog) -> None:
        """Refuse a name that no file has or had: it may be a typing error."""
        for name in sorted(self._ignore - log.known):
            try:
                self._place.stat(name)
            except FileNotFoundError:
                raise ConfigError(
                    f"{self!r}: ignore names {name!r}, and there is no such file in {self.folder} and none in the checkpoint: write "
                    "the path below the folder, or leave it out"
                ) from None

    def _inferred(self) -> pa.Schema:
        """The columns of the first file."""
        from headgate.sources.parquet_format import ParquetFormat

        found = [entry for entry in self._listing.new((), 0.0) if entry.path not in self._ignore]
        self._listing.forget()  # the time above is none
        if not found:
            raise ConfigError(f"{self!r} has no file yet to take the columns from: give schema=...")
        self._check(self._name or formats.format_of(found[0].path))
        return ParquetFormat().schema(self._place, found[0])

    def schema(self) -> pa.Schema:
        """The declared columns, or those of the first file."""
        if self._schema is None:
            self._schema = self._inferred()
        return self._wanted(self._schema)

    def _wanted(self, schema: pa.Schema) -> pa.Schema:
        if self._columns is None:
            return schema
        return pa.schema([field for field in schema if field.name in self._columns])

    def identity(self) -> dict[str, Any]:
        """The path and all declared columns."""
        self.schema()
        columns = [[field.name, str(field.type)] for field in self._schema or ()]
        return {"source": "files", "path": self._url, "columns": columns}

    def only(self, columns: Sequence[str]) -> Files:
        """The same files with fewer columns; at least one is read, so that rows can be counted."""
        names = self.schema().names
        if unknown := [name for name in columns if name not in names]:
            raise MissingColumn(f"{self!r} has no column {unknown[0]}; it has {', '.join(names)}")
        fewer = object.__new__(type(self))  # a copy would lose the log, as a pickle does
        fewer.__dict__.update(self.__dict__)
        fewer._columns = tuple(name for name in names if name in set(columns)) or tuple(names[:1])
        return fewer

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        """The next pieces of files. The folder is listed only when the log is used up."""
        log = self._log
        if log is None:
            raise ConfigError(f"{self!r} is not open: call open(store) before plan")
        start = (0, 0) if offset is None else (int(offset["file"]), int(offset["at"]))
        if start[0] > len(log):
            log.load()
        if start[0] > len(log):
            raise SourceFailed(
                f"the log of files in {log.store.url} has {len(log)} files, and the query has read {start[0]}: a part of the "
                "checkpoint is gone. Restore it"
            )
        wave = _Wave(demand)
        self._take(log, start, wave)
        if not wave.full or not self._left(log, (wave.after or start)[0]):
            self._look(log, demand.now)
            self._take(log, wave.after or start, wave)
        if wave.after is None:
            return Ranges((), offset)
        ranges = [
            Range((wave.name, pieces), rows, len(pieces)) for pieces, rows in cut(wave.taken, demand.tasks)
        ]
        after = {"file": wave.after[0], "at": wave.after[1]}
        return Ranges(tuple(ranges), after, more=self._left(log, wave.after[0]))

    def _look(self, log: FileLog, now: float) -> None:
        """Append new files to the log."""
        found = self._listing.new(log.known, now)
        try:
            if found and self._name is None:
                self._format(formats.format_of(log.paths[0] if log else found[0].path))
            log.append(found)
        except BaseException:
            self._listing.forget()
            raise

    def _left(self, log: FileLog, at: int) -> bool:
        return any(log.paths[index] not in self._ignore for index in range(at, len(log)))

    def _take(self, log: FileLog, start: tuple[int, int], wave: _Wave) -> None:
        """Take pieces from a place in the log on, until the demand is met."""
        index, at = start
        while index < len(log) and not wave.full:
            entry = log[index]
            if entry.path not in self._ignore:
                wave.name = wave.name or self._name or formats.format_of(log.paths[0])
                of = self._format(wave.name)
                for piece, rows in of.pieces(self._place, entry, at, wave.each, self._learned):
                    if not wave.add(piece, rows, index):
                        return
            index, at = index + 1, 0

    def _format(self, name: str) -> Format:
        if self._name is None:
            self._check(name)
            self._name = name
        return formats.load(name, self._options)

    @property
    def rows_read_again(self) -> int:
        if not self._place.local:
            return 0
        return CHEAP_ROWS if self._name == "parquet" else CHEAP_ROWS // 20  # text takes so much longer

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        """The rows of some pieces."""
        name, pieces = what
        return batches(self._tables(formats.load(name, self._options), pieces))

    def _tables(self, of: Format, pieces: Sequence[Piece]) -> Iterator[pa.Table]:
        full = self._schema
        assert full is not None  # `open` or `schema` came first
        wanted = self._wanted(full)
        for piece in pieces:
            self._place.check(piece.entry)
            yield from of.read(self._place, piece, full, wanted)
            self._place.check(piece.entry)  # it may have been changed meanwhile


def _names(ignore: Any) -> list[str]:
    """The files to ignore, as the user names them."""
    if isinstance(ignore, str | os.PathLike):
        raise ConfigError(f"Files(ignore={ignore!r}): give a list of paths, [{os.fspath(ignore)!r}]")
    if not isinstance(ignore, Iterable):
        raise ConfigError(f"Files(ignore={ignore!r}): give a list of paths, such as ['day=1/part-7.parquet']")
    listed = list(ignore)
    wrong = [name for name in listed if not isinstance(name, str | os.PathLike) or not os.fspath(name)]
    if wrong:
        raise ConfigError(
            f"Files(ignore=...) has {wrong[0]!r}, which is not a path: give paths such as 'day=1/part-7.parquet'"
        )
    return [os.fspath(name) for name in listed]


class _Wave:
    """What a batch takes, while it is gathered."""

    def __init__(self, demand: Demand) -> None:
        self.rows, self.full = demand.rows, False
        self.each = max(1, demand.rows // max(1, demand.tasks))
        self.taken: list[tuple[Piece, int]] = []
        self.after: tuple[int, int] | None = None
        self.name = ""
        self._files = 0

    def add(self, piece: Piece, rows: int, index: int) -> bool:
        """Take a piece, and say whether more may follow. The first one is always taken."""
        if self.taken and rows > self.rows:
            self.full = True
            return False
        self.taken.append((piece, rows))
        self.rows -= rows
        self._files += piece.start == 0
        self.after = (index, piece.end) if piece.end >= 0 else (index + 1, 0)
        self.full = self.rows <= 0 or self._files >= MOST_FILES
        return not self.full
