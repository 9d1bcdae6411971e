"""How many different values there are: exactly up to a bound, or about, in a state of bounded size.

Both states are lists, so pieces merge in any order. The exact one has every value. The approximate one is the SIZE smallest
hashes of the values (a k-minimum-values sketch): below that number of values it is exact, and above it the place of the
largest of them tells how many there are, with a standard error of 1 / sqrt(SIZE - 2).
"""

from __future__ import annotations

SIZE = 2_048
"""Hashes in a sketch: 16 kB, and an error of 2.2%."""
MOST_VALUES = 100_000
"""How many different values count(DISTINCT) may keep of a group and window."""
_VALUES, _SKETCH = "list(DISTINCT ", "hg_least("


def values_of(argument: str) -> str:
    """The different values of an argument, as an aggregate."""
    return f"{_VALUES}{argument}) FILTER (WHERE {argument} IS NOT NULL)"


def sketch_of(argument: str) -> str:
    """The smallest hashes of an argument's values, as an aggregate. The hash is the same in all versions of the engine."""
    hashed = f"md5_number_lower(CAST({argument} AS VARCHAR))"
    return f"{_SKETCH}list(DISTINCT {hashed}) FILTER (WHERE {argument} IS NOT NULL))"


def merged(begin: str, column: str) -> str | None:
    """The aggregate that merges lists of values or hashes; None if a partial value is neither."""
    if begin.startswith(_VALUES):
        return _together(column)
    return f"hg_least({_together(column)})" if begin.startswith(_SKETCH) else None


def _together(column: str) -> str:
    return f"list_distinct(flatten(list({column})))"


def exact(column: str) -> str:
    """The number of values in all lists of a column. Too many stop the query."""
    return f"hg_counted(len({_together(column)}))"


def estimate(column: str) -> str:
    """About how many values the hashes of a column stand for."""
    return f"hg_estimate(hg_least({_together(column)}))"


MACROS = (
    f"CREATE MACRO hg_least(l) AS list_slice(list_sort(l), 1, {SIZE})",
    "CREATE MACRO hg_counted(n) AS CAST(CASE WHEN n > "
    f"{MOST_VALUES} THEN error('count(DISTINCT) has found more than {MOST_VALUES} values in a group and window: "
    "use approx_count_distinct') ELSE coalesce(n, 0) END AS BIGINT)",
    f"CREATE MACRO hg_estimate(l) AS CAST(CASE WHEN len(l) < {SIZE} THEN coalesce(len(l), 0) "
    f"ELSE round({SIZE - 1} * (18446744073709551615.0 / CAST(l[{SIZE}] AS DOUBLE))) END AS BIGINT)",
)
"""What engines must know to count."""
