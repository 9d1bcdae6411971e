"""JSON lines: one object a line, cut at newlines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

import pyarrow as pa
import pyarrow.json as arrow_json

from headgate.errors import ConfigError
from headgate.sources.fit import check_any, fit, inside
from headgate.sources.formats import Format, Learned, Piece
from headgate.sources.json_lines import Unread, parse_lines
from headgate.sources.place import Entry, Place
from headgate.sources.text import as_times, blocks, is_packed, sample
from headgate.state.payload import plain_type

LEAST, MOST = 64 << 10, 4 << 20
"""The bytes of a piece."""
_BOM = b"\xef\xbb\xbf"


def check(schema: pa.Schema) -> None:
    """Refuse columns that JSON lines cannot hold."""
    for field in schema:
        _check(field.name, plain_type(field.type))


def _check(name: str, kind: pa.DataType) -> None:
    t = pa.types
    if t.is_list(kind):
        _check(name, kind.value_type)
    elif t.is_map(kind):
        if not t.is_string(kind.key_type):
            raise ConfigError(
                f"column {name} is {kind}, but names in JSON are strings: declare map<string, ...>"
            )
        _check(name, kind.item_type)
    elif t.is_struct(kind):
        for field in kind:
            _check(f"{name}.{field.name}", field.type)
    elif not (
        t.is_string(kind) or t.is_boolean(kind) or t.is_signed_integer(kind) or t.is_floating(kind)
        or t.is_decimal128(kind) or t.is_timestamp(kind) or t.is_date32(kind)
    ):  # fmt: skip
        raise ConfigError(
            f"column {name} is {kind}, which is not read from JSON: declare string, or use Parquet"
        )


class JsonFormat(Format):
    """JSON lines in UTF-8. Blank lines are skipped, other fields ignored, and missing ones null. Times are ISO-8601, and
    UTC if they name no zone. A number that is declared as a string keeps its digits.

    Arrow parses a block of lines. What it refuses is parsed line by line in Python, which is slow, but takes
    numbers as strings and maps, and names the line if that is wrong.
    """

    def pieces(
        self, place: Place, entry: Entry, at: int, rows: int, learned: Learned
    ) -> Iterator[tuple[Piece, int]]:
        """Ranges of bytes; a compressed file is not cut."""
        if not learned.knows(entry):
            sample(place, entry, learned)
        if is_packed(entry.path):
            yield Piece(*entry, 0, -1), learned.estimate(entry.size)
            return
        step = int(min(MOST, max(LEAST, rows * learned.row)))
        while True:
            end = at + step if at + step * 3 // 2 < entry.size else -1
            yield Piece(*entry, at, end), learned.estimate((entry.size if end < 0 else end) - at)
            if end < 0:
                return
            at = end

    def read(self, place: Place, piece: Piece, schema: pa.Schema, columns: pa.Schema) -> Iterator[pa.Table]:
        """One table a block of lines."""
        kinds = {field.name: plain_type(field.type) for field in columns}
        rows, found = 0, False
        with place.failing(piece.path, "reading"):
            for at, data in blocks(place, piece.path, piece.start, piece.end):
                if at == 0:
                    data = b"   " + data[3:] if data.startswith(_BOM) else data
                try:
                    table = parse_block(data, kinds)
                    if table is None:
                        table = parse_lines(data, kinds, at)
                except Unread as error:
                    cut = not data.endswith(b"\n") and error.end == at + len(data)
                    raise ValueError(f"{error}{'; the file ends within this line' if cut else ''}") from error
                rows += table.num_rows
                found = found or any(column.null_count < table.num_rows for column in table.columns)
                yield fit(table, columns, place, piece.path)
            if rows and not found:
                check_any(_fields(place, piece.path, inside(schema, piece.path)), schema, place, piece.path)


def _fields(place: Place, path: str, wanted: set[str]) -> set[str]:
    """The fields of the objects in a file, up to the first that has one of those that are wanted. It is called if all
    values of a piece are null, so that the first object is nearly always enough.
    """
    found = set[str]()
    for _, data in blocks(place, path, 0, -1):
        for line in data.removeprefix(_BOM).split(b"\n"):
            with suppress(ValueError):  # a line that is wrong is named when its piece is read
                row = json.loads(line)
                found.update(row if isinstance(row, dict) else ())
            if not found.isdisjoint(wanted):
                return found
    return found


_NULL = re.compile(rb"^\s*null\s*$", re.MULTILINE)


def parse_block(data: bytes, kinds: Mapping[str, pa.DataType]) -> pa.Table | None:
    """The lines as Arrow parses them; None if it refuses, or does not find one object a line."""
    if any(_lacks(kind) for kind in kinds.values()):
        return None
    if _NULL.search(data):  # Arrow's parser would crash
        return None
    fields = [(name, pa.string() if pa.types.is_date32(kind) else kind) for name, kind in kinds.items()]
    try:
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow_json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"),
        )
        table.validate(full=True)  # Arrow does not look whether strings are UTF-8
        if table.num_rows != data.count(b"\n") + (not data.endswith(b"\n")):
            lines = sum(1 for line in data.split(b"\n") if line.strip())
            if table.num_rows != lines:
                return None
        return as_times(table.select(list(kinds)), kinds)
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _lacks(kind: pa.DataType) -> bool:
    """Whether Arrow cannot parse a type."""
    t = pa.types
    if t.is_list(kind):
        return t.is_date32(kind.value_type) or _lacks(kind.value_type)
    if t.is_struct(kind):
        return any(t.is_date32(field.type) or _lacks(field.type) for field in kind)
    return bool(t.is_map(kind))
