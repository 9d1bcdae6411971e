"""Checks of the steps of a direct stream that need Spark, or its way to send functions to tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import ConfigError, MissingColumn
from headgate.spark.direct.spark_rows import SparkReader
from headgate.spark.inside import checks_rounding, is_deterministic, pickled
from headgate.streams.planned import Input
from headgate.streams.sql_step import NotColumnar


def check_names(names: Sequence[str], step: str) -> None:
    """Refuse a step that gives two columns one name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"{step} returns the column {twice[0]!r} {names.count(twice[0])} times, among {', '.join(map(repr, names))}: give each "
            "column a name of its own, with alias(...) or withColumnRenamed(...), or drop one"
        )


def check_table(table: DataFrame, on: tuple[str, ...]) -> None:
    """Refuse a table to join with that lacks the key."""
    names = table.columns
    missing = [name for name in on if name not in names]
    if missing:
        raise MissingColumn(
            f"join(table): the table has no key column {missing[0]!r}; it has {', '.join(map(repr, names))}. Rename its column, or "
            "name it with join(table, on=...)"
        )


def check_deterministic(rows: DataFrame, step: str) -> None:
    """Refuse a function of the session that gives other values when it is called again. Spark Connect does not
    show its plans; there only the names of Spark's own functions are known.
    """
    if is_deterministic(rows) is False:
        raise ConfigError(
            f"{step}: a function in it is not deterministic, and a batch that is done again must give the same rows. Compute the "
            "values from the row, or use transform(...) if the function does so"
        )


_ROUNDING = re.compile(r"\b(floor|ceil|ceiling)\s*\(", re.IGNORECASE)


def check_rounding(spark: SparkSession, texts: Sequence[str]) -> None:
    """Leave `floor` and `ceil` to a Spark that gives the largest long for a number which no long can hold: the
    columnar step raises an error there, as later versions do.
    """
    if any(map(_ROUNDING.search, texts)) and not checks_rounding(spark):
        raise NotColumnar("this Spark does not check the range of floor and ceil")


def check_pickles(chosen: Input) -> None:
    """Refuse a source or a function that cannot be sent to the tasks."""
    if not isinstance(chosen.source, SparkReader):
        _check_pickle(
            chosen.source,
            "keep such a thing out of the source, or leave it out in __getstate__ and make it anew in read",
        )
    for step in chosen.steps:
        _check_pickle(
            step,
            "make such a thing inside the function, where the task needs it",
            getattr(step, "step", step),
        )


def _check_pickle(value: Any, remedy: str, named: Any = None) -> None:
    try:
        pickled(value)
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"{value if named is None else named!r} cannot be sent to the tasks, because something in it cannot be pickled: {first}. "
            f"Connections, locks, open files and Spark sessions cannot: {remedy}"
        ) from error
