"""The query of `bench faucet` on Spark: it counts triangles, and its last step runs on all cores."""

from pathlib import Path
from typing import Any

from headgate_lab.bench.faucet.edges import edges_of, write_input
from headgate_lab.bench.faucet.job import CORES, triangles_step
from headgate_lab.bench.faucet.runs import graph
from headgate_lab.graphs import count_cliques


def test_each_owner_has_a_partition_of_its_own(spark: Any, tmp_path: Path) -> None:
    made = graph(7, 900)
    write_input(made, tmp_path / "graph", (1.0,))
    folder = str(tmp_path / "graph")
    found = triangles_step(folder)(spark.read.parquet(edges_of(folder, 1.0)))
    by_partition = found.rdd.glom().map(len).collect()
    assert by_partition == [1] * CORES, "a group in each partition, and no partition without one"
    assert sum(row.triangles for row in found.collect()) == count_cliques(made, 3)
