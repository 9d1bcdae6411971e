"""The rows that wait at a gate: a DataFrame written to files, which is read back range by range.

Each row has a position in its file. Without a fan-out this is its number; with a known fan-out it
is the number of output rows that the rows before it make. A range of positions is therefore an
exact amount of work. A row that crosses the end of a range is delivered to both waves, each time
with the part of its outputs that the wave is to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headgate.errors import ConfigError, CorruptState, MissingColumn
from headgate.flow.fan_out import FanOut
from headgate.flow.row_ranges import RowRange
from headgate.spark.arrow_types import to_arrow_schema
from headgate.spark.exchange import quoted
from headgate.spark.gates.range_reader import LARGEST_BYTES, RangeReader, is_readable
from headgate.spark.paths import literal
from headgate.storage.store import Store

AT, FILE = "__headgate_at", "__headgate_file"
_ROW_OF_PARTITION = (1 << 33) - 1  # the lower bits of `monotonically_increasing_id`


@dataclass(frozen=True)
class StagedFile:
    """One file of staged rows: its name, its number of positions and of rows, its largest fan-out
    (`widest`), its checksum if it is sealed, and its bytes.
    """

    name: str
    length: int
    rows: int
    widest: int = 1
    checksum: str = ""
    bytes: int = LARGEST_BYTES + 1
    """If nobody has written it down, it may be large."""


@dataclass(frozen=True)
class StagedRows:
    """The rows of a DataFrame in files."""

    spark: SparkSession
    schema: T.StructType
    fan_out: FanOut | None
    store: Store
    files: tuple[StagedFile, ...]

    @classmethod
    def write(
        cls, df: DataFrame, store: Store, fan_out: FanOut | None = None, *, sealed: bool = False
    ) -> StagedRows:
        """Compute the rows and write them to a folder that nothing else uses. `sealed` adds
        checksums, for files that outlive this process.
        """
        _check(df, fan_out)
        _placed(df, fan_out).write.option("compression", "lz4").mode("overwrite").parquet(store.url)
        names = [name for name in store.names("") if name.endswith(".parquet")]
        files = inspect_files(df.sparkSession, store, names, fan_out, sealed=sealed)
        return cls(df.sparkSession, df.schema, fan_out, store, tuple(file for file in files if file.rows))

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of positions of each file."""
        return tuple(file.length for file in self.files)

    def check(self, numbers: Iterable[int]) -> None:
        """Refuse files that have changed since they were written."""
        wanted = [self.files[number] for number in sorted(set(numbers))]
        now = inspect_files(self.spark, self.store, [file.name for file in wanted], self.fan_out, sealed=True)
        for before, after in zip(wanted, now, strict=True):
            if after.checksum != before.checksum:
                problem = "is damaged: its checksum does not match" if after.checksum else "is missing"
                raise CorruptState(
                    f"rows that wait at the gate, {self.store.path(before.name)}, {problem}; restore the file from a backup of the "
                    "checkpoint"
                )

    def read(self, ranges: Sequence[RowRange], *, in_order: bool = False) -> DataFrame:
        """The rows of some ranges; with `in_order`, in the order of the ranges."""
        if is_readable(self.schema) and all(self.files[r.file].bytes <= LARGEST_BYTES for r in ranges):
            return self._by_python(ranges)
        if in_order:
            return reduce(DataFrame.unionAll, map(self._part, ranges))
        whole = [r for r in ranges if len(r) == self.files[r.file].length]
        parts = [self._part(r) for r in ranges if len(r) < self.files[r.file].length]
        if whole:
            rows = self._read(*(r.file for r in whole))
            parts.append(_shown(rows, self.schema, self.fan_out))
        return reduce(DataFrame.unionAll, parts)

    def _by_python(self, ranges: Sequence[RowRange]) -> DataFrame:
        """The rows of some ranges, in their order: a task for each of them, or for several if they are many."""
        names = tuple(self.files[r.file].name for r in ranges)
        columns = to_arrow_schema(self.schema)
        reader = RangeReader(self.store, names, tuple(ranges), AT, columns, self.fan_out)
        schema = T.StructType(list(self.schema.fields))
        if self.fan_out is not None and self.fan_out.splits:
            schema = schema.add(self.fan_out.first, T.LongType()).add(self.fan_out.last, T.LongType())
        tasks = min(len(ranges), 4 * self.spark.sparkContext.defaultParallelism)
        return self.spark.range(0, len(ranges), 1, tasks).mapInArrow(reader, schema)

    def numbered(self, ranges: Sequence[RowRange]) -> DataFrame:
        """The rows of some ranges with file and position, in order, one partition for each range."""
        parts = [
            self._read(r.file)
            .where((F.col(AT) >= r.start) & (F.col(AT) < r.stop))
            .coalesce(1)
            .sortWithinPartitions(AT)
            .withColumn(FILE, F.lit(r.file))
            for r in ranges
        ]
        return reduce(DataFrame.unionAll, parts)

    def _read(self, *numbers: int) -> DataFrame:
        paths = [literal(self.store, self.files[number].name) for number in numbers]
        return self.spark.read.schema(_with_place(self.schema)).parquet(*paths)

    def _part(self, piece: RowRange) -> DataFrame:
        rows, at, width = self._read(piece.file), F.col(AT), _width(self.fan_out)
        if self.fan_out is None or not self.fan_out.splits:
            chosen = rows.where((at >= piece.start) & (at < piece.stop))
            return _shown(chosen, self.schema, self.fan_out)
        # A row covers as many positions as its fan-out. The two conditions on `at` alone
        # allow Parquet to skip pages.
        widest = max(file.widest for file in self.files)
        chosen = rows.where((at > piece.start - widest) & (at < piece.stop) & (at + width > piece.start))
        first = F.greatest(F.lit(0).cast("long"), F.lit(piece.start) - at)
        return _shown(chosen, self.schema, self.fan_out, first, F.least(width, F.lit(piece.stop) - at))


