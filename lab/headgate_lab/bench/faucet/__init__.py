"""`headgate bench faucet`: a step that explodes, behind a gate and not (`gate`), waves with a slow task each
(`stragglers`), and cliques beside plain Spark SQL (`cliques`). The part `ideas` repeats the first with one thing
changed, to see what memory depends on; it runs only if it is asked for (`--only ideas`), since it takes as long as the rest.

Every run has a process and a Spark of its own (`runs`):
`headgate bench faucet --json > benchmarks/results/faucet.json`, then `page` writes the tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.cli.console import Tick, unknown
from headgate_lab.bench.faucet import cliques, gate, ideas, stragglers
from headgate_lab.bench.faucet.runs import FaucetSizes, Measured, Runs
from headgate_lab.bench.job import workspace
from headgate_lab.bench.result import Report, machine

PARTS = {
    "gate": gate.measure,
    "ideas": ideas.measure,
    "stragglers": stragglers.measure,
    "cliques": cliques.measure,
}
ON_REQUEST = ("ideas",)
JOBS = {"gate": 4, "ideas": ideas.JOBS, "stragglers": 2, "cliques": 3}


def run(*, quick: bool, repeat: int, progress: Tick, only: Sequence[str] = ()) -> Report:
    """Measure, and compare with the goals; `only` chooses among the parts."""
    where, sizes, parts = machine(), FaucetSizes.quick() if quick else FaucetSizes(), chosen_parts(only)
    found = Measured()
    with workspace() as work:
        runs = Runs(work, progress, repeat * sum(JOBS[part] for part in parts))
        for part in parts:
            found += PARTS[part](runs, sizes, repeat)
    results, goals = tuple(found.results), tuple(found.goals)
    return Report("faucet", results, goals, machine=where, quick=quick, picture=found.picture)


def chosen_parts(only: Sequence[str]) -> tuple[str, ...]:
    """The parts to run, in their order."""
    for part in only:
        if part not in PARTS:
            raise unknown("part of bench faucet", part, tuple(PARTS))
    return tuple(part for part in PARTS if (part in only if only else part not in ON_REQUEST))
