"""Cliques on Spark, held against networkx and a count on one machine."""

from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from headgate.errors import ConfigError
from headgate.flow.gate import Gate
from headgate_lab.cliques_command import CliqueOptions, as_table, generate, on_session
from headgate_lab.graphs import clean, count_cliques, orient, rmat


def silent(what: str, part: float) -> None:
    return None


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("graph") / "small.parquet"
    generate(file, scale=7, edges=900, seed=3)
    return file


def cliques_of(file: Path, size: int) -> set[tuple[int, ...]]:
    """By networkx: every part of every maximal clique."""
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    graph = nx.Graph(zip(*(table.column(n).to_pylist() for n in ("source", "target")), strict=True))
    graph.remove_edges_from(nx.selfloop_edges(graph))
    return {tuple(sorted(part)) for clique in nx.find_cliques(graph) for part in combinations(clique, size)}


def test_triangles_and_larger_cliques_are_counted(spark: Any, small: Path) -> None:
    for size in (3, 4):
        found = on_session(spark, CliqueOptions(str(small), size, gate=Gate(2, 700)), silent)
        assert found["cliques"] == len(cliques_of(small, size))
        assert found["waves"] > 1
    assert "peak memory" in str([list(column.cells) for column in as_table(found).columns])


def test_cliques_are_listed_by_their_names(spark: Any, small: Path, tmp_path: Path) -> None:
    wish = CliqueOptions(str(small), 5, out=tmp_path / "found", gate=Gate(2, 20_000))
    found = on_session(spark, wish, silent)
    rows = spark.read.parquet(str(tmp_path / "found")).select("v1", "v2", "v3", "v4", "v5").toArrow()
    listed = [tuple(sorted(row.values())) for row in rows.to_pylist()]
    assert sorted(listed) == sorted(cliques_of(small, 5))
    assert found["cliques"] == len(listed)


def test_text_with_all_that_can_be_wrong(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "edges.csv"
    file.write_text("source,target\n# a comment\n1,2\n2;3\n3\t1\n\n1 2\n4,4\nfive,6\n7\n  3   4 \n1.5 2\n")
    found = on_session(spark, CliqueOptions(str(file)), silent)
    assert (found["cliques"], found["edges"], found["vertices"]) == (1, 4, 4)
    assert (found["malformed"], found["self_loops"], found["duplicates"]) == (4, 1, 1)
    with pytest.raises(ConfigError, match="4 malformed edges, 1 self-loops and 1 duplicates"):
        on_session(spark, CliqueOptions(str(file), strict=True), silent)


def test_an_empty_graph_has_none(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "empty.txt"
    file.write_text("# nothing\n")
    assert on_session(spark, CliqueOptions(str(file)), silent)["cliques"] == 0


def test_sizes_that_cannot_be_listed_are_refused(spark: Any, small: Path) -> None:
    with pytest.raises(ConfigError, match="3 to 5 vertices"):
        on_session(spark, CliqueOptions(str(small), 6), silent)


def test_the_paper_s_topology_gives_the_same_behind_a_gate(spark: Any, tmp_path: Path) -> None:
    from headgate_lab.bench.faucet.edges import write_input
    from headgate_lab.bench.faucet.job import exploding

    made = rmat(8, 2000, np.random.default_rng(5).random)
    graph = orient(clean(made).edges)
    write_input(graph, tmp_path, [1.0])
    job = {"graph": str(tmp_path), "part": 1.0, "in_flight": 2}
    wanted = count_cliques(graph, 3)
    assert exploding(spark, {**job, "batch": None}) == exploding(spark, {**job, "batch": 5000}) == wanted
