"""`headgate bench history`: per key the last 100 rows, and mean and std for every row, against
native `transformWithState` in Python.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from headgate.cli.console import Tick
from headgate.errors import ConfigError
from headgate_lab.bench import data
from headgate_lab.bench.job import Job, workspace
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import median, run_rounds

OURS, NATIVE = "headgate", "native transformWithState (Python rows, RocksDB)"


@dataclass(frozen=True)
class HistorySizes:
    """The sizes of a run. The native twin is slow, so it gets fewer rows, and its rate is that of
    its own steady batches.
    """

    rows: int = 500_000
    keys: int = 1_000_000
    batches: int = 20
    steady: int = 10
    native_rows: int = 50_000
    native_batches: int = 5
    native_steady: int = 3


QUICK = HistorySizes(20_000, 20_000, 4, 2, 1_000, 3, 2)


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and compare with the goal."""
    sizes = QUICK if quick else HistorySizes()
    check_twin()
    where = machine()
    with workspace() as work:
        progress("writing the input", 0.0)
        data.write(data.zipf(sizes.rows, sizes.batches, sizes.keys), work / "ours")
        data.write(data.zipf(sizes.native_rows, sizes.native_batches, sizes.keys), work / "native")
        groups = [
            [Job(OURS, "headgate", "history", str(work / "ours"), sizes.batches, "")],
            [
                Job(
                    NATIVE,
                    "native",
                    "history",
                    str(work / "native"),
                    sizes.native_batches,
                    "",
                    "rocksdb",
                    "noop",
                )
            ],
        ]
        steady = {OURS: sizes.steady, NATIVE: sizes.native_steady}
        times = run_rounds(groups, steady, repeat=repeat, work=work, progress=progress)
    value = 1e3 * sizes.rows / median(times[OURS])
    rival = 1e3 * sizes.native_rows / median(times[NATIVE])
    result = Result("history window", "rows/s", value, NATIVE, rival, times)
    goal = Goal("rows/s over native transformWithState in Python", 100.0, value / rival)
    return Report("history", (result,), (goal,), machine=where, quick=quick)


def check_twin() -> None:
    """Native transformWithState talks to its state store in protobuf, which pyspark doesn't bring along."""
    try:
        importlib.import_module("google.protobuf.descriptor")
    except ImportError as error:
        raise ConfigError("the native twin needs protobuf: pip install 'protobuf>=6.33,<7'") from error
