"""Time and memory of one query at one size, behind a gate and without.

Both sides have the same settings and the same warm-up, which does a little of both. Then garbage is collected,
and what is in use is the session that idles. A run's memory is the most that the JVM and all Python processes
held at one moment, less that: the idle session is there with and without a query, and no gate changes it. What a
user has to pay for in all, the idle session included, stands beside it; so do the parts, the JVM by its own account
(`jvm_account`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate_lab.bench.faucet.edges import write_input
from headgate_lab.bench.faucet.runs import FaucetSizes, Figures, Measured, Runs, beside, graph, median
from headgate_lab.bench.result import Goal
from headgate_lab.graphs.count import count_cliques

WARM, TENTH, WHOLE = 0.02, 0.1, 1.0
NO_GATE = "no gate"
Cases = dict[tuple[bool, float], list[Figures]]
"""Runs, by whether there is a gate, and by the part of the input."""
PEAK = ("all that Spark held at its peak", "MB", "peak")
KINDS = {
    "all": "memory that the run took",
    "python": "of it the Python processes",
    "jvm": "of it the JVM",
    "live": "heap that is alive after a collection",
    "heap": "heap that the JVM holds",
    "buffers": "buffers outside the heap",
    "code": "classes and compiled code",
}
"""What grows during a run, from the whole to its parts. Peaks of parts need not be at the same moment."""


def measure(runs: Runs, sizes: FaucetSizes, repeat: int) -> Measured:
    """Measure the query and a tenth of it, and compare with the goals."""
    found, proposals, answer = _run(runs, sizes, repeat, (WHOLE, TENTH), sizes.heap)
    return judged(found, proposals, answer)


def measure_least_heap(runs: Runs, sizes: FaucetSizes, repeat: int) -> Measured:
    """The same with the smallest heap that Spark starts with, where garbage cannot pile up."""
    found, _, _ = _run(runs, sizes, repeat, (WHOLE,), sizes.least_heap)
    pair, least = (found[True, WHOLE], NO_GATE, found[False, WHOLE]), f"heap of {sizes.least_heap}: "
    figures = [("time", "s", "seconds"), *((name, "MB", kind) for kind, name in KINDS.items()), PEAK]
    return Measured([beside(f"{least}{name}", unit, kind, *pair) for name, unit, kind in figures])


def _run(
    runs: Runs, sizes: FaucetSizes, repeat: int, parts: Sequence[float], heap: str
) -> tuple[Cases, int, int]:
    """Run parts of the input behind a gate and without; also the number of proposals and of triangles."""
    folder, made = runs.work / f"graph-{heap}", graph(*sizes.graph)
    write_input(made, folder, (*parts, WARM))
    answer, proposals = count_cliques(made, 3), int(made.degrees[made.targets].sum())
    warm = [{"part": WARM, "batch": max(1, proposals // 1000)}, {"part": WARM, "batch": None}]
    common: dict[str, Any] = {"kind": "exploding", "graph": str(folder), "in_flight": 2, "warm": warm}
    cases: Cases = {(gated, part): [] for part in parts for gated in (True, False)}
    for _ in range(repeat):
        for (gated, part), figures in cases.items():
            who = f"waves of {sizes.batch:,}" if gated else NO_GATE
            batch = sizes.batch if gated else None
            name = f"{who}, {part:g} of the input, heap of {heap}"
            figures.append(runs.run(name, part=part, batch=batch, memory=heap, **common))
    return cases, proposals, answer


def judged(cases: Cases, proposals: int, answer: int) -> Measured:
    """What the runs say."""
    ours, theirs = cases[True, WHOLE], cases[False, WHOLE]
    small = cases[True, TENTH], cases[False, TENTH]
    results = [
        beside(f"{proposals:,} proposals behind a gate", "s", "seconds", ours, NO_GATE, theirs),
        *(beside(name, "MB", kind, ours, NO_GATE, theirs) for kind, name in KINDS.items()),
        beside(*PEAK, ours, NO_GATE, theirs),
        beside("memory behind a gate, input times ten", "MB", "all", ours, "a tenth of the input", small[0]),
        beside("a tenth of the input: memory that the run took", "MB", "all", small[0], NO_GATE, small[1]),
    ]
    wrong = sum(run["answer"] != answer for run in (*ours, *theirs))
    wrong += sum(mine["answer"] != other["answer"] for mine, other in zip(*small, strict=True))
    seconds = median(ours, "seconds") / median(theirs, "seconds")
    flat = "memory behind the gate, ten times the input over the input"
    goals = [
        Goal("time behind the gate over time without, at the plateau", 1.05, seconds, at_most=True),
        Goal("memory without a gate over memory behind it", 10, _over(theirs, ours)),
        Goal(flat, 1.2, _over(ours, small[0]), at_most=True),
        Goal("runs whose triangles differ from a count on one machine", 0, wrong, at_most=True, unit=""),
    ]
    return Measured(results, goals, drawn(ours[0]["course"], theirs[0]["course"]))


def _over(more: list[Figures], less: list[Figures]) -> float:
    return median(more, "all") / median(less, "all")


def drawn(ours: Sequence[tuple[float, float]], theirs: Sequence[tuple[float, float]]) -> Figure:
    """All memory in MB over time in seconds, behind a gate and without."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots()
    for course, colour, label in (
        (ours, pictures.BLUE, "behind a gate"),
        (theirs, pictures.GREY, NO_GATE),
    ):
        axes.plot(*zip(*course, strict=True), color=colour, label=label)
    axes.set(xlabel="seconds", ylabel="MB, JVM and Python", ylim=(0, None), xlim=(0, None))
    axes.legend(frameon=False, fontsize=8)
    pictures.plain(axes)
    figure.suptitle("Memory of a step that explodes, behind a gate and without", fontsize=11)
    return figure
