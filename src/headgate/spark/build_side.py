"""The build side of a join on its way into the state: the table itself before the first batch, refreshed rows before a later one.

Refreshed rows are written to the checkpoint before `refresh` returns, and taken up by the next batch: its commit says which were, so each
counts exactly once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headgate.errors import CheckpointMismatch, ConfigError
from headgate.operators.hash_join import MODES, HashJoin, Mode
from headgate.spark.exchange import quoted
from headgate.spark.paths import literal
from headgate.spark.types import arrow_schema
from headgate.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER = "refresh"


def as_build(join: HashJoin, rows: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Build rows with the stage's names for the key; null keys match nothing and are left out."""
    on = join.keys(key)
    values = [name for name in rows.columns if name not in on]
    renamed = [quoted(name).alias(mine) for name, mine in zip(on, key, strict=True)]
    return rows.select(*renamed, *(quoted(name) for name in values)).dropna(subset=list(key))


def save(store: Store, join: HashJoin, rows: DataFrame, mode: str, key: tuple[str, ...], taken: int) -> None:
    """Keep refreshed rows until a batch takes them up; `taken` is the number of the last that was."""
    if mode not in MODES:
        raise ConfigError(f"mode={mode!r}: build rows can be {', '.join(map(repr, MODES))}")
    on = join.keys(key)
    if mode == "delete":
        rows = rows.select(*(quoted(n) for n in on)).join(join.build.limit(0), list(on), "left")
    wanted = arrow_schema(join.build.schema, key=on)
    found = arrow_schema(rows.schema, key=on)
    if {f.name: f.type for f in found} != {f.name: f.type for f in wanted}:
        raise CheckpointMismatch(
            f"refreshed rows have columns {found.names}, and the build side has {wanted.names} of types {wanted.types}"
        )
    store.make(FOLDER)
    number = 1 + max([taken, *(int(name.split("-")[0]) for name in store.names(FOLDER))])
    rows.select(*(quoted(n) for n in wanted.names)).write.parquet(
        store.fs.unstrip_protocol(store.path(f"{FOLDER}/{number:09d}-{mode}"))
    )


def waiting(
    store: Store, spark: SparkSession, join: HashJoin, key: tuple[str, ...], taken: int | None
) -> list[tuple[int, Mode, DataFrame]]:
    """What is to be taken up, in order; None: nothing was ever taken, so the table itself comes first."""
    found: list[tuple[int, Mode, Any]] = []
    if taken is None:
        found.append((0, "append", as_build(join, join.build, key)))
    for name in sorted(store.names(FOLDER)):
        number, mode = int(name.split("-")[0]), name.split("-")[1]
        if number > (taken or 0) and store.exists(f"{FOLDER}/{name}/_SUCCESS"):
            rows = spark.read.parquet(literal(store, f"{FOLDER}/{name}"))
            found.append((number, cast(Mode, mode), as_build(join, rows, key)))
    return found


def retire(store: Store, taken: int) -> None:
    """Remove what a commit has taken up."""
    old = [name for name in store.names(FOLDER) if int(name.split("-")[0]) <= taken]
    store.remove(*(f"{FOLDER}/{name}" for name in old))
