"""Loads the build side of a join into the state: the table itself before the first batch,
refreshed rows before a later one.

Refreshed rows are written to the checkpoint before `refresh` returns, and the next batch loads
them. Its commit says which refreshes are loaded, so each counts exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa

from headgate.errors import CheckpointMismatch, ConfigError
from headgate.operators.base import Operator
from headgate.operators.hash_join import MODES, Mode
from headgate.stage.engine import Engine
from headgate.storage.store import Store

FOLDER = "refresh"


def save(
    engine: Engine[Any],
    store: Store,
    operator: Operator,
    rows: Any,
    mode: str,
    key: tuple[str, ...],
    taken: int,
) -> None:
    """Write refreshed rows to the checkpoint until a batch loads them; `taken` is the number of
    the last refresh that was loaded.
    """
    build = operator.build_side()
    if build is None:
        raise ConfigError(f"{operator!r} has no build side to refresh")
    if mode not in MODES:
        raise ConfigError(f"mode={mode!r} must be one of {', '.join(map(repr, MODES))}")
    on = operator.build_keys(key)
    wanted, given = engine.columns(build, on), engine.columns(rows, on)
    if mode == "delete":
        given, wanted = (pa.schema([columns.field(name) for name in on]) for columns in (given, wanted))
    if {f.name: f.type for f in given} != {f.name: f.type for f in wanted}:
        raise CheckpointMismatch(
            f"refreshed rows have columns {given.names} of types {given.types}, but the build side has columns "
            f"{wanted.names} of types {wanted.types}"
        )
    store.make(FOLDER)
    number = 1 + max([taken, *(int(name.split("-")[0]) for name in store.names(FOLDER))])
    engine.save(rows, store, f"{FOLDER}/{number:09d}-{mode}")


def waiting(
    engine: Engine[Any], store: Store, operator: Operator, key: tuple[str, ...], taken: int | None
) -> Iterator[tuple[int, Mode, Any]]:
    """The refreshes that no batch has loaded yet, in order. If `taken` is None, nothing was ever
    loaded, and the table itself comes first.
    """
    on = operator.build_keys(key)
    if taken is None:
        yield 0, "append", engine.build_rows(operator.build_side(), on, key)
    for name in sorted(store.names(FOLDER)):
        number, mode = name.split("-")
        if int(number) > (taken or 0):
            rows = engine.load(store, f"{FOLDER}/{name}")
            if rows is not None:
                yield int(number), cast(Mode, mode), engine.build_rows(rows, on, key)


def retire(store: Store, taken: int) -> None:
    """Remove the refreshes up to `taken`, which are committed."""
    old = [name for name in store.names(FOLDER) if int(name.split("-")[0]) <= taken]
    store.remove(*(f"{FOLDER}/{name}" for name in old))
