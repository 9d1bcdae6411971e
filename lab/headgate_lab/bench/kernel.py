"""`headgate bench kernel`: a user's function per row (a z-score), against native
`transformWithState` in Python.

The first batch after a start is shown as well, with nothing of the kernel compiled, and with what
an earlier run has left. So is the kernel in plain memory, without Spark and files, as rows a second
of one core's time: compiled, and interpreted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate.cli.console import Tick
from headgate.kernels.bound_kernel import BoundKernel
from headgate.kernels.kernel import Kernel, kernel
from headgate.operators.channel_run import ChannelRun
from headgate.routing.key_hash import hash_ints
from headgate.state.keys import KeySpec
from headgate.state.table import BinTable
from headgate_lab.bench import data
from headgate_lab.bench.history import check_twin
from headgate_lab.bench.job import Job, workspace
from headgate_lab.bench.ours import zscore
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import median, run_rounds

OURS, AGAIN = "headgate", "headgate, started again"
NATIVE = "native transformWithState (Python rows, RocksDB)"


@dataclass(frozen=True)
class KernelSizes:
    """The sizes of a run. The native twin is slow, so it gets fewer rows, and its rate is that of
    its own steady batches.
    """

    rows: int = 2_000_000
    keys: int = 1_000_000
    batches: int = 5
    steady: int = 3
    native_rows: int = 50_000
    native_batches: int = 3
    native_steady: int = 2


BINS = 64
QUICK = KernelSizes(20_000, 20_000, 4, 2, 1_000, 3, 2)


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and compare with the goals."""
    sizes = QUICK if quick else KernelSizes()
    check_twin()
    where = machine()
    with workspace() as work, _empty_cache(work / "cache"):
        progress("writing the input", 0.0)
        data.write(data.zipf(sizes.rows, sizes.batches, sizes.keys), work / "ours")
        data.write(data.zipf(sizes.rows, 1, sizes.keys), work / "again")
        data.write(data.zipf(sizes.native_rows, sizes.native_batches, sizes.keys), work / "native")
        ours = Job(OURS, "headgate", "zscore", str(work / "ours"), sizes.batches, "")
        again = Job(AGAIN, "headgate", "zscore", str(work / "again"), 1, "")
        native = Job(
            NATIVE, "native", "zscore", str(work / "native"), sizes.native_batches, "", "rocksdb", "noop"
        )
        all_of = {OURS: sizes.batches, AGAIN: 1, NATIVE: sizes.native_steady}
        times = run_rounds([[ours], [again], [native]], all_of, repeat=repeat, work=work, progress=progress)
    raw = _in_memory(zscore, sizes.rows // 2, sizes.keys)
    slow = _in_memory(
        kernel(**(zscore.options | {"compiled": False}))(zscore.function), QUICK.rows, QUICK.keys
    )
    rounds = [times[OURS][at : at + sizes.batches] for at in range(0, repeat * sizes.batches, sizes.batches)]
    steady = [time for round_times in rounds for time in round_times[-sizes.steady :]]
    first, later = 1e-3 * rounds[0][0], 1e-3 * times[AGAIN][0]
    value = 1e3 * sizes.rows / median(steady)
    rival = 1e3 * sizes.native_rows / median(times[NATIVE])
    results = (
        Result("z-score kernel", "rows/s", value, NATIVE, rival, {OURS: steady, NATIVE: times[NATIVE]}),
        Result("in plain memory, compiled, key lookup included", "rows/s of a core", raw, None, None, {}),
        Result("in plain memory, interpreted", "rows/s of a core", slow, None, None, {}),
        Result("first batch, kernel not compiled yet", "s", first, None, None, {}),
        Result("first batch after a restart", "s", later, None, None, {}),
    )
    goals = (
        Goal("rows/s in steady state", 1e6, value, unit=""),
        Goal("rows/s over native transformWithState in Python", 100.0, value / rival),
        Goal("first batch, kernel not compiled yet", 5.0, first, at_most=True, unit=" s"),
        Goal("first batch after a restart", 5.0, later, at_most=True, unit=" s"),
    )
    rates = {
        "headgate on Spark": value,
        "without Spark, one core": raw,
        "the same, interpreted": slow,
        "native transformWithState": rival,
    }
    shown = picture(rates)
    return Report("kernel", results, goals, machine=where, quick=quick, picture=shown)


def _in_memory(operator: Kernel, rows: int, keys: int, batches: int = 4) -> float:
    """Rows a second of one core, in the last of some batches."""
    key, bound = KeySpec(("user",), (pa.int64(),)), None
    tables: dict[int, BinTable] = {}
    seconds = 0.0
    for table in data.zipf(rows, batches, keys):
        (batch,) = table.combine_chunks().to_batches()
        bound = bound or operator.bind(key, batch.schema)
        hashes = hash_ints(batch.column("user").to_numpy())
        opened = partial(_opened, tables, bound)
        began = time.thread_time()
        run = ChannelRun(bound, opened, BINS)
        run.feed(batch, hashes, (hashes % BINS).astype(np.int32))
        run.finish()
        seconds = time.thread_time() - began
    return rows / seconds


def _opened(tables: dict[int, BinTable], bound: BoundKernel, b: int) -> BinTable:
    return tables.setdefault(b, BinTable.create(bound.layout))


def picture(rates: Mapping[str, float]) -> Figure:
    """Rows a second, on a scale of powers of ten."""
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots()
    names = list(rates)[::-1]
    bars = axes.barh(
        names, [rates[n] for n in names], color=[pictures.GREY, pictures.PALE, pictures.SKY, pictures.BLUE]
    )
    axes.bar_label(bars, [f" {rates[n]:,.0f}" for n in names])
    axes.set_xscale("log")
    axes.set_xlim(0.2 * min(rates.values()), 8 * max(rates.values()))
    axes.set_xlabel("rows a second (z-score per key, 1M keys, Zipf(1.0))")
    pictures.plain(axes)
    axes.set_axisbelow(True)
    figure.suptitle("A function for each row, compiled and native", fontsize=11, x=0.01, ha="left")
    return figure


@contextmanager
def _empty_cache(folder: Path) -> Iterator[None]:
    """Kernels are compiled anew, and what they compile to is kept here."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before
