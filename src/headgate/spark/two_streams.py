"""Combines two streams into one, so that a stage can join them in a single `foreachBatch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.errors import ConfigError, MissingColumn
from headgate.operators.stream_join import LEFT, RIGHT, SIDE, TIME
from headgate.spark.exchange import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def two_streams(
    left: DataFrame, right: DataFrame, *, key: str | Sequence[str], time: str | tuple[str, str]
) -> DataFrame:
    """Combine two streams into one for `hg.Join`.

    Its columns are the key columns, `side` (0 left, 1 right), `time`, and each side's columns as
    `left_...` and `right_...`, which are null in rows of the other side. `time` names the
    event-time column, of both sides or of each.
    """
    from pyspark.sql import functions as F

    names = (key,) if isinstance(key, str) else tuple(key)
    times = (time, time) if isinstance(time, str) else tuple(time)
    frames = (left, right)
    for frame, column, which in zip(frames, times, ("left", "right"), strict=True):
        missing = [n for n in (*names, column) if n not in frame.columns]
        if missing:
            raise MissingColumn(
                f"the {which} stream has no column {missing[0]!r}; it has {', '.join(map(repr, frame.columns))}"
            )
    for name in names:
        kinds = [frame.schema[name].dataType.simpleString() for frame in frames]
        if kinds[0] != kinds[1]:
            raise ConfigError(
                f"key column {name!r} is {kinds[0]} on the left and {kinds[1]} on the right; cast one"
            )
    clash = [n for n in names if n in (SIDE, TIME)]
    if clash:
        raise ConfigError(f"key column {clash[0]!r} has a name that the join uses itself; rename it")
    sent = []
    for side, (frame, column) in enumerate(zip(frames, times, strict=True)):
        columns = [quoted(n) for n in names]
        columns += [F.lit(side).alias(SIDE), quoted(column).alias(TIME)]
        for other, prefix in enumerate((LEFT, RIGHT)):
            for field in frames[other].schema:
                if field.name not in names:
                    value = quoted(field.name) if other == side else F.lit(None).cast(field.dataType)
                    columns.append(value.alias(prefix + field.name))
        sent.append(frame.select(*columns))
    return sent[0].unionByName(sent[1])
