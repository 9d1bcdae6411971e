"""`headgate bench operators`: session windows, dedup and a join of two streams against native Spark's, under Zipf(1.0).

Both write Parquet and are durable. The native twin runs on both of its state stores, and the faster one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate.bench import data
from headgate.bench.aggregate import STORES
from headgate.bench.job import Job, workspace
from headgate.bench.result import Goal, Report, Result, machine
from headgate.bench.rounds import Times, median, run_rounds
from headgate.commands.console import Tick

GOALS = {"sessions": 3.0, "dedup": 3.0, "join": 2.0}
TITLES = {"sessions": "session windows", "dedup": "dedup within the watermark", "join": "join of two streams"}


@dataclass(frozen=True)
class Sizes:
    """Rows a batch (of each stream, for the join); the last `steady` batches of each job count."""

    rows: int = 300_000
    join_rows: int = 100_000
    keys: int = 1_000_000
    batches: int = 10
    steady: int = 5
    stores: tuple[str, ...] = tuple(STORES)

    def of(self, operator: str) -> int:
        """Rows that a batch of this operator's job has."""
        return 2 * self.join_rows if operator == "join" else self.rows


QUICK = Sizes(20_000, 10_000, 20_000, 3, 2, ("hdfs",))


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and set it beside the goals."""
    sizes = QUICK if quick else Sizes()
    where = machine()
    with workspace() as work:
        progress("writing the input", 0.0)
        groups = _jobs(sizes, work)
        steady = {job.name: sizes.steady for group in groups for job in group}
        times = run_rounds(groups, steady, repeat=repeat, work=work, progress=progress)
    return report(times, sizes, where=where, quick=quick)


def _jobs(sizes: Sizes, work: Path) -> list[list[Job]]:
    """One session for headgate's jobs, and one for each native store's."""
    one, left, right = work / "one", work / "left", work / "right"
    data.write(data.timed(data.zipf(sizes.rows, sizes.batches, sizes.keys)), one)
    for seed, folder in ((6, left), (7, right)):
        rows = data.zipf(sizes.join_rows, sizes.batches, sizes.keys, seed=seed)
        data.write(data.timed(rows, seed=seed), folder)

    def job(operator: str, system: str, store: str = "") -> Job:
        source, other = (str(left), str(right)) if operator == "join" else (str(one), "")
        return Job(
            _name(operator, store), system, operator, source, sizes.batches, "", store=store, other=other
        )

    groups = [[job(operator, "headgate") for operator in GOALS]]
    return groups + [[job(operator, "native", store) for operator in GOALS] for store in sizes.stores]


def _name(operator: str, store: str = "") -> str:
    return f"{operator}, native {STORES[store]}" if store else f"{operator}, headgate"


def report(times: Times, sizes: Sizes, *, where: dict[str, object], quick: bool) -> Report:
    """Ratios and goals from the steady times."""
    results, goals = [], []
    for operator, goal in GOALS.items():
        ours = times[_name(operator)]
        rate = 1e3 * sizes.of(operator) / median(ours)
        rivals = {}
        for store in sizes.stores:
            name = _name(operator, store)
            rivals[store] = 1e3 * sizes.of(operator) / median(times[name])
            samples = {_name(operator): ours, name: times[name]}
            results.append(Result(TITLES[operator], "rows/s", rate, name, rivals[store], samples))
        goals.append(
            Goal(
                f"{TITLES[operator]}: rows/s over the faster native store's",
                goal,
                rate / max(rivals.values()),
            )
        )
    return Report("operators", tuple(results), tuple(goals), machine=where, quick=quick)
