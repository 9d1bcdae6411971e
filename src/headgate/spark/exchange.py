"""The exchange: sends each row to the partition of its channel, inside the JVM.

key -> hash -> bin -> channel are plain column expressions, evaluated on the map side inside the
shuffle; no Python runs there. Where a row goes depends on the row and the table alone, so a retried
map task sends every row to the same place (Law 4).
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headgate.operators.base import BoundOperator
from headgate.routing.table import Table
from headgate.spark.anchor import CHANNEL, Seating
from headgate.spark.types import can_hash, sendable
from headgate.stage.routed_rows import ORDER, ships_hash
from headgate.state.keys import KeySpec

SPREAD = "__headgate_spread"


def quoted(name: str) -> Column:
    """A column by its exact name, even if it contains dots."""
    return F.col("`" + name.replace("`", "``") + "`")


def normal(name: str, kind: pa.DataType) -> Column:
    """A key column in a form in which equal keys are identical bits: one zero and one
    NaN, as in Spark's own grouping.
    """
    column = quoted(name)
    if not pa.types.is_floating(kind):
        return column
    spark_type = T.FloatType() if pa.types.is_float32(kind) else T.DoubleType()
    return (
        F.when(F.isnan(column), F.lit(float("nan")))
        .when(column == 0, F.lit(0.0))
        .otherwise(column)
        .cast(spark_type)
    )


def hash_of(key: KeySpec) -> Column:
    """The 64-bit hash of a key."""
    columns = [normal(n, t) for n, t in zip(key.names, key.types, strict=True)]
    if not ships_hash(key):
        return F.xxhash64(columns[0].cast("long"))
    return F.xxhash64(*columns)


def spread_of(df: DataFrame) -> Column:
    """A hash of the whole row, which picks the piece of a split key; rows with
    equal columns go to the same piece.

    Columns that Spark cannot hash (maps, variants) are ignored.
    """
    names = [f.name for f in df.schema if can_hash(f.dataType)]
    return F.xxhash64(*(quoted(name) for name in names))


def channel_of(h: Column, table: Table, spread: Column | None = None) -> Column:
    """The channel of a key hash under a table, as a column expression; `spread` picks a split key's piece.

    The table is passed as one string literal that the optimizer folds to an array. That takes one
    call to the JVM for any number of bins, and no new generated code when the table changes. Pins
    are looked up among the few pins of the row's hash bin.
    """
    hash_bin = F.pmod(h, F.lit(table.hash_bins)).cast("int")
    channels = _folded(",".join(str(table.channel_of[b]) for b in range(table.hash_bins)), "array<int>")
    channel = F.get(channels, hash_bin)
    if not table.pins:
        return channel
    hashes: list[list[str]] = [[] for _ in range(table.hash_bins)]
    targets: list[list[str]] = [[] for _ in range(table.hash_bins)]
    for key_hash, pins in table.pinned.items():
        home = table.home_bin(key_hash)
        hashes[home].append(str(key_hash))
        pieces = [str(table.channel_of[pin.bin]) for pin in pins]
        targets[home].append(pieces[0] if spread is None else f"[{','.join(pieces)}]")
    place = F.array_position(F.get(_nested(hashes, "bigint"), hash_bin), h)
    pinned = F.get(
        F.get(_nested(targets, "int" if spread is None else "array<int>"), hash_bin), (place - 1).cast("int")
    )
    if spread is not None:
        pinned = F.get(pinned, F.pmod(spread, F.size(pinned)).cast("int"))
    return F.when(place > 0, pinned).otherwise(channel)


def _folded(text: str, kind: str) -> Column:
    return F.split(F.lit(text), ",").cast(kind)


def _nested(lists: list[list[str]], kind: str) -> Column:
    return F.from_json(
        F.lit("[" + ",".join(f"[{','.join(x)}]" for x in lists) + "]"), f"array<array<{kind}>>"
    )


class Exchange:
    """The routing of one operator's rows. Column expressions are built once per table, because
    building them takes many calls to the JVM.
    """

    def __init__(self, operator: BoundOperator) -> None:
        self.operator = operator
        key = operator.key
        columns = [normal(n, t) for n, t in zip(key.names, key.types, strict=True)]
        columns += [quoted(n) for n in operator.inputs if n not in key.names]
        if ships_hash(key):
            self._hash = F.col(f"c{len(columns)}")
            columns.append(hash_of(key))
        else:
            self._hash = F.xxhash64(F.col("c0").cast("long"))
        # Columns have plain names on the way: `mapInArrow` looks them up by name, and dots confuse
        # it. `routed_schema` has the real names.
        self._columns = [column.alias(f"c{i}") for i, column in enumerate(columns)]
        self._arrival = F.monotonically_increasing_id()
        self._made: tuple[int, Column] | None = None

    def _channel(self, table: Table) -> Column:
        if self._made is None or self._made[0] != table.version:
            spread = F.col(SPREAD) if table.splits else None
            self._made = (table.version, channel_of(self._hash, table, spread))
        return self._made[1]

    def routed(self, df: DataFrame, table: Table, anchor: Seating | None = None) -> DataFrame:
        """The batch with only the columns that the operator needs, each row
        in the partition of its channel.

        Rows that waited at a gate have a column with their place in the source, `ORDER`. With an `anchor`,
        every partition prefers the executor that holds its anchor block; that adds no shuffle.
        """
        if anchor is None:
            sent, names = self._selected(df, table)
            return sent.repartitionById(table.channels, self._channel(table)).select(*names)
        sent = self.sent(df, table).withColumn(CHANNEL, anchor.seat(F.col(CHANNEL)))
        return anchor.joined(sent.repartitionById(table.channels, F.col(CHANNEL))).drop(CHANNEL, "held")

    def sent(self, df: DataFrame, table: Table) -> DataFrame:
        """The columns that the operator needs, and then the channel of each row; no row is moved."""
        sent, names = self._selected(df, table)
        return sent.withColumn(CHANNEL, self._channel(table)).select(*names, CHANNEL)

    def _selected(self, df: DataFrame, table: Table) -> tuple[DataFrame, list[str]]:
        df = sendable(df)
        columns = list(self._columns)
        if self.operator.ordered:
            arrival = F.col(ORDER) if ORDER in df.columns else self._arrival
            columns.append(arrival.alias(f"c{len(columns)}"))
        names = [f"c{i}" for i in range(len(columns))]
        return df.select(*columns, *([spread_of(df).alias(SPREAD)] if table.splits else [])), names
