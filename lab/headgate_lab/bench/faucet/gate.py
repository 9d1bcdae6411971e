"""Time and memory of one query at one size, behind a gate and without.

Both sides have the same settings and the same warm-up, which does a little of both. Then garbage is collected,
and what is in use is the session that idles. Memory is read in two ways, and the goal is judged by both:

- what the run took: the most that the JVM and all Python processes held at one moment, less the idle session;
- all that Spark held at its peak, the idle session included, which is what a user has to pay for.

The parts stand beside them, the JVM by its own account (`jvm_account`); so does what the idle session holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate_lab.bench.faucet.edges import write_input
from headgate_lab.bench.faucet.runs import FaucetSizes, Figures, Measured, Runs, beside, graph, median
from headgate_lab.bench.result import Goal, Result
from headgate_lab.graphs.count import count_cliques

WARM, TENTH, WHOLE = 0.02, 0.1, 1.0
NO_GATE = "no gate"
Cases = dict[tuple[bool, float], list[Figures]]
"""Runs, by whether there is a gate, and by the part of the input."""
TOOK = "memory that the run took"
TENTH_TOOK = f"a tenth of the input, {TOOK}"
KINDS = {
    "all": TOOK,
    "python": "of it the Python processes",
    "jvm": "of it the JVM",
    "live": "heap that is alive after a collection",
    "heap": "heap that the JVM holds",
    "buffers": "buffers outside the heap",
    "code": "classes and compiled code",
    "peak": "all that Spark held at its peak",
    "idle all": "of it the idle session",
    "idle python": "idle: the Python processes",
    "idle jvm": "idle: the JVM",
    "idle heap": "idle: heap that the JVM holds",
    "idle code": "idle: classes and compiled code",
}
"""What grows during a run, from the whole to its parts; then all that is held, and what was held before the run. Peaks
of parts need not be at the same moment.
"""


def measure(runs: Runs, sizes: FaucetSizes, repeat: int) -> Measured:
    """Measure the query and a tenth of it, and compare with the goals."""
    query = Query.prepared(runs.work, sizes)
    cases: Cases = {(gated, part): [] for part in (WHOLE, TENTH) for gated in (True, False)}
    for _ in range(repeat):
        for (gated, part), figures in cases.items():
            figures.append(query.run(runs, sizes.batch if gated else None, part))
    return judged(cases, query, sizes.batch)


class Query:
    """The triangle query on one graph: its input in files, and how many proposals and triangles it has."""

    def __init__(self, folder: Path, sizes: FaucetSizes, proposals: int, triangles: int) -> None:
        self.folder, self.sizes, self.proposals, self.triangles = folder, sizes, proposals, triangles

    @classmethod
    def prepared(cls, work: Path, sizes: FaucetSizes) -> Query:
        """Write the input, unless another part has."""
        folder, made = work / "graph", graph(*sizes.graph)
        if not folder.exists():
            write_input(made, folder, (WHOLE, TENTH, WARM))
        return cls(folder, sizes, int(made.degrees[made.targets].sum()), count_cliques(made, 3))

    def run(self, runs: Runs, batch: int | None, part: float = WHOLE, **changes: Any) -> Figures:
        """One run, behind a gate if `batch` is given."""
        warm = [{"part": WARM, "batch": max(1, self.proposals // 1000)}, {"part": WARM, "batch": None}]
        job = {"memory": self.sizes.heap, "in_flight": 2, **changes}
        name = f"{waves(batch)}, {part:g} of the input"
        return runs.run(
            name, kind="exploding", graph=str(self.folder), warm=warm, part=part, batch=batch, **job
        )


def waves(batch: int | None) -> str:
    """Who runs, in words."""
    return NO_GATE if batch is None else f"waves of {batch:,}"


def judged(cases: Cases, query: Query, batch: int) -> Measured:
    """What the runs say."""
    ours, theirs = cases[True, WHOLE], cases[False, WHOLE]
    small = cases[True, TENTH], cases[False, TENTH]
    who = waves(batch)
    results = [
        beside(f"{query.proposals:,} proposals behind a gate", "s", "seconds", ours, NO_GATE, theirs),
        beside("a tenth of the input", "s", "seconds", small[0], NO_GATE, small[1]),
        *profile(who, ours, theirs),
        beside(f"{who}: {TENTH_TOOK}", "MB", "all", small[0], NO_GATE, small[1]),
    ]
    wrong = sum(run["answer"] != query.triangles for run in (*ours, *theirs))
    wrong += sum(mine["answer"] != other["answer"] for mine, other in zip(*small, strict=True))
    seconds = median(ours, "seconds") / median(theirs, "seconds")
    flat = "memory behind the gate, ten times the input over the input"
    goals = [
        Goal("time behind the gate over time without, at the plateau", 1.05, seconds, at_most=True),
        Goal("memory without a gate over memory behind it", 10, _over(theirs, ours)),
        Goal("the same, with all that the idle session holds", 10, _over(theirs, ours, "peak")),
        Goal(flat, 1.2, _over(ours, small[0]), at_most=True),
        Goal("runs whose triangles differ from a count on one machine", 0, wrong, at_most=True, unit=""),
    ]
    return Measured(results, goals, drawn(ours[0]["course"], theirs[0]["course"]))


def profile(who: str, ours: list[Figures], theirs: list[Figures]) -> list[Result]:
    """Each kind of memory, behind a gate and without."""
    return [beside(f"{who}: {name}", "MB", kind, ours, NO_GATE, theirs) for kind, name in KINDS.items()]


def _over(more: list[Figures], less: list[Figures], kind: str = "all") -> float:
    return median(more, kind) / median(less, kind)


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
