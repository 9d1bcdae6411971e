"""`headgate bench operators`: windows, dedup, lists of the largest and a join of two streams
against native Spark's, under Zipf(1.0).

Both write Parquet and are durable. The native twin runs on the faster of its state stores.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate.cli.console import Tick
from headgate_lab.bench import data, versus
from headgate_lab.bench.job import Job, workspace
from headgate_lab.bench.result import Goal, Report, machine
from headgate_lab.bench.rounds import Times, run_rounds
from headgate_lab.bench.versus import job_name

GOALS = {"sessions": 3.0, "dedup": 3.0, "join": 2.0}
TITLES = {
    "sessions": "session windows",
    "dedup": "dedup within the watermark",
    "join": "join of two streams",
    "tumbling": "tumbling windows",
    "hopping": "hopping windows, two for a row",
    "topk": "the 3 largest of each key",
}


@dataclass(frozen=True)
class OperatorSizes:
    """Rows a batch (of each stream, for the join); the last `steady` batches of each job count.

    The join is small for the native twin's sake: it compares all pairs of a key, and takes a minute
    for a batch of 100,000 rows. RocksDB with changelog is omitted, since it took three to six times
    as long as the HDFS-backed store here.
    """

    rows: int = 1_000_000
    join_rows: int = 30_000
    keys: int = 1_000_000
    batches: int = 5
    steady: int = 3
    stores: tuple[str, ...] = ("hdfs",)

    def of(self, operator: str) -> int:
        """Rows that a batch of this operator's job has."""
        return 2 * self.join_rows if operator == "join" else self.rows


QUICK = OperatorSizes(20_000, 10_000, 20_000, 3, 2)


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and compare with the goals."""
    sizes = QUICK if quick else OperatorSizes()
    where = machine()
    with workspace() as work:
        progress("writing the input", 0.0)
        groups = _jobs(sizes, work)
        steady = {job.name: sizes.steady for group in groups for job in group}
        times = run_rounds(groups, steady, repeat=repeat, work=work, progress=progress)
    return report(times, sizes, where=where, quick=quick)


def _jobs(sizes: OperatorSizes, work: Path) -> list[list[Job]]:
    """One session for headgate's jobs, and one for each native store's."""
    single, left, right = work / "one", work / "left", work / "right"
    data.write(data.timed(data.zipf(sizes.rows, sizes.batches, sizes.keys)), single)
    for seed, folder in ((6, left), (7, right)):
        rows = data.zipf(sizes.join_rows, sizes.batches, sizes.keys, seed=seed)
        data.write(data.timed(rows, seed=seed), folder)

    def job(operator: str, system: str, store: str = "") -> Job:
        source, other = (str(left), str(right)) if operator == "join" else (str(single), "")
        return Job(
            job_name(operator, store), system, operator, source, sizes.batches, "", store=store, other=other
        )

    groups = [[job(operator, "headgate") for operator in TITLES]]
    return groups + [[job(operator, "native", store) for operator in TITLES] for store in sizes.stores]


def report(times: Times, sizes: OperatorSizes, *, where: dict[str, object], quick: bool) -> Report:
    """Ratios and goals from the steady times."""
    results = {
        operator: versus.result(operator, title, sizes.of(operator), times, sizes.stores)
        for operator, title in TITLES.items()
    }
    goals = [
        Goal(f"{TITLES[operator]}: rows/s over native's", goal, results[operator].ratio or 0)
        for operator, goal in GOALS.items()
    ]
    shown = versus.picture(results)
    return Report(
        "operators", tuple(results.values()), tuple(goals), machine=where, quick=quick, picture=shown
    )
