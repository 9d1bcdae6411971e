"""Cliques of a graph on Spark: GenericJoin under nested gates (FAUCET-15).

The graph's index (successors by vertex, numbered by degree) is written once and mapped into memory
by every task. Prefixes are rows: the edges first, then triangles, and so on. Each step is a
`bounded` one inside of the one before; its gate counts proposals, which are known before they are
made, so a vertex with a million neighbours is proposed in parts like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import ConfigError
from headgate.flow.fan_out import FanOut
from headgate.flow.gate import Gate
from headgate.spark.gates.bounded import Bounded, Wave, bounded
from headgate_lab.graphs.edges import Adjacency, Edges, clean, orient
from headgate_lab.graphs.extend import check_size, counted, extended, proposals

_PIECE = 1_000_000
"""Proposals that a task works on at a time; it bounds the memory of a task."""
_PART = FanOut("proposals", "first", "last")


@dataclass(frozen=True)
class Graph:
    """A graph that was cleaned and indexed in a folder, and what was removed from it."""

    folder: str
    vertices: int
    edges: int
    malformed: int = 0
    self_loops: int = 0
    duplicates: int = 0


def read_edges(spark: SparkSession, path: str) -> DataFrame:
    """The edges in a file or folder; a line that could not be understood is a row with a null.

    Parquet: the columns `source` and `target`, else the first two. Anything else is text, two whole
    numbers a line with a space, tab, comma or semicolon between them; lines that begin with # or %
    are comments. A header is a malformed line.
    """
    if path.rstrip("/").endswith((".parquet", ".pq")):
        rows = spark.read.parquet(path)
        if len(rows.columns) < 2:
            raise ConfigError(f"{path} has {len(rows.columns)} columns; an edge needs two")
        names = ["source", "target"] if {"source", "target"} <= set(rows.columns) else rows.columns[:2]
        source, target = (F.col(f"`{name}`").cast("string") for name in names)
    else:
        rows = spark.read.text(path).where(~F.col("value").rlike(r"^\s*([#%].*)?$"))
        fields = F.split(F.trim("value"), r"[\s,;]+")
        source, target = F.get(fields, F.lit(0)), F.get(fields, F.lit(1))
    return rows.select(source.try_cast("long").alias("source"), target.try_cast("long").alias("target"))


def index(edges: DataFrame, folder: str | Path) -> Graph:
    """Make a graph simple, number its vertices by degree, and write its index. Rows with
    a null are malformed.
    """
    given = edges.select("source", "target").toArrow()
    table = given.drop_null()
    ends = np.concatenate([_values(table.column("source")), _values(table.column("target"))])
    names, numbers = np.unique(ends, return_inverse=True)
    half = len(ends) // 2
    simple = clean(Edges(numbers[:half], numbers[half:], len(names)))
    graph = orient(simple.edges)
    write_index(graph, names[graph.names], Path(folder))
    return Graph(
        str(folder),
        graph.vertices,
        len(graph.targets),
        given.num_rows - table.num_rows,
        simple.self_loops,
        simple.duplicates,
    )


def cliques(
    spark: SparkSession,
    graph: Graph,
    size: int,
    *,
    counting: bool = False,
    gate: Gate,
    inner: Gate | None = None,
    on_wave: Callable[[Wave], None] | None = None,
) -> Bounded:
    """All cliques of so many vertices, as rows v1..vk of the names in the input; or, `counting`,
    numbers that add up to how many there are.

    `gate` is around everything, `inner` (the same, if not given) around each further step.
    """
    check_size(size)
    deeper = inner or gate

    def step(have: int, prefixes: DataFrame, around: Gate, told: Callable[[Wave], None] | None) -> Bounded:
        last = have + 1 == size

        def expand(rows: DataFrame) -> DataFrame | Bounded:
            extended = rows.mapInArrow(
                _Extend(graph.folder, have, last, counting), _schema(have + 1, last, counting)
            )
            return extended if last else step(have + 1, extended, deeper, None)

        return bounded(
            prefixes, expand, batch=around.batch, in_flight=around.in_flight, fan_out=_PART, on_wave=told
        )

    tasks = max(1, min(4 * spark.sparkContext.defaultParallelism, graph.edges))
    numbers = spark.range(0, graph.edges, 1, tasks)
    edges = numbers.mapInArrow(_Prefixes(graph.folder), _schema(2, False, False))
    return step(2, edges, gate, on_wave)


def count_of(counting: Bounded) -> int:
    """The sum of what a counting `cliques` gives."""
    return sum(int(table.column("cliques").to_numpy().sum()) for table in counting)


@lru_cache(maxsize=4)
def _load(folder: str) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    offsets, targets, names = (
        np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in ("offsets", "targets", "names")
    )
    return offsets, targets, names


def write_index(graph: Adjacency, names: NDArray[np.int64], folder: Path) -> None:
    """Put a graph into files that tasks can map; `names` are what its vertices are called."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "offsets.npy", graph.offsets)
    np.save(folder / "targets.npy", graph.targets.astype(np.int32))
    np.save(folder / "names.npy", names)


def _schema(have: int, last: bool, counting: bool) -> str:
    if last and counting:
        return "cliques long"
    kind = "long" if last else "int"
    columns = [f"v{i + 1} {kind}" for i in range(have)]
    return ", ".join(columns if last else [*columns, "proposals long"])


@dataclass(frozen=True)
class _Prefixes:
    """Edge numbers become prefixes of two, with how many proposals each will get."""

    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        offsets, targets, _ = _load(self.folder)
        for rows in batches:
            numbers = rows.column(0).to_numpy()
            sources = np.searchsorted(offsets, numbers, side="right") - 1
            yield _batch(np.column_stack([sources, targets[numbers]]).astype(np.int32), offsets, targets)


@dataclass(frozen=True)
class _Extend:
    """Prefixes become those with one vertex more; the last step gives them their names,
    or only counts them.
    """

    folder: str
    have: int
    last: bool
    counting: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        offsets, targets, names = _load(self.folder)
        total = 0
        for rows in batches:
            prefixes = np.column_stack([rows.column(i).to_numpy() for i in range(self.have)])
            parts = (rows.column("first").to_numpy(), rows.column("last").to_numpy())
            if self.last and self.counting:
                total += counted(prefixes, *parts, offsets, targets)
                continue
            for larger in extended(prefixes, *parts, offsets, targets, _PIECE):
                if self.last:
                    yield pa.RecordBatch.from_arrays(
                        [pa.array(names[column]) for column in larger.T],
                        names=[f"v{i + 1}" for i in range(self.have + 1)],
                    )
                else:
                    yield _batch(larger, offsets, targets)
        if self.last and self.counting:
            yield pa.RecordBatch.from_pydict({"cliques": pa.array([total], pa.int64())})


def _batch(prefixes: NDArray[np.int32], offsets: Any, targets: Any) -> pa.RecordBatch:
    columns = [pa.array(np.ascontiguousarray(column)) for column in prefixes.T]
    counts = pa.array(proposals(prefixes, offsets, targets))
    return pa.RecordBatch.from_arrays(
        [*columns, counts], names=[*(f"v{i + 1}" for i in range(prefixes.shape[1])), "proposals"]
    )


def _values(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy())
