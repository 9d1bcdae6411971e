"""`headgate bench aggregate`: count, sum and max per key against native Spark; untouched state; the
fixed cost of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate.cli.console import Tick
from headgate_lab.bench import data
from headgate_lab.bench.job import Job, workspace
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import Times, median, run_rounds

SINKS = {"parquet": "Parquet sink", "noop": "no sink"}
STORES = {"hdfs": "HDFS-backed", "rocksdb": "RocksDB+changelog"}


@dataclass(frozen=True)
class AggregateSizes:
    """The sizes of a run. The last `steady` batches of each job count."""

    rows: int = 500_000
    keys: int = 1_000_000
    batches: int = 20
    steady: int = 10
    small_rows: int = 1_000
    small_batches: int = 30
    small_steady: int = 15
    few_keys: int = 100_000
    many_keys: int = 5_000_000
    preload_rows: int = 1_000_000
    state_rows: int = 100_000
    state_batches: int = 15
    state_steady: int = 10
    stores: tuple[str, ...] = tuple(STORES)


QUICK = AggregateSizes(20_000, 20_000, 3, 2, 1_000, 4, 2, 2_000, 50_000, 50_000, 10_000, 3, 2, ("hdfs",))


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and compare with the goals."""
    sizes = QUICK if quick else AggregateSizes()
    where = machine()
    with workspace() as work:
        progress("writing the input", 0.0)
        groups, steady = _jobs(sizes, work)
        if quick:  # a session each for headgate and for native, instead of one for each job
            merged = [job for group in groups for job in group]
            groups = [[j for j in merged if j.system == s] for s in ("headgate", "native")]
        times = run_rounds(groups, steady, repeat=repeat, work=work, progress=progress)
    return report(times, sizes, where=where, quick=quick)


def _jobs(sizes: AggregateSizes, work: Path) -> tuple[list[list[Job]], dict[str, int]]:
    big, small = work / "big", work / "small"
    data.write(data.zipf(sizes.rows, sizes.batches, sizes.keys), big)
    data.write(data.zipf(sizes.small_rows, sizes.small_batches, sizes.keys, seed=4), small)
    groups: list[list[Job]] = []
    steady: dict[str, int] = {}

    def add(
        name: str,
        system: str,
        source: Path,
        batches: int,
        counted: int,
        store: str = "",
        sink: str = "parquet",
    ) -> None:
        groups.append([Job(name, system, "aggregate", str(source), batches, "", store, sink)])
        steady[name] = counted

    add("headgate", "headgate", big, sizes.batches, sizes.steady)
    for sink in SINKS:
        for store in sizes.stores:
            add(native_name(store, sink), "native", big, sizes.batches, sizes.steady, store, sink)
    add("headgate, small batches", "headgate", small, sizes.small_batches, sizes.small_steady)
    for sink in SINKS:
        for store in sizes.stores:
            name = f"{native_name(store, sink)}, small batches"
            add(name, "native", small, sizes.small_batches, sizes.small_steady, store, sink)
    for keys in (sizes.few_keys, sizes.many_keys):
        folder = work / f"state-{keys}"
        rest = data.uniform(sizes.state_rows, sizes.state_batches, sizes.state_rows)
        batches = data.write((*data.untouched(keys, sizes.preload_rows), *rest), folder)
        add(state_name(keys), "headgate", folder, batches, sizes.state_steady)
    return groups, steady


def native_name(store: str, sink: str) -> str:
    return f"native {STORES[store]}, {SINKS[sink]}"


def state_name(keys: int) -> str:
    return f"headgate, {keys:,} untouched keys"


def report(times: Times, sizes: AggregateSizes, *, where: dict[str, object], quick: bool) -> Report:
    """Ratios and goals from the steady times."""
    results, goals = [], []

    def rate(name: str) -> float:
        return 1e3 * sizes.rows / median(times[name])

    for sink in SINKS:
        rivals = [native_name(store, sink) for store in sizes.stores]
        for rival in rivals:
            samples = {"headgate": times["headgate"], rival: times[rival]}
            results.append(Result("aggregate", "rows/s", rate("headgate"), rival, rate(rival), samples))
        best = max(rate(rival) for rival in rivals)
        goals.append(
            Goal(
                f"rows/s over the faster native store's, native with {SINKS[sink]}",
                3.0,
                rate("headgate") / best,
            )
        )
    few, many = times[state_name(sizes.few_keys)], times[state_name(sizes.many_keys)]
    results.append(
        Result(
            f"batch of {sizes.state_rows:,} rows beside {sizes.many_keys:,} untouched keys",
            "ms",
            median(many),
            state_name(sizes.few_keys),
            median(few),
            {state_name(sizes.many_keys): many, state_name(sizes.few_keys): few},
        )
    )
    name = f"batch time with {sizes.many_keys:,} untouched keys over that with {sizes.few_keys:,}"
    goals.append(Goal(name, 1.3, median(many) / median(few), at_most=True))
    ours = times["headgate, small batches"]
    for sink in SINKS:
        rivals = [f"{native_name(store, sink)}, small batches" for store in sizes.stores]
        for rival in rivals:
            samples = {"headgate, small batches": ours, rival: times[rival]}
            title = f"batch of {sizes.small_rows:,} rows"
            results.append(Result(title, "ms", median(ours), rival, median(times[rival]), samples))
        best = min(median(times[rival]) for rival in rivals)
        name = f"fixed cost of a {sizes.small_rows:,}-row batch over the faster native store's, native with {SINKS[sink]}"
        goals.append(Goal(name, 1.0, median(ours) / best, at_most=True))
    return Report("aggregate", tuple(results), tuple(goals), machine=where, quick=quick)
