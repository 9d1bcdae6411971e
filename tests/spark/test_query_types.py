"""Queries grouped into types on Spark give the placement's figures, and every query gets one server."""

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from headgate.cli.place import PlaceOptions
from headgate.cli.place_spark import on_session
from headgate.hosting import Balance, Repair


def test_large_inputs_are_grouped_placed_and_joined_back(spark: Any, tmp_path: Any) -> None:
    rows = [{"query": f"q{i}", "sources": [f"s{i % 4}", f"s{(i * 3) % 4}"]} for i in range(200)]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "queries.parquet")
    options = PlaceOptions(
        tmp_path / "queries.parquet", None, 4, None, "mms", Balance(), Repair(0), 7, tmp_path / "out.parquet", True
    )  # fmt: skip
    data = on_session(spark, options, np.ones(4), lambda what, part: None)
    kinds = {tuple(sorted(set(row["sources"]))) for row in rows}
    assert (data["queries"], data["types"], data["sources"]) == (200, len(kinds), 4)
    placed = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    server = {row["query"]: row["server"] for row in placed}
    assert len(placed) == len(server) == 200
    streams = {(s, server[row["query"]]) for row in rows for s in row["sources"]}
    assert data["traffic"] == len(streams)
    assert max(np.bincount(list(server.values()))) == data["largest_load"]
