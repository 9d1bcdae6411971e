"""`headgate bench direct`: direct streams, `foreachBatch` and native Spark over the same files.

All are durable and write Parquet; native runs on the faster of its state stores. The ways of a work
follow one another in one session on two cores, and in every second round in the opposite order.
Answers are compared with native's. Where native's `transformWithState` is too slow for our batches,
it gets smaller ones, and all are compared on these.

Without `quick`, the results of each part are written to `benchmarks/results/direct-PART.json` if
there is a folder `benchmarks`; `python -m headgate_lab.bench.direct.merge` puts them together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from headgate.cli.console import Tick, unknown
from headgate_lab.bench.direct.parts import prepare, run_plans
from headgate_lab.bench.direct.report import Found, found, reported
from headgate_lab.bench.direct.works import PARTS, QUICK, Sizes
from headgate_lab.bench.history import check_twin
from headgate_lab.bench.job import workspace
from headgate_lab.bench.result import Report, machine

RESULTS = Path("benchmarks/results")


def run(*, quick: bool, repeat: int, progress: Tick, only: Sequence[str] = ()) -> Report:
    """Measure all parts, or `only` some, and compare with the goals."""
    for part in only:
        if part not in PARTS:
            raise unknown("part of bench direct", part, tuple(PARTS))
    parts = [part for part in PARTS if not only or part in only]
    if {"kernel", "history"} & set(parts):
        check_twin()
    where, founds = machine(), []
    steps = [parts] if quick else [[part] for part in parts]
    for at, step in enumerate(steps):

        def within(text: str, share: float, *, at: int = at) -> None:
            progress(text, (at + share) / len(steps))

        begun = machine()
        mine = _measure(step, quick=quick, repeat=repeat, progress=within)
        founds += mine
        if not quick:
            _keep(step[0], reported(mine, begun, quick=False))
    return reported(founds, where, quick=quick)


def _measure(parts: list[str], *, quick: bool, repeat: int, progress: Tick) -> list[Found]:
    sizes = QUICK if quick else Sizes()
    with workspace() as work:
        progress(f"writing the input of {', '.join(parts)}", 0.0)
        plans = [prepare(part, sizes, work) for part in parts]
        times, same = run_plans(plans, repeat=repeat, together=quick, work=work, progress=progress)
        return [found(plan, times, same, sizes) for plan in plans]


def _keep(part: str, report: Report) -> None:
    if RESULTS.parent.is_dir():
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps(report.as_json(), indent=1, allow_nan=False)
        (RESULTS / f"direct-{part}.json").write_text(text + "\n", encoding="utf-8")
