"""What a file format must do: cut a file into pieces on the driver, and read a piece in a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from headgate.errors import ConfigError
from headgate.sources.place import Entry, Place

SAMPLES = 100
"""So many small files are looked into before their rows are estimated from their sizes."""
SMALL = 256 << 10
"""A file of fewer bytes is small: it is taken whole."""
ROW_BYTES = 100.0
"""The bytes of a row before any file was looked into."""
SUFFIXES = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
}


class Piece(NamedTuple):
    """A part of a file: from one position to another, in row groups (Parquet) or bytes (text)."""

    path: str
    size: int
    mtime: int
    start: int
    end: int
    """-1 is the end of the file."""

    @property
    def entry(self) -> Entry:
        """The file as it was when it was found."""
        return Entry(self.path, self.size, self.mtime)


@dataclass
class Learned:
    """The mean size of a row, learned from files that were looked into."""

    rows: int = 0
    size: int = 0
    files: int = 0

    def add(self, rows: int, size: int) -> None:
        """Learn from a file, or from a part of one."""
        self.rows, self.size, self.files = self.rows + rows, self.size + size, self.files + 1

    @property
    def row(self) -> float:
        """The bytes of a row."""
        return max(1.0, self.size / self.rows) if self.rows and self.size else ROW_BYTES

    def estimate(self, size: int) -> int:
        """About how many rows so many bytes hold."""
        return max(1, round(size / self.row)) if size else 0

    def knows(self, entry: Entry) -> bool:
        """Whether a file can be taken whole without looking into it."""
        return entry.size < SMALL and self.files >= SAMPLES


@dataclass(frozen=True)
class Format(ABC):
    """A file format, with its options. It can be pickled."""

    options: Mapping[str, Any] = field(default_factory=dict)

    @abstractmethod
    def pieces(
        self, place: Place, entry: Entry, at: int, rows: int, learned: Learned
    ) -> Iterator[tuple[Piece, int]]:
        """The pieces of a file from a position on, each with about its number of rows; `rows` is how many a piece
        should have. Every file has at least one piece, and the first one starts at the position.
        """

    @abstractmethod
    def read(self, place: Place, piece: Piece, schema: pa.Schema, columns: pa.Schema) -> Iterator[pa.Table]:
        """The rows of a piece in the types of `columns`, which are some of the columns of `schema`."""

    def names(self, place: Place, entry: Entry) -> Sequence[str] | None:
        """The columns of a file, if it says so in one place."""
        return None


def format_of(path: str) -> str:
    """The name of the format that a file's suffix stands for.

    >>> format_of("day=1/part-0.json.gz")
    'json'
    """
    name = path.rpartition("/")[2].lower().removesuffix(".gz")
    suffix = name[name.rfind(".") :] if "." in name else ""
    if suffix not in SUFFIXES:
        raise ConfigError(
            f"the suffix of {path} does not tell its format: give Files(format=...), one of parquet, json and csv, "
            "or pattern=... if this file is no input"
        )
    return SUFFIXES[suffix]


def load(name: str, options: Mapping[str, Any]) -> Format:
    """A format by its name. Its module, which loads a part of Arrow, is imported only now."""
    if name == "parquet":
        from headgate.sources.parquet_format import ParquetFormat

        return ParquetFormat(options)
    if name == "json":
        from headgate.sources.json_format import JsonFormat

        return JsonFormat(options)
    from headgate.sources.csv_format import CsvFormat

    return CsvFormat(options)
