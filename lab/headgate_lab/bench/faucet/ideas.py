"""What the memory of a run depends on: the query behind a gate and without, each time with one thing changed.

A change of settings is made on both sides. Nothing is judged here: the goals are those of `gate`, whose settings are
not changed by what is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate_lab.bench.faucet.gate import NO_GATE, Query
from headgate_lab.bench.faucet.runs import FaucetSizes, Measured, Runs, beside
from headgate_lab.bench.result import Result

SPILL_ROWS = 100_000
BOTH_SIDES: Mapping[str, Mapping[str, Any]] = {
    f"sorts that spill at {SPILL_ROWS:,} rows": {
        "conf": {"spark.shuffle.spill.numElementsForceSpillThreshold": str(SPILL_ROWS)}
    },
    "two arenas of malloc": {"variables": {"MALLOC_ARENA_MAX": "2"}},
}
"""Where the JVM's memory may come from: rows that it sorts, and room that native code does not give back."""
JOBS = 2 * len(BOTH_SIDES) + 1
FIGURES = (("time", "s", "seconds"), ("memory", "MB", "all"), ("the JVM's memory", "MB", "jvm"))


def measure(runs: Runs, sizes: FaucetSizes, repeat: int) -> Measured:
    """Measure each idea; waves of half the size need no rival of their own."""
    query, results = Query.prepared(runs.work, sizes), []
    for idea, changes in BOTH_SIDES.items():
        ours, theirs = (
            [query.run(runs, batch, **changes) for _ in range(repeat)] for batch in (sizes.batch, None)
        )
        results += [
            beside(f"{idea}: {what}", unit, kind, ours, NO_GATE, theirs) for what, unit, kind in FIGURES
        ]
    half = [query.run(runs, sizes.batch // 2) for _ in range(repeat)]
    for what, unit, kind in FIGURES:
        samples = [run[kind] for run in half]
        middle = sorted(samples)[len(samples) // 2]
        results.append(Result(f"waves of half the size: {what}", unit, middle, None, None, {what: samples}))
    return Measured(results)
