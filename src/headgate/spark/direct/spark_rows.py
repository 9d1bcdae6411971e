"""The row path of a direct stream: planned ranges as a DataFrame, for steps that only Spark can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import ConfigError, HeadgateError, SourceFailed
from headgate.sources.source import Demand, Range, Ranges, Source
from headgate.spark.types import arrow_schema, emitted_schema, spark_schema
from headgate.state.conform import conform_table
from headgate.streams.planned import Input, Planned, split_tasks
from headgate.streams.step import BoundStep

SparkStep = Callable[[DataFrame], DataFrame]


class SparkReader(Source):
    """Any reader of Spark as a source, by two functions: `plan(offset, demand)` returns `Ranges`, and
    `load(spark, what)` makes a DataFrame of a range. The same range must always give the same rows.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: Callable[[Any, Demand], Ranges],
        load: Callable[[SparkSession, Any], DataFrame],
        schema: pa.Schema,
        name: str,
    ) -> None:
        self._spark, self._plan, self.load, self._schema, self.name = spark, plan, load, schema, name

    def __repr__(self) -> str:
        return f"the reader {self.name!r}"

    def schema(self) -> pa.Schema:
        return self._schema

    def identity(self) -> dict[str, Any]:
        return {"source": "reader", "name": self.name}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        planned = self._plan(offset, demand)
        if not isinstance(planned, Ranges) or not all(isinstance(part, Range) for part in planned.ranges):
            raise ConfigError(
                f"plan of {self!r} must return hg.sources.Ranges(ranges, offset), not {planned!r}"
            )
        return planned

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError("Spark reads these rows")


class ReadWork:
    """Reads ranges in a Python worker: the function of `mapInArrow`."""

    def __init__(self, inputs: Sequence[Input], tasks: list[Any], schema: pa.Schema) -> None:
        self.inputs, self.tasks, self.schema = tuple(inputs), tasks, schema

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            for _, part in self.tasks[number]:
                chosen = self.inputs[part.input]
                rows = pa.Table.from_batches(chosen.source.read(part.what), chosen.source.schema())
                for step in chosen.steps:
                    rows = step.apply(rows)
                yield from conform_table(rows.combine_chunks(), self.schema).to_batches()


def frame_of(spark: SparkSession, planned: Planned, tasks: int) -> DataFrame:
    """The planned rows as a DataFrame, in the order of the source."""
    inputs = planned.inputs
    emitted = emitted_schema(planned.schema)
    declared = spark_schema(emitted)
    if any(isinstance(one_input.source, SparkReader) for one_input in inputs):
        frames = [_loaded(spark, inputs[part.input], part.what) for part in planned.ranges]
        return reduce(DataFrame.unionAll, frames) if frames else spark.createDataFrame([], declared)
    split = split_tasks(planned.ranges, tasks, planned.worth_a_task)
    if not split:
        return spark.createDataFrame([], declared)
    numbers = spark.range(0, len(split), 1, len(split))
    return numbers.mapInArrow(ReadWork(inputs, split, emitted), declared)


def _loaded(spark: SparkSession, chosen: Input, what: Any) -> DataFrame:
    assert isinstance(chosen.source, SparkReader)
    try:
        rows = chosen.source.load(spark, what)
        columns = rows.columns
    except HeadgateError:
        raise
    except Exception as error:
        raise SourceFailed(
            f"{chosen.source!r} could not load {what!r}: {type(error).__name__}: {error}. Nothing of the batch was committed: "
            "correct its function and start the query again"
        ) from error
    names = chosen.source.schema().names
    if sorted(columns) != sorted(names):
        raise SourceFailed(
            f"{chosen.source!r} loaded {', '.join(columns)} for {what!r}, but its schema has {', '.join(names)}: load exactly "
            "these columns"
        )
    return rows.select(*names)


def mapped(step: BoundStep, before: pa.Schema) -> SparkStep:
    """A columnar step as one on DataFrames."""
    declared, plain = spark_schema(emitted_schema(step.schema)), emitted_schema(step.schema)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = conform_table(pa.Table.from_batches([batch]), before)
            yield from conform_table(step.apply(rows).combine_chunks(), plain).to_batches()

    return lambda df: df.mapInArrow(work, declared)


def columns_of(df: DataFrame) -> pa.Schema:
    """The columns of a DataFrame, as operators see them."""
    return arrow_schema(df.schema, key=())
