"""What Delta's log says about a Parquet file that a table adopts: its path, its size and its statistics.

The statistics come from the file's footer. Readers skip files by them, so a bound that might be wrong is
left out: a column of floats may hold NaN, which Parquet's bounds ignore.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

LONGEST_TEXT = 32
"""Longer bounds of text are left out: Delta's writers cut them, and a cut bound must be rounded."""


def statistics(footer: pq.FileMetaData, schema: pa.Schema) -> str:
    """The statistics of a file as Delta writes them: rows, and for each simple column nulls and bounds.

    >>> import io
    >>> rows = pa.table({"n": pa.array([3, None, 1], pa.int64()), "x": pa.array([0.5, 1.5, None])})
    >>> file = io.BytesIO(); pq.write_table(rows, file)
    >>> statistics(pq.read_metadata(file), rows.schema)
    '{"numRecords": 3, "minValues": {"n": 1}, "maxValues": {"n": 3}, "nullCount": {"n": 1, "x": 1}}'
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    columns = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    for field in schema:
        at = columns.get(field.name)  # a nested column has longer paths
        if at is None:
            continue
        parts = [footer.row_group(group).column(at).statistics for group in range(footer.num_row_groups)]
        if any(part is None or not part.has_null_count for part in parts):
            continue
        nulls[field.name] = sum(part.null_count for part in parts)
        known = [part for part in parts if part.has_min_max]
        if known and all(part.has_min_max or part.num_values == 0 for part in parts):
            low = _bound(min(part.min for part in known), field.type, up=False)
            high = _bound(max(part.max for part in known), field.type, up=True)
            if low is not None and high is not None:
                least[field.name], most[field.name] = low, high
    return json.dumps(
        {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    )


def _bound(value: Any, kind: pa.DataType, *, up: bool) -> Any:
    """A bound as JSON holds it, or None if it is not certain. Times have milliseconds, rounded outwards."""
    if pa.types.is_integer(kind):
        return int(value)
    if pa.types.is_string(kind) and isinstance(value, str) and len(value) <= LONGEST_TEXT:
        return value
    if pa.types.is_date(kind) and isinstance(value, date):
        return value.isoformat()
    if pa.types.is_timestamp(kind) and isinstance(value, datetime):
        rest = timedelta(microseconds=value.microsecond % 1000)
        try:
            rounded = value - rest + (timedelta(milliseconds=1) if up and rest else timedelta())
        except OverflowError:
            return None
        text = rounded.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return f"{text}Z" if kind.tz is not None else text
    return None


def milliseconds(at: datetime) -> int:
    """A time as Delta's log holds it."""
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
