"""Aggregate functions for `hg.Aggregate`, named and typed as in Spark.

>>> from headgate import agg
>>> agg.sum("amount"), agg.count()
(sum('amount'), count())
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa

from headgate.errors import ConfigError
from headgate.operators import accumulators as acc
from headgate.operators.base import column_type
from headgate.operators.columns import column_name


@dataclass(frozen=True)
class Agg:
    """An aggregate function of a column, or of rows."""

    function: str
    column: str | None = None
    ignore_nulls: bool = False

    def __post_init__(self) -> None:
        if self.column is None and self.function != "count":
            raise ConfigError(f"agg.{self.function}(None) needs a column: agg.{self.function}('amount')")
        if self.column is not None:
            object.__setattr__(self, "column", column_name(self.column, self.function))

    def __repr__(self) -> str:
        inside = "" if self.column is None else repr(self.column)
        return f"{self.function}({inside}{', ignore_nulls=True' if self.ignore_nulls else ''})"

    def bind(self, name: str, schema: pa.Schema) -> acc.Accumulator:
        """The accumulator for output column `name`."""
        if self.column is None:
            return acc.Count(name, None)
        column, kind = self.column, column_type(schema, self.column, f"{name} = {self!r}")
        match self.function:
            case "count":
                return acc.Count(name, column)
            case "min" | "max":
                return acc.Extreme(name, column, kind, largest=self.function == "max")
            case "first" | "last":
                return acc.Edge(
                    name, column, kind, last=self.function == "last", ignore_nulls=self.ignore_nulls
                )
        acc.numeric(kind, self.function, column)
        match self.function:
            case "sum" | "mean" if pa.types.is_decimal128(kind):
                return acc.DecimalSum(name, column, kind, mean=self.function == "mean")
            case "sum":
                return acc.Sum(name, column, kind)
            case "mean":
                return acc.Mean(name, column)
        return acc.Spread(name, column, root=self.function == "std")


def count(column: str | None = None) -> Agg:
    """The number of rows, or of non-null values of `column`."""
    return Agg("count", None if isinstance(column, str) and column == "*" else column)


def sum(column: str) -> Agg:
    """Sum; null if every value is null."""
    return Agg("sum", column)


def min(column: str) -> Agg:
    """Smallest value of any ordered type."""
    return Agg("min", column)


def max(column: str) -> Agg:
    """Largest value of any ordered type; NaN is above every number."""
    return Agg("max", column)


def mean(column: str) -> Agg:
    """Arithmetic mean."""
    return Agg("mean", column)


def avg(column: str) -> Agg:
    """Arithmetic mean, by Spark's other name."""
    return mean(column)


def count_distinct(column: str) -> Agg:
    """Not an aggregate of a stage: it raises `ConfigError`, which says what to do instead."""
    raise ConfigError(
        f"agg.count_distinct({column!r}) would keep every value of every key; count what hg.Dedup lets pass: a stage with "
        f"hg.Dedup() and the key columns and {column!r} as its key, followed by one with hg.Aggregate(n=agg.count())"
    )


def var(column: str) -> Agg:
    """Sample variance; null for fewer than two values."""
    return Agg("var", column)


def std(column: str) -> Agg:
    """Sample standard deviation; null for fewer than two values."""
    return Agg("std", column)


def first(column: str, *, ignore_nulls: bool = False) -> Agg:
    """First value in the order of the source."""
    return Agg("first", column, ignore_nulls)


def last(column: str, *, ignore_nulls: bool = False) -> Agg:
    """Last value in the order of the source."""
    return Agg("last", column, ignore_nulls)


_OTHER_NAMES = {
    "stddev": "std",
    "stddev_samp": "std",
    "variance": "var",
    "var_samp": "var",
    "countDistinct": "count_distinct",
}


def __getattr__(name: str) -> NoReturn:
    known = "avg, count, first, last, max, mean, min, std, sum, var"
    hint = f"; here it is called {_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
    raise AttributeError(f"there is no agg.{name}: the aggregates are {known}{hint}")
