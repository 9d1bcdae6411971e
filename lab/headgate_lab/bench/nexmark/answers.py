"""What a query has answered, read from its Parquet files, and how much of it another system
answers otherwise. No Spark.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headgate.errors import HeadgateError
from headgate_lab.bench.nexmark.queries import Query

INSTANT = pa.timestamp("us", tz="UTC")


def read(folder: Path, query: Query) -> pa.Table:
    """The answers in a folder of `batch=N` folders, without those of the closing events."""
    layout = ds.partitioning(pa.schema([("batch", pa.int64())]), flavor="hive")
    files = ds.dataset(folder, format="parquet", partitioning=layout)
    return counted(files.to_table(columns=[*query.columns, "batch"]), query)


def counted(rows: pa.Table, query: Query) -> pa.Table:
    """The rows that count: with `final`, the newest of each."""
    rows = rows.filter(pc.not_equal(rows[query.columns[0]], 0))
    if query.final:
        rest = [name for name in query.columns if name not in query.final]
        newest = rows.sort_by("batch").group_by(query.final, use_threads=False)
        rows = newest.aggregate([(name, "last") for name in rest]).rename_columns([*query.final, *rest])
    rows = rows.select(query.columns)
    kinds = [INSTANT if pa.types.is_timestamp(field.type) else field.type for field in rows.schema]
    return rows.cast(pa.schema(list(zip(rows.column_names, kinds, strict=True))))


def differing(ours: pa.Table, native: pa.Table) -> int:
    """Rows that only one of the two has, each as often as it has it more."""
    if not native.num_rows:
        raise HeadgateError("native has no answers, so there is nothing to compare with; take more events")
    sides = [
        table.append_column("more", pa.array(np.full(table.num_rows, sign)))
        for table, sign in ((ours, 1), (native, -1))
    ]
    sums = pa.concat_tables(sides).group_by(native.column_names).aggregate([("more", "sum")])
    return int(pc.sum(pc.abs(sums["more_sum"])).as_py())
