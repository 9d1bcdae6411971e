"""Columns that a user names: by name, or from habit as `F.col("user")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.errors import ConfigError


def column_names(columns: Any, what: str) -> tuple[str, ...]:
    """The names of one column or several. A `Column` stands for its name if it is just a name."""
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        columns = (columns,)
    return tuple(_name(column, what) for column in columns)


def _name(column: Any, what: str) -> str:
    if isinstance(column, str):
        return column
    text = _plain_name(column)
    if text is None:
        raise ConfigError(
            f"{what}={column!r} is not the name of a column; compute it before the stage "
            f"(df.withColumn('{what}', ...)) and give its name"
        )
    return text


def _plain_name(column: Any) -> str | None:
    """The name, if the column is just one: `F.col("user")`, `df.user`, `df["user"]`."""
    inner = getattr(column, "_jc", None)
    if inner is None:
        return None
    node = inner.node()
    if not str(node.getClass().getSimpleName()).startswith("UnresolvedAttribute"):
        return None
    parts = [str(part) for part in _items(node.nameParts())]
    return ".".join(parts)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]
