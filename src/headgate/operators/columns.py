"""Columns as users name them: by name, or from habit as `F.col("user")`, which stands for its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.errors import ConfigError


def column_names(columns: Any, what: str) -> tuple[str, ...]:
    """The names of one column or of several.

    >>> column_names("user", "key"), column_names(["user", "day"], "key")
    (('user',), ('user', 'day'))
    """
    several = isinstance(columns, Sequence) and not isinstance(columns, str)
    return tuple(column_name(column, what) for column in (columns if several else (columns,)))


def column_name(column: Any, what: str) -> str:
    """The name of a column. An expression has none, and raises an error: it must be computed before the stage."""
    name = column if isinstance(column, str) else _name_of(column)
    if name is None:
        raise ConfigError(
            f"{what}={column!r} is not the name of a column; compute it before the stage, as in "
            f"df.withColumn({what!r}, ...), and give its name"
        )
    return name


def _name_of(column: Any) -> str | None:
    """The name of a Spark column that is just a name: `F.col("user")` or `df["user"]`."""
    classic = getattr(column, "_jc", None)
    if classic is None:
        return None
    node = classic.node()
    kind = node.getClass().getSimpleName()
    if kind == "UnresolvedAttribute":
        parts = node.nameParts()
        return ".".join(str(parts.apply(at)) for at in range(parts.size()))
    if (
        kind == "ExpressionColumnNode"
        and node.expression().getClass().getSimpleName() == "AttributeReference"
    ):
        return str(node.expression().name())
    return None