def with_all_outputs(rows: DataFrame, fan_out: FanOut | None) -> DataFrame:
    """Rows that have not been staged, as the guarded step gets them without a gate."""
    _check(rows, fan_out)
    return rows if fan_out is None else _shown(rows, rows.schema, fan_out)


def _shown(
    rows: DataFrame,
    schema: T.StructType,
    fan_out: FanOut | None,
    first: Column | None = None,
    last: Column | None = None,
) -> DataFrame:
    """The columns that the guarded step gets: by default all outputs of each row are to be made."""
    columns = [quoted(name) for name in schema.names]
    if fan_out is not None and fan_out.splits:
        begin = F.lit(0).cast("long") if first is None else first
        end = _width(fan_out) if last is None else last
        columns += [begin.alias(fan_out.first), end.alias(fan_out.last)]
    return rows.select(*columns)


def inspect_files(
    spark: SparkSession, store: Store, names: Sequence[str], fan_out: FanOut | None, *, sealed: bool
) -> list[StagedFile]:
    """Describe some files, by a job that reads each of them. With `sealed`, a file
    that is missing has no checksum.
    """
    if not names:
        return []
    column = fan_out.column if fan_out else None

    def look(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in ids for number in batch.column(0).to_pylist()):
            yield pa.RecordBatch.from_pylist([{"id": number, **_facts(store, names[number], column, sealed)}])

    tasks = min(len(names), spark.sparkContext.defaultParallelism)
    rows = spark.range(0, len(names), 1, tasks).mapInArrow(look, _FACTS).collect()
    return [
        StagedFile(names[row.id], row.length, row.rows, row.widest, row.checksum, row.bytes)
        for row in sorted(rows, key=lambda row: row.id)
    ]


_FACTS = "id long, length long, rows long, widest long, checksum string, bytes long"


def _facts(store: Store, name: str, column: str | None, sealed: bool) -> dict[str, Any]:
    facts = {"length": 0, "rows": 0, "widest": 1, "checksum": "", "bytes": store.size(name) or 0}
    if sealed:
        try:
            facts["checksum"] = store.digest(name)
        except FileNotFoundError:
            return facts
    try:
        with store.fs.open(store.path(name), "rb") as file:
            rows = pq.ParquetFile(file).read([AT] + ([column] if column else []))
    except (pa.ArrowException, OSError):
        if not sealed:
            raise
        return facts  # damaged: the caller sees that the checksum differs
    if rows.num_rows:
        at = rows.column(AT).to_numpy()
        widths = rows.column(column).to_numpy().astype(np.int64) if column else np.ones(len(at), np.int64)
        facts |= {"length": int((at + widths).max()), "rows": len(at), "widest": int(widths.max())}
    return facts


def _width(fan_out: FanOut | None) -> Column:
    return quoted(fan_out.column).cast("long") if fan_out else F.lit(1).cast("long")


def _with_place(schema: T.StructType) -> T.StructType:
    return T.StructType([*schema.fields, T.StructField(AT, T.LongType())])


def _check(df: DataFrame, fan_out: FanOut | None) -> None:
    taken = {AT, FILE, *((fan_out.first, fan_out.last) if fan_out and fan_out.splits else ())}
    twice = sorted(taken & set(df.columns))
    if twice:
        raise ConfigError(f"the input has a column {twice[0]!r} already; rename it")
    if fan_out is None:
        return
    if fan_out.column not in df.columns:
        raise MissingColumn(
            f"fan_out names column {fan_out.column!r}, and the input has {', '.join(map(repr, df.columns))}"
        )
    if not isinstance(df.schema[fan_out.column].dataType, T.IntegralType):
        raise ConfigError(f"fan_out={fan_out.column!r} counts rows, so its column must be an integer")


def _placed(df: DataFrame, fan_out: FanOut | None) -> DataFrame:
    """The rows with their positions. Rows with a fan-out of zero are omitted."""
    if fan_out is None:
        return df.withColumn(AT, F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_OF_PARTITION)))
    counts = quoted(fan_out.column)
    wrong = F.raise_error(
        F.concat(F.lit("a fan-out cannot be "), F.coalesce(counts.cast("string"), F.lit("null")))
    )
    checked = df.where(F.when(counts >= 0, counts > 0).otherwise(wrong.cast("boolean")))
    index = df.columns.index(fan_out.column)

    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        at = 0
        for rows in batches:
            widths = rows.column(index).to_numpy().astype(np.int64)
            ends = at + np.cumsum(widths)
            yield pa.RecordBatch.from_arrays(
                [*rows.columns, pa.array(ends - widths)], names=[*rows.schema.names, AT]
            )
            at = int(ends[-1]) if len(ends) else at

    return checked.mapInArrow(place, _with_place(df.schema))
