"""The input of the query that explodes: a graph that tasks map into memory, and its edges in files, as a user has them.

An input that Spark holds in its heap would be counted as memory of the query, with a gate and without.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate_lab.graphs.edges import Adjacency

FILES = 8


def write_input(graph: Adjacency, folder: Path, parts: Iterable[float]) -> None:
    """Write the graph, and for each part of the input a folder with every n-th edge and its number of proposals."""
    from headgate_lab.cliques import write_index  # needs Spark

    write_index(graph, graph.names, folder)
    for part in parts:
        chosen = np.arange(0, len(graph.targets), max(1, round(1 / part)))
        np.random.default_rng(3).shuffle(chosen)  # edges that explode are not all in one file
        v1 = (np.searchsorted(graph.offsets, chosen, side="right") - 1).astype(np.int32)
        v2 = graph.targets[chosen].astype(np.int32)
        edges = pa.table({"v1": v1, "v2": v2, "proposals": np.diff(graph.offsets)[v2]})
        into = Path(edges_of(str(folder), part))
        into.mkdir(parents=True)
        ends = np.linspace(0, len(edges), FILES + 1).astype(int)
        for number, (begin, end) in enumerate(pairwise(ends)):
            pq.write_table(edges.slice(begin, end - begin), into / f"{number}.parquet")


def edges_of(folder: str, part: float) -> str:
    """The folder with the edges of a part of the input."""
    return f"{folder}/edges-{part:g}"
