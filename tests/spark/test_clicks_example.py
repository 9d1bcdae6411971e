"""The example of joins and windows counts what a loop over the same files counts."""

import datetime as dt
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

QUARTER = dt.timedelta(minutes=15)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.iterdir()) for row in pq.read_table(path).to_pylist()]


def test_clicks_are_counted_as_the_example_says(spark: Any, tmp_path: Path) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "clicks.py"))
    example["generate"](tmp_path / "data")
    pipeline = example["count_clicks"](spark, tmp_path / "data", tmp_path / "work")
    clicked = {row["ad"]: row["time"] for row in rows(tmp_path / "data" / "clicked")}
    shown: Counter[Any] = Counter()
    hits: Counter[Any] = Counter()
    for row in rows(tmp_path / "data" / "shown"):
        if row["campaign"] != "end":
            start = row["time"] - (row["time"] - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) % QUARTER
            shown[row["campaign"], start] += 1
            after = clicked.get(row["ad"], row["time"] - QUARTER) - row["time"]
            hits[row["campaign"], start] += dt.timedelta() <= after <= dt.timedelta(minutes=10)
    out = [
        row
        for path in sorted((tmp_path / "work" / "out").glob("batch=*/*"))
        for row in pq.ParquetFile(path).read().to_pylist()
        if row["left_campaign"] != "end"
    ]
    assert {(r["left_campaign"], r["window_start"]): (r["shown"], r["clicked"]) for r in out} == {
        at: (n, hits[at]) for at, n in shown.items()
    }
    assert "watermark 2024-03-02" in str(pipeline.status()[0])
