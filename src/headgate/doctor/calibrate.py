"""`headgate doctor --calibrate`: the constants of the cost model, measured on this machine.

Direct streams of each kind run in batches of several sizes, with few keys and with many, and with one
hot key that nobody moves. The later batches of each give the samples that `costs.fitted` fits.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headgate.doctor.costs import Costs, Sample, fitted
from headgate.kernels.kernel import kernel
from headgate.operators import agg
from headgate.operators.windows import session, tumbling
from headgate.stage import sinks
from headgate.stage.settings import DEFAULT_POLICY, Routing

if TYPE_CHECKING:
    from headgate.spark.direct.stream import Keyed, Stream

Tick = Callable[[str, float], None]
SCHEMA = "user long, amount double, time timestamp"
WINDOW_S, GAP_S, DELAY, WITHIN = 10, 5, "20 seconds", "100 milliseconds"
BATCH_S = 60
START_S = 1_700_000_000


@dataclass(frozen=True)
class Shape:
    """Batches of so many rows whose keys are drawn from so many; `hot` is the share of one key."""

    rows: int
    keys: int
    hot: float = 0.0


SHAPES = (
    Shape(8_000, 6_000),
    Shape(120_000, 4_000),
    Shape(120_000, 100_000),
    Shape(320_000, 60_000),
    Shape(120_000, 20_000, 0.5),
)
QUICK = (Shape(2_000, 500), Shape(10_000, 500), Shape(10_000, 8_000), Shape(10_000, 500, 0.5))
BATCHES, COUNTED, WARM_UP = 8, 4, 25


@kernel(state={"n": int, "mean": float, "m2": float}, output={"z": float})
def deviation(state: Any, row: Any) -> Any:
    """How far a row is from the mean of its key so far, in standard deviations."""
    state.n += 1
    d = row.amount - state.mean
    state.mean += d / state.n
    state.m2 += d * (row.amount - state.mean)
    return d / sqrt(state.m2 / state.n) if state.n > 1 else 0.0


def _sums() -> dict[str, Any]:
    return {"n": agg.count(), "total": agg.sum("amount"), "top": agg.max("amount")}


def _joined(rows: Keyed, other: Stream) -> Stream:
    return rows.join(other.key_by("user"), time="time", after=WITHIN, delay=DELAY)


STREAMS: dict[str, Callable[[Any, Any], Any]] = {
    "aggregate": lambda rows, _: rows.aggregate(**_sums()),
    "windows": lambda rows, _: rows.windows(
        tumbling(f"{WINDOW_S} seconds"), on="time", delay=DELAY, **_sums()
    ),
    "sessions": lambda rows, _: rows.windows(session(f"{GAP_S} seconds"), on="time", delay=DELAY, **_sums()),
    "dedup": lambda rows, _: rows.dedup(on="time", delay=DELAY),
    "join": _joined,
    "kernel": lambda rows, _: rows.apply(deviation),
}


def calibrate(cores: int, progress: Tick, *, quick: bool = False) -> Costs:
    """Measure on a Spark session of its own."""
    from headgate.spark.local import local_spark

    with tempfile.TemporaryDirectory(prefix="headgate-doctor-") as folder:
        work = Path(folder)
        with local_spark(cores, work / "spark.log") as spark:
            return measured(spark, cores, work, progress, quick=quick)


def measured(spark: Any, cores: int, work: Path, progress: Tick, *, quick: bool = False) -> Costs:
    """Measure in a session that is there, in an empty folder."""
    found = samples(spark, cores, work, progress, quick=quick)
    return Costs({kind: fitted(mine, cores) for kind, mine in found.items()}, machine_name(cores), here=True)


def samples(
    spark: Any, cores: int, work: Path, progress: Tick, *, quick: bool = False
) -> dict[str, list[Sample]]:
    """The batches that count, by kind of operator."""
    shapes = QUICK if quick else SHAPES
    batches = 3 if quick else BATCHES
    progress("writing rows", 0.0)
    inputs = [_Input(work / f"shape-{at}", shape, batches, seed=at) for at, shape in enumerate(shapes)]
    if not quick:
        warm = _Input(work / "warm-up", Shape(20_000, 8_000), WARM_UP, seed=99)
        for kind in STREAMS:
            progress(f"{kind}: warming up", 0.02)
            _run(spark, kind, warm, cores, work / f"warm-up-{kind}")
    found: dict[str, list[Sample]] = {kind: [] for kind in STREAMS}
    steps = len(STREAMS) * len(inputs)
    for number, kind in enumerate(STREAMS):
        for at, one in enumerate(inputs):
            if kind == "join" and one.shape.hot:  # every row of the key would match many
                continue
            progress(
                f"{kind}: batches of {one.shape.rows:,} rows",
                0.05 + 0.95 * (number * len(inputs) + at) / steps,
            )
            found[kind] += _run(spark, kind, one, cores, work / f"{kind}-{at}")
    return found


def machine_name(cores: int) -> str:
    """What the constants were measured on."""
    return f"{platform.system()} {platform.machine()}, {cores} of {os.cpu_count()} cores"


class _Input:
    """Two streams of one shape: files, and what each batch touches."""

    def __init__(self, folder: Path, shape: Shape, batches: int, *, seed: int) -> None:
        self.shape, self.folder = shape, folder
        rng = np.random.default_rng(seed)
        self.batches = []
        for side in ("left", "right"):
            (folder / side).mkdir(parents=True)
            for number in range(batches):
                users = rng.integers(0, shape.keys, shape.rows) * 2_654_435_761 % (1 << 40)
                if shape.hot:
                    users[rng.random(shape.rows) < shape.hot] = 7
                even = np.linspace(0, BATCH_S, shape.rows, endpoint=False)
                times = ((START_S + number * BATCH_S + even) * 1e6).astype(np.int64)
                _write(folder / side, number, users, times, rng)
                if side == "left":
                    self.batches.append((users, times))


def _write(
    folder: Path, number: int, users: NDArray[np.int64], times: NDArray[np.int64], rng: np.random.Generator
) -> None:
    time = pa.array(times).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table({"user": users, "amount": rng.random(len(users)) * 100, "time": time})
    half = -(-len(users) // 2)
    for part in range(2):
        file = folder / f"batch-{number:05d}-{part}.parquet"
        pq.write_table(table.slice(part * half, half), file)
        when = START_S + 10 * number + part
        os.utime(file, (when, when))


def _touched(kind: str, users: NDArray[np.int64], times: NDArray[np.int64]) -> int | None:
    """How many rows of state a batch touches; None if that is what it emits."""
    if kind in ("dedup", "join"):
        return None
    if kind == "windows":
        return len(np.unique(users * 1024 + times // (WINDOW_S * 1_000_000) % 1024))
    if kind == "sessions":
        order = np.lexsort((times, users))
        u, t = users[order], times[order]
        return 1 + int(np.count_nonzero((np.diff(u) != 0) | (np.diff(t) > GAP_S * 1_000_000)))
    return len(np.unique(users))


def _run(spark: Any, kind: str, one: _Input, cores: int, work: Path) -> list[Sample]:
    """The samples of the later batches of one stream."""
    from headgate.spark.direct.read import read

    def stream(side: str) -> Stream:
        return read(spark).files(str(one.folder / side), schema=SCHEMA, format="parquet")

    routing = Routing(channels=cores, policy="static" if one.shape.hot else DEFAULT_POLICY)
    keyed = stream("left").key_by("user", routing=routing)
    results = STREAMS[kind](keyed, stream("right"))
    written = results.write(sinks.Parquet(str(work / "out")))
    query = written.start(str(work / "checkpoint"), available_now=True, max_rows=one.shape.rows)
    query.await_end()
    return list(_samples(kind, one, query))


def _samples(kind: str, one: _Input, query: Any) -> Iterator[Sample]:
    reports = {entry.report.batch: entry.report for entry in query.journal()[0]}
    full = [p for p in query.progress if p.rows >= one.shape.rows]
    for progress in full[-min(COUNTED, -(-len(full) // 2)) :]:
        report = reports[progress.batch]
        touched = _touched(kind, *one.batches[progress.batch])
        if touched is None:
            touched = sum(channel.out_rows for channel in report.channels)
        yield Sample(progress.rows, touched, progress.batch_ms, report.row_imbalance)
