"""CSV files. A quoted value may hold a newline, so a CSV file cannot be cut without reading it: it is one piece."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv as csv

from headgate.errors import ConfigError
from headgate.sources.fit import fit
from headgate.sources.formats import Format, Learned, Piece
from headgate.sources.place import Entry, Place
from headgate.sources.text import as_times, opened, sample
from headgate.state.payload import plain_type

OPTIONS = {"header": True, "delimiter": ",", "null": ""}
"""`header`: whether the first line has the names of the columns; if not, the columns are the declared ones, in order.
`null`: what stands for a null; in quotes it is a plain value.
"""
_BLOCK = 16 << 20
"""Bytes that are parsed at once; no row may be longer."""


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
        """One table a block."""
        kinds = {field.name: plain_type(field.type) for field in columns}
        with place.failing(piece.path, "reading"), opened(place, piece.path) as stream:
            reader = self._reader(stream, schema, columns.names, kinds)
            if reader is None:
                return
            for batch in reader:
                yield fit(as_times(pa.Table.from_batches([batch]), kinds), columns, place, piece.path)

    def _reader(
        self, stream: pa.NativeFile, schema: pa.Schema, names: list[str], kinds: dict[str, pa.DataType]
    ) -> csv.CSVStreamingReader | None:
        options = {**OPTIONS, **self.options}
        try:
            return csv.open_csv(
                stream,
                csv.ReadOptions(block_size=_BLOCK, column_names=None if options["header"] else schema.names),
                csv.ParseOptions(delimiter=options["delimiter"], newlines_in_values=True),
                csv.ConvertOptions(
                    column_types={name: _read_as(kind) for name, kind in kinds.items()},
                    include_columns=names,
                    include_missing_columns=True,
                    null_values=[options["null"]],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return None
            raise


def _read_as(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_timestamp(kind) and kind.tz else kind
