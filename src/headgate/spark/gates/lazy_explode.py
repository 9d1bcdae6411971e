"""`flow.lazy_rows` on Spark: rows are drawn from iterators in the tasks of a wave, which tell the driver how
far they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from headgate.errors import ConfigError
from headgate.flow.gated_ranges import RangeWave, unfinished
from headgate.flow.lazy_rows import Draw, RowsOf, batch_of
from headgate.flow.row_ranges import RowRange
from headgate.spark.arrow_types import to_arrow_schema
from headgate.spark.gates.staged_rows import AT, FILE, StagedRows

Place = tuple[int, int]
"""A row of a file, and how many of its outputs have been made."""
Start = tuple[int, int]
"""File and first row of a range."""


@dataclass(frozen=True)
class LazyExplode:
    """A function from a row (a dict) to an iterator of tuples, and the schema of those tuples."""

    function: RowsOf
    schema: T.StructType

    @classmethod
    def checked(cls, function: Any, schema: T.StructType | str | None) -> LazyExplode:
        """Make one from what the user passed, or refuse it."""
        if not callable(function):
            raise ConfigError(f"explode={function!r} must be a function from a row to an iterator of tuples")
        if schema is None:
            raise ConfigError('explode needs schema="...": the columns of the rows that it makes')
        if isinstance(schema, str):
            try:
                schema = T.StructType.fromDDL(schema)
            except Exception as error:
                raise ConfigError(f"schema={schema!r} cannot be read: {error}") from error
        return cls(function, schema)

    def whole(self, rows: DataFrame) -> DataFrame:
        """All that the iterators give, without a gate."""
        function, schema = self.function, to_arrow_schema(self.schema)

        def explode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for row in (row for batch in batches for row in batch.to_pylist()):
                drawn = list(function(row))
                if drawn:
                    yield batch_of(drawn, schema)

        return rows.mapInArrow(explode, self.schema)


class _Places(AccumulatorParam[dict[Start, Place]]):  # type: ignore[misc]
    """How far each range has come. A task that runs twice adds the same
    value twice, which changes nothing.
    """

    def zero(self, value: dict[Start, Place]) -> dict[Start, Place]:
        return {}

    def addInPlace(self, value1: dict[Start, Place], value2: dict[Start, Place]) -> dict[Start, Place]:
        return {**value1, **value2}


class ExplodedWave:
    """The rows of one wave: at most `budget` from each range. `source` is the name of the staged rows."""

    def __init__(
        self, spark: SparkSession, source: str, explode: LazyExplode, budget: int, ranges: Sequence[RowRange]
    ) -> None:
        self._ended: Accumulator[dict[Start, Place]] = spark.sparkContext.accumulator({}, _Places())
        made = {(piece.file, piece.start): piece.made for piece in ranges}
        self._step = _Step(
            source, explode.function, to_arrow_schema(explode.schema), budget, made, self._ended
        )
        self._schema, self._ranges = explode.schema, ranges

    def rows(self, numbered: DataFrame) -> DataFrame:
        """The rows that the iterators give, as a DataFrame."""
        return numbered.mapInArrow(self._step, self._schema)

    def left(self) -> list[RowRange]:
        """What is left of the ranges, once the job has ended."""
        ended = dict(self._ended.value)
        return unfinished(self._ranges, lambda piece: ended[piece.file, piece.start])


@dataclass
class _Step:
    """The function of `mapInArrow`, which runs in the Python worker."""

    source: str
    function: RowsOf
    schema: pa.Schema
    budget: int
    made: dict[Start, int]
    ended: Accumulator[dict[Start, Place]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark may give a task the rows of several ranges, one after the other."""
        rows = ((r.pop(FILE), r.pop(AT), r) for batch in batches for r in batch.to_pylist())
        current: Start = (-1, -1)

        def range_of(row: tuple[int, int, dict[str, Any]]) -> Start:
            nonlocal current
            current = (row[0], row[1]) if (row[0], row[1]) in self.made else current
            return current

        for start, mine in groupby(rows, key=range_of):
            draw = Draw(self.function, self.source, budget=self.budget, made=self.made[start])
            for drawn in draw(mine):
                yield batch_of(drawn, self.schema)
            assert draw.place is not None
            self.ended.add({start: draw.place})


def taken(
    staged: StagedRows, wave: RangeWave, explode: LazyExplode | None, source: str, *, in_order: bool
) -> tuple[DataFrame, Callable[[], list[RowRange]]]:
    """The rows of a wave, and a function that says what is left of its ranges once its job has ended.
    `source` is a name that no other staged rows have.
    """
    if explode is None:
        return staged.read(wave.ranges, in_order=in_order), list
    exploded = ExplodedWave(staged.spark, source, explode, wave.budget, wave.ranges)
    return exploded.rows(staged.numbered(wave.ranges)), exploded.left
