"""What JSON lines and CSV share: opening, sampling, cutting at lines, and times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from headgate.sources.formats import Learned
from headgate.sources.place import Entry, Place

BLOCK = 8 << 20
"""Bytes of lines that are parsed at once."""
_SAMPLE = 64 << 10
_PACKED = 6
"""How many times smaller a compressed file is taken to be than its text."""
_DAY = r"^\d{4}-\d{2}-\d{2}$"
_ZONE = r"[T ].*([Zz]|[+-]\d{2}(:?\d{2})?)$"
_NEEDLESS = r"(\.\d{6})0+"


def is_packed(path: str) -> bool:
    """Whether a file is compressed, which its suffix `.gz` says."""
    return path.lower().endswith(".gz")


@contextmanager
def opened(place: Place, path: str) -> Iterator[pa.NativeFile]:
    """The text of a file, unpacked, as a stream."""
    with place.open(path) as file:
        if is_packed(path):
            with pa.input_stream(file, compression="gzip") as stream:
                yield stream
        else:
            yield file


def sample(place: Place, entry: Entry, learned: Learned) -> None:
    """Learn the size of a row from the start of a file. A compressed one counts by its size on disk."""
    place.check(entry)
    with place.failing(entry.path, "reading"), opened(place, entry.path) as stream:
        data: bytes = stream.read(_SAMPLE)
    lines = data.count(b"\n") + (not data.endswith(b"\n") and len(data) < _SAMPLE and len(data) > 0)
    size = max(1, len(data) // _PACKED) if is_packed(entry.path) else len(data)
    learned.add(lines, size)


def blocks(place: Place, path: str, start: int, end: int, size: int = BLOCK) -> Iterator[tuple[int, bytes]]:
    """The lines that begin in a range of bytes, some at a time, each time with the position of the first byte. A line
    belongs to the range in which it begins, so ranges that touch share no line and lose none. -1 is the end of the file.
    """
    with opened(place, path) as stream:
        at, rest = start, b""
        if start:
            at = start - 1  # if this byte is a newline, a line begins at the start
            stream.seek(at)
            skipped, rest = _line(stream, b"")
            at += len(skipped)
        while end < 0 or at < end:
            take = size if end < 0 else min(size, end - at)
            while len(rest) < take and (more := stream.read(take - len(rest))):
                rest += more
            if not rest:
                return
            if len(rest) > take:
                data, rest = rest[:take], rest[take:]
            else:
                data, rest = rest, b""
            if not data.endswith(b"\n"):
                tail, rest = _line(stream, rest)
                data += tail
            yield at, data
            at += len(data)


def _line(stream: pa.NativeFile, rest: bytes) -> tuple[bytes, bytes]:
    """The rest of a line with its newline, and what was read beyond it."""
    parts, found = [rest], rest.find(b"\n")
    while found < 0:
        more: bytes = stream.read(_SAMPLE)
        if not more:
            return b"".join(parts), b""
        parts.append(more)
        found = more.find(b"\n")
    last = parts[-1]
    return b"".join([*parts[:-1], last[: found + 1]]), last[found + 1 :]


def as_times(table: pa.Table, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """The table with times and days instead of the strings that were read for them."""
    for at, name in enumerate(table.column_names):
        kind, column = kinds[name], table.column(at)
        if pa.types.is_string(column.type) and pa.types.is_timestamp(kind):
            table = table.set_column(at, name, to_times(column, kind))
        elif pa.types.is_string(column.type) and pa.types.is_date32(kind):
            table = table.set_column(at, name, column.cast(kind))
    return table


def to_times(text: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Times from ISO-8601. If the type has a zone, a time that names none is in UTC.

    >>> to_times(pa.chunked_array([["2024-01-31", "2024-01-31T02:00:00+02:00"]]), pa.timestamp("s", "UTC")).to_pylist()[1]
    datetime.datetime(2024, 1, 31, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC'))
    """
    text = pc.replace_substring_regex(pc.utf8_trim_whitespace(text), _NEEDLESS, r"\1")
    micros = pa.timestamp("us", kind.tz) if kind.unit in ("s", "ms") else kind
    if kind.tz is None:
        return text.cast(micros).cast(kind)
    day = pc.match_substring_regex(text, _DAY)
    text = pc.if_else(day, pc.binary_join_element_wise(text, "T00:00:00", ""), text)
    zoned = pc.match_substring_regex(text, _ZONE)
    return pc.if_else(zoned, text, pc.binary_join_element_wise(text, "Z", "")).cast(micros).cast(kind)
