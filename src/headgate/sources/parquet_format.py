"""Parquet files, cut at row groups."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.errors import SourceFailed
from headgate.sources.fit import check_any, declared, fit
from headgate.sources.formats import Format, Learned, Piece
from headgate.sources.place import WAY_OUT, Entry, Place

FEW = 10_000
"""A file of so few rows is not cut if all of them are asked for."""


class ParquetFormat(Format):
    """Parquet. A piece is some row groups; a row group is never cut. Only the columns that are asked for are read."""

    def pieces(
        self, place: Place, entry: Entry, at: int, rows: int, learned: Learned
    ) -> Iterator[tuple[Piece, int]]:
        """One piece a row group, as the footer says, or the whole file if it is small."""
        if at == 0 and learned.knows(entry):
            yield Piece(*entry, 0, -1), learned.estimate(entry.size)
            return
        footer = self._footer(place, entry)
        groups = footer.num_row_groups
        learned.add(footer.num_rows, entry.size)
        if 0 < at >= groups:
            raise SourceFailed(
                f"{place.path(entry.path)} has {groups} row groups, and the offset is at {at}: the checkpoint belongs to "
                f"another file. Restore the checkpoint, or the file. {WAY_OUT}"
            )
        if groups <= 1 or (at == 0 and footer.num_rows <= min(rows, FEW)):
            yield Piece(*entry, at, -1), footer.num_rows
            return
        for group in range(at, groups):
            end = group + 1 if group + 1 < groups else -1
            yield Piece(*entry, group, end), footer.row_group(group).num_rows

    def schema(self, place: Place, entry: Entry) -> pa.Schema:
        """The columns of a file."""
        with place.failing(entry.path, "reading the footer of"), place.open(entry.path) as file:
            return declared(pq.read_schema(file))

    def names(self, place: Place, entry: Entry) -> list[str]:
        """The columns of a file."""
        return list(self.schema(place, entry).names)

    def read(self, place: Place, piece: Piece, schema: pa.Schema, columns: pa.Schema) -> Iterator[pa.Table]:
        """One table a row group."""
        with place.failing(piece.path, "reading"), place.open(piece.path) as opened:
            file = pq.ParquetFile(opened)
            have = set(file.schema_arrow.names)
            if file.metadata.num_rows:
                check_any(have, schema, place, piece.path)
            names = [name for name in columns.names if name in have]
            end = file.num_row_groups if piece.end < 0 else piece.end
            for group in range(piece.start, end):
                yield fit(file.read_row_group(group, columns=names), columns, place, piece.path)

    def _footer(self, place: Place, entry: Entry) -> pq.FileMetaData:
        place.check(entry)
        with place.failing(entry.path, "reading the footer of"), place.open(entry.path) as file:
            return pq.read_metadata(file)
