"""`headgate bench kernel`: a user's function per row (a z-score), against native `transformWithState` in Python.

The first batch after a start is shown as well, with nothing of the kernel compiled, and with what an earlier run has left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headgate.bench import data
from headgate.bench.history import check_twin
from headgate.bench.job import Job, workspace
from headgate.bench.result import Goal, Report, Result, machine
from headgate.bench.rounds import median, run_rounds
from headgate.commands.console import Tick

OURS, AGAIN = "headgate", "headgate, started again"
NATIVE = "native transformWithState (Python rows, RocksDB)"


@dataclass(frozen=True)
class Sizes:
    """How much. The native twin is slow, so it gets fewer rows, and its rate is that of its own steady batches."""

    rows: int = 2_000_000
    keys: int = 1_000_000
    batches: int = 5
    steady: int = 3
    native_rows: int = 50_000
    native_batches: int = 5
    native_steady: int = 3


QUICK = Sizes(20_000, 20_000, 4, 2, 1_000, 3, 2)


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and set it beside the goals."""
    sizes = QUICK if quick else Sizes()
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
    rounds = [times[OURS][at : at + sizes.batches] for at in range(0, repeat * sizes.batches, sizes.batches)]
    steady = [time for one in rounds for time in one[-sizes.steady :]]
    first, later = 1e-3 * rounds[0][0], 1e-3 * times[AGAIN][0]
    value = 1e3 * sizes.rows / median(steady)
    rival = 1e3 * sizes.native_rows / median(times[NATIVE])
    results = (
        Result("z-score kernel", "rows/s", value, NATIVE, rival, {OURS: steady, NATIVE: times[NATIVE]}),
        Result("first batch, kernel not compiled yet", "s", first, None, None, {}),
        Result("first batch after a restart", "s", later, None, None, {}),
    )
    goals = (
        Goal("rows/s in steady state", 1e6, value, unit=""),
        Goal("rows/s over native transformWithState in Python", 100.0, value / rival),
        Goal("first batch, kernel not compiled yet", 5.0, first, at_most=True, unit=" s"),
        Goal("first batch after a restart", 5.0, later, at_most=True, unit=" s"),
    )
    return Report("kernel", results, goals, machine=where, quick=quick)


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
