"""A function from a row to an iterator, suspended after a number of rows and
resumed in a later job (FAUCET-10).

A wave's task draws from the iterators of its rows, one after the other, until its budget is spent,
and tells the driver how far it came. The Python worker keeps the suspended iterator. If the next
task runs in another worker, the iterator is made again and advanced to the same place, so the
function must give the same rows every time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from headgate.errors import ConfigError
from headgate.spark.arrow_types import to_arrow_schema
from headgate.spark.gates.staged_rows import AT, FILE

Place = tuple[int, int]
"""A row of a file, and how many of its outputs have been made."""
Start = tuple[int, int]
"""File and first row of a range."""

_ROWS_AT_ONCE = 4096
_KEPT = 64
_suspended: OrderedDict[tuple[str, int, int, int], Iterator[tuple[Any, ...]]] = OrderedDict()
"""The suspended iterators of this worker, by run, file, row and number of outputs made."""


@dataclass(frozen=True)
class LazyExplode:
    """A function from a row (a dict) to an iterator of tuples, and the schema of those tuples."""

    function: Callable[[dict[str, Any]], Iterable[tuple[Any, ...]]]
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


class _Places(AccumulatorParam[dict[Start, Place]]):  # type: ignore[misc]
    """How far each range has come. A task that runs twice adds the same
    value twice, which changes nothing.
    """

    def zero(self, value: dict[Start, Place]) -> dict[Start, Place]:
        return {}

    def addInPlace(self, value1: dict[Start, Place], value2: dict[Start, Place]) -> dict[Start, Place]:
        return {**value1, **value2}


class ExplodedWave:
    """The rows of one wave: at most `budget` from each range. `made` says how many outputs the
    first row of each range has made in earlier waves.
    """

    def __init__(
        self, spark: SparkSession, run: str, explode: LazyExplode, budget: int, made: Mapping[Start, int]
    ) -> None:
        self._ended: Accumulator[dict[Start, Place]] = spark.sparkContext.accumulator({}, _Places())
        self._step = _Step(
            run, explode.function, to_arrow_schema(explode.schema), budget, dict(made), self._ended
        )
        self._schema = explode.schema

    def rows(self, numbered: DataFrame) -> DataFrame:
        """The rows that the iterators give, as a DataFrame."""
        return numbered.mapInArrow(self._step, self._schema)

    @property
    def ended(self) -> dict[Start, Place]:
        """How far each range had come at the end of the job."""
        return dict(self._ended.value)


@dataclass
class _Step:
    """The function of `mapInArrow`, which runs in the Python worker."""

    run: str
    function: Callable[[dict[str, Any]], Iterable[tuple[Any, ...]]]
    schema: pa.Schema
    budget: int
    made: dict[Start, int]
    ended: Accumulator[dict[Start, Place]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = ((r.pop(FILE), r.pop(AT), r) for batch in batches for r in batch.to_pylist())
        first = next(rows, None)
        if first is None:
            return
        start = first[0], first[1]
        left, place = self.budget, (first[1], self.made.get(start, 0))
        file, at, row = first
        while True:
            source = self._iterator(file, at, place[1], row)
            while left:
                drawn = list(islice(source, min(left, _ROWS_AT_ONCE)))
                left -= len(drawn)
                place = (at, place[1] + len(drawn))
                if drawn:
                    columns = zip(*drawn, strict=True)
                    yield pa.RecordBatch.from_arrays(
                        [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)],
                        schema=self.schema,
                    )
                if len(drawn) < _ROWS_AT_ONCE and left:
                    break
            if not left:
                _suspended[self.run, file, at, place[1]] = source
                while len(_suspended) > _KEPT:
                    _suspended.popitem(last=False)
                break
            place = (at + 1, 0)
            following = next(rows, None)
            if following is None:
                break
            file, at, row = following
        for _ in rows:  # Spark requires that the input is read to the end
            pass
        self.ended.add({start: place})

    def _iterator(self, file: int, at: int, made: int, row: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        kept = _suspended.pop((self.run, file, at, made), None)
        if kept is not None:
            return kept
        source = iter(self.function(row))
        for _ in islice(source, made):
            pass
        return source
