"""Spark's Python daemon, with headgate loaded and its kernels compiled before it forks:
workers then start in milliseconds.

A setting names it (`headgate.spark.inside.WORKER_DAEMON`). Without it each worker would import numpy, pyarrow, numba and
headgate and load the compiled code for itself. That takes 3.6 s of CPU time each: a minute for sixteen
channels on two cores, and several minutes if nothing is compiled yet. A forked worker inherits all of it.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pyarrow as pa

from headgate.operators import agg
from headgate.operators.aggregate import Aggregate
from headgate.operators.base import Operator
from headgate.operators.channel_run import ChannelRun
from headgate.operators.history import HistoryWindow
from headgate.routing.column_hash import key_hashes
from headgate.spark.inside import run_worker_daemon
from headgate.state.keys import KeySpec
from headgate.state.section import apply, extract
from headgate.state.table import BinTable

_OPERATORS: tuple[Operator, ...] = (
    HistoryWindow(4, ["mean", "std"], of="x"),
    Aggregate(n=agg.count(), total=agg.sum("x"), top=agg.max("x")),
)

_MODULES = (
    "headgate.flow.backlog",
    "headgate.stage.task",
    "headgate.spark.direct.job",
    "headgate.sources.files",
    "headgate.sources.parquet_format",
    "headgate.streams.sql_step",
    "headgate.streams.steps",
    "headgate.kernels.kernel",
    "headgate.operators.dedup",
    "headgate.operators.hash_join",
    "headgate.operators.sessions",
    "headgate.operators.stream_join",
    "headgate.operators.topk",
    "headgate.operators.vectorised",
    "headgate.operators.windows",
    "headgate.routing.reshape",
    "headgate.testing.watches",
)
"""Other modules that a task may import; `import headgate` loads none of them."""


def preload(rows: int = 512, bins: int = 2) -> None:
    """Run the common operators once on a few rows, in plain memory, so that everything
    they need is loaded and compiled.
    """
    with _Hidden("pandas", "scipy"):
        _preload(rows, bins)


class _Hidden:
    """Packages that cannot be imported for a while. Arrow and numba import pandas and scipy on their first
    use, for functions that few tasks call; that takes most of a second. Whoever calls them imports them then.
    """

    def __init__(self, *packages: str) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Where a module is, for Python's import."""
        if name.partition(".")[0] in self._packages:
            raise ModuleNotFoundError(f"{name} is not loaded yet", name=name)

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *error: object) -> None:
        sys.meta_path.remove(self)
        # numba looks only once whether matrices can be multiplied.
        arrays = import_module("numba.np.arraymath")
        arrays._HAVE_BLAS = find_spec("scipy") is not None  # type: ignore[attr-defined]


def _preload(rows: int, bins: int) -> None:
    for module in _MODULES:
        import_module(module)
    users = np.arange(rows, dtype=np.int64) % (rows // 4)
    batch = pa.RecordBatch.from_pydict({"user": users, "x": users.astype(np.float64)})
    key = KeySpec(("user",), (pa.int64(),))
    for operator in _OPERATORS:
        bound = operator.bind(key, batch.schema)
        combined = bound.combined()
        if combined is not None:
            rows, hashes = combined.partial(batch, key_hashes(batch, key))
        else:
            rows, hashes = batch, key_hashes(batch, key)
        bound = combined or bound
        tables = [BinTable.create(bound.layout) for _ in range(bins)]
        run = ChannelRun(bound, lambda b, tables=tables: tables[b], bins)  # type: ignore[misc]
        run.feed(rows, hashes, (hashes % bins).astype(np.int32))
        run.finish()
        for table in tables:
            whole = extract(table, table.live, whole=True)
            apply(BinTable.create(bound.layout), whole)


if __name__ == "__main__":
    preload()
    gc.freeze()  # otherwise the collector would write to, and so copy, every page that workers share
    run_worker_daemon()
