"""Placement of queries on servers: the default beside every other rule on a family of workloads (`family`), and its speed."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.cli.console import Tick
from headgate.errors import ConfigError
from headgate_lab.bench.placement import judge, speed
from headgate_lab.bench.result import Report, machine

PARTS = ("family", "speed")
FIRST_SEED = 101


def run(
    *, quick: bool, repeat: int, progress: Tick, only: Sequence[str] = (), seed: int = FIRST_SEED
) -> Report:
    """Run both parts, or the one that is asked for."""
    for part in only:
        if part not in PARTS:
            raise ConfigError(f"bench placement has no part {part!r}: the parts are {', '.join(PARTS)}")
    where, reports = machine(), list[Report]()
    if not only or "family" in only:
        reports.append(judge.run(quick=quick, progress=progress, seed=seed))
    if not only or "speed" in only:
        reports.append(speed.run(quick=quick, repeat=repeat, progress=progress))
    results = tuple(result for report in reports for result in report.results)
    goals = tuple(goal for report in reports for goal in report.goals)
    return Report("placement", results, goals, machine=where, quick=quick)
