"""CSV files. A quoted value may hold a newline, so a CSV file cannot be cut without reading it: it is one piece."""

from __future__ import annotations

import csv as header
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv

from headgate.errors import ConfigError
from headgate.sources.fit import check_any, fit
from headgate.sources.formats import Format, Learned, Piece
from headgate.sources.place import Entry, Place
from headgate.sources.text import as_times, opened, sample
from headgate.state.payload import plain_type

OPTIONS = {"header": True, "delimiter": ",", "null": "", "decimal": "."}
"""`header`: whether the first line has the names of the columns; if not, the columns are the declared ones, in order.
`null`: what stands for a null, a text or a list of texts; in quotes it is a plain value. `decimal`: what stands before
the decimals of a number.
"""
_BOM = b"\xef\xbb\xbf"
_MARK = "\0the end\0"
_BLOCK = 16 << 20
"""Bytes that are parsed at once; no row may be longer."""
_HEADER = 1 << 16
"""Bytes in which the first line is, where only that is read."""


def check(schema: pa.Schema) -> None:
    """Refuse columns that CSV cannot hold."""
    for field in schema:
        if pa.types.is_nested(plain_type(field.type)):
            raise ConfigError(
                f"column {field.name} is {field.type}, which CSV cannot hold: declare string, or use JSON or Parquet"
            )


class CsvFormat(Format):
    """CSV in UTF-8. Times are ISO-8601, and UTC if they name no zone."""

    def pieces(
        self, place: Place, entry: Entry, at: int, rows: int, learned: Learned
    ) -> Iterator[tuple[Piece, int]]:
        """The whole file."""
        if not learned.knows(entry):
            sample(place, entry, learned)
        yield Piece(*entry, 0, -1), learned.estimate(entry.size)

    def read(self, place: Place, piece: Piece, schema: pa.Schema, columns: pa.Schema) -> Iterator[pa.Table]:
        """One table a block. A file that ends within quotes is refused."""
        kinds = {field.name: plain_type(field.type) for field in columns}
        with place.failing(piece.path, "reading"), opened(place, piece.path) as stream:
            first = stream.read(_BLOCK)
            if not first.removeprefix(_BOM).strip():
                return
            names = self._names(first, schema)
            end = _End(names, self._option("delimiter"))
            try:
                for batch in self._reader(_Ended(stream, first, end.line), schema, columns.names, kinds, end):
                    if batch.num_rows:
                        check_any(names, schema, place, piece.path)
                    yield fit(as_times(pa.Table.from_batches([batch]), kinds), columns, place, piece.path)
            except pa.ArrowInvalid as error:
                if end.seen or not (end.cut or _MARK in str(error) or "Empty CSV file" in str(error)):
                    raise
            if not end.seen:
                raise ValueError("the file ends within quotes")

    def names(self, place: Place, entry: Entry) -> list[str] | None:
        """The columns that the first line names."""
        if not self._option("header"):
            return None
        with place.failing(entry.path, "reading"), opened(place, entry.path) as stream:
            return self._names(stream.read(_HEADER), pa.schema([])) or None

    def _option(self, name: str) -> Any:
        return {**OPTIONS, **self.options}[name]

    def _names(self, first: bytes, schema: pa.Schema) -> list[str]:
        """The columns of the file, which its header names."""
        if not self._option("header"):
            return list(schema.names)
        text = io.TextIOWrapper(io.BytesIO(first), "utf-8-sig", errors="replace", newline="")
        try:
            return next((row for row in header.reader(text, delimiter=self._option("delimiter")) if row), [])
        except header.Error as error:
            raise ValueError(f"the header cannot be read: {error}") from error

    def _reader(
        self,
        stream: _Ended,
        schema: pa.Schema,
        names: list[str],
        kinds: dict[str, pa.DataType],
        end: _End,
    ) -> csv.CSVStreamingReader:
        named = None if self._option("header") else schema.names
        null = self._option("null")
        return csv.open_csv(
            stream,
            csv.ReadOptions(block_size=_BLOCK, column_names=named),
            csv.ParseOptions(
                delimiter=self._option("delimiter"), newlines_in_values=True, invalid_row_handler=end.judge
            ),
            csv.ConvertOptions(
                column_types={name: _read_as(kind) for name, kind in kinds.items()},
                include_columns=names,
                include_missing_columns=True,
                null_values=[null] if isinstance(null, str) else null,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                decimal_point=self._option("decimal"),
            ),
        )


class _End:
    """A line that is put after the end of a file. It has a value too many, so Arrow shows it to `judge` instead of making a
    row of it. If Arrow does not, the line has become a part of a value: the file ends within quotes.
    """

    def __init__(self, names: list[str], delimiter: str) -> None:
        self.line = f"\n{_MARK}{delimiter * len(names)}\n".encode()
        self.seen = self.cut = False

    def judge(self, row: csv.InvalidRow) -> str:
        """Skip the line itself, and refuse all others."""
        if row.text.startswith(_MARK):
            self.seen = True
            return "skip"
        self.cut = self.cut or _MARK in row.text
        return "error"


class _Ended:
    """A stream whose first bytes were read already, and which is followed by a line more."""

    closed = False

    def __init__(self, stream: pa.NativeFile, first: bytes, line: bytes) -> None:
        self._parts = [io.BytesIO(first), stream, io.BytesIO(line)]

    def read(self, size: int) -> bytes:
        """The next bytes: fewer than asked for only at the end."""
        data = b""
        while self._parts and len(data) < size:
            more: bytes = self._parts[0].read(size - len(data))
            data = data + more if data else more
            if not more:
                self._parts.pop(0)
        return data

    def close(self) -> None:
        """Nothing: whoever opened the stream closes it."""


def _read_as(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_timestamp(kind) and kind.tz else kind
