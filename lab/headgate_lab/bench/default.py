"""`headgate bench default`: what the default policy costs on balanced streams, beside static routing.

Keys are uniform, so there is nothing to balance: what differs is the work of the policy and of its report, and plans that it
should not have made. Both run the same stage on the same rows, in rounds whose order alternates.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate.cli.console import Tick
from headgate_lab.bench import data
from headgate_lab.bench.job import Job, workspace
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import Times, median, run_rounds

OPERATORS = ("aggregate", "history", "zscore")
DEAREST = 1.05
"""A few percent."""


@dataclass(frozen=True)
class DefaultSizes:
    """The sizes of a run. The last `steady` batches of each job count."""

    rows: int = 300_000
    keys: int = 200_000
    batches: int = 14
    steady: int = 10
    small_rows: int = 1_000
    small_batches: int = 30
    small_steady: int = 20


QUICK = DefaultSizes(20_000, 5_000, 3, 2, 1_000, 4, 2)


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and compare with the goal."""
    sizes, where = QUICK if quick else DefaultSizes(), machine()
    with workspace() as work:
        progress("writing the input", 0.0)
        groups, steady = _jobs(sizes, work)
        times = run_rounds(groups, steady, repeat=repeat, work=work, progress=progress)
    return report(times, sizes, where=where, quick=quick)


def _jobs(sizes: DefaultSizes, work: Path) -> tuple[list[list[Job]], dict[str, int]]:
    big, small = work / "big", work / "small"
    data.write(data.uniform(sizes.rows, sizes.batches, sizes.keys), big)
    data.write(data.uniform(sizes.small_rows, sizes.small_batches, sizes.keys, seed=4), small)
    groups: list[list[Job]] = []
    steady: dict[str, int] = {}
    for what, source, batches, counted in _cases(sizes, big, small):
        pair = []
        for policy in ("", "static"):
            operator = what.partition(",")[0]
            job = Job(name_of(what, policy), "headgate", operator, str(source), batches, "", policy=policy)
            steady[job.name] = counted
            pair.append([job])
        groups += pair
    return groups, steady


def _cases(sizes: DefaultSizes, big: Path, small: Path) -> list[tuple[str, Path, int, int]]:
    cases = [(operator, big, sizes.batches, sizes.steady) for operator in OPERATORS]
    return [*cases, ("aggregate, small batches", small, sizes.small_batches, sizes.small_steady)]


def name_of(what: str, policy: str) -> str:
    """What a job is called."""
    return f"{what}, {policy or 'the default policy'}"


def report(times: Times, sizes: DefaultSizes, *, where: dict[str, object], quick: bool) -> Report:
    """Times of a batch, and their ratio."""
    results, goals = [], []
    for what in (*OPERATORS, "aggregate, small batches"):
        ours, rival = name_of(what, ""), name_of(what, "static")
        samples = {ours: times[ours], rival: times[rival]}
        results.append(
            Result(f"batch of {what}", "ms", median(times[ours]), rival, median(times[rival]), samples)
        )
        ratio = median(times[ours]) / median(times[rival])
        goals.append(Goal(f"{what}: batch time over static routing's", DEAREST, ratio, at_most=True))
    return Report("default", tuple(results), tuple(goals), machine=where, quick=quick)
