"""Runs jobs in rounds whose order alternates: if the machine becomes slower or faster, it affects
all systems alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headgate.cli.console import Tick
from headgate_lab.bench.job import Job, run_jobs

Times = dict[str, list[float]]


def run_rounds(
    groups: Sequence[Sequence[Job]], steady: dict[str, int], *, repeat: int, work: Path, progress: Tick
) -> Times:
    """Steady trigger times in ms by job name, over all rounds.

    The jobs of a group share a session; every group gets a fresh process. Of each job the last
    `steady[name]` batches count.
    """
    total = repeat * sum(job.batches for group in groups for job in group)
    done = 0
    times: Times = {job.name: [] for group in groups for job in group}
    for number in range(repeat):
        for group in list(groups) if number % 2 == 0 else list(reversed(groups)):
            placed = [replace(job, work=str(folder_of(job.name, work, number))) for job in group]
            base = done
            ahead = {job.name: sum(j.batches for j in placed[:at]) for at, job in enumerate(placed)}

            def tick(job: Job, batch: int, *, base: int = base, ahead: dict[str, int] = ahead) -> None:
                said = f"{job.name}: batch {batch} of {job.batches}" if batch else f"{job.name}: starting"
                progress(said, (base + ahead[job.name] + batch) / total)

            Path(placed[0].work).mkdir(parents=True)
            for name, measured in run_jobs(placed, tick).items():
                times[name] += measured[-steady[name] :]
            done += sum(job.batches for job in group)
    return times


def folder_of(name: str, work: Path, number: int = 0) -> Path:
    """Where a job of this name works in a round."""
    return work / f"round-{number}" / "".join(c if c.isalnum() else "-" for c in name)


def median(values: Sequence[float]) -> float:
    """The median."""
    return float(statistics.median(values))
