"""`headgate bench faucet`: a step that explodes, behind a gate and not; cliques
beside plain Spark SQL.

Every run has a process and a Spark of its own and is warmed up on a small input, so that time and
memory are the run's. Memory is resident memory of the JVM and all Python workers above what was
there before; the JVM is told to keep its heap close to what is live.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate.cli.console import Tick, unknown
from headgate.errors import HeadgateError
from headgate_lab.bench.job import workspace
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.cliques_command import generate
from headgate_lab.graphs.count import count_cliques
from headgate_lab.graphs.edges import Adjacency, Edges, clean, orient
from headgate_lab.graphs.rmat import rmat

Figures = dict[str, float]
"""What one run measured."""
TIGHT = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 -Xms128m -Xmn48m",
    "spark.buffer.pageSize": "2m",
}
"""All runs, with a gate or not, have a heap that stays close to what is live: a small young generation, and small
pages for what Spark sorts.
"""


@dataclass(frozen=True)
class FaucetSizes:
    """The sizes of a run: graphs as scale and edges, sizes of waves, work of stragglers."""

    graph: tuple[int, int] = (15, 800_000)
    batches: tuple[int, ...] = (1_000_000,)
    plateau: int = 1_000_000
    heavy: int = 4_000_000_000
    waves: int = 8
    triangles: tuple[int, int] = (17, 1_500_000)
    beyond: tuple[int, int] = (18, 3_700_000)

    @classmethod
    def quick(cls) -> FaucetSizes:
        """Sizes that only show that it runs."""
        return cls((10, 8_000), (5_000, 50_000), 50_000, 20_000_000, 4, (11, 20_000), (11, 20_000))


@dataclass
class _Bench:
    work: Path
    progress: Tick
    jobs: int
    done: int = 0
    samples: dict[str, list[float]] = field(default_factory=dict)

    def run(self, name: str, **job: Any) -> Figures:
        """One run in a process of its own."""
        self.progress(name, self.done / self.jobs)
        self.done += 1
        text = json.dumps({"log": str(self.work / "spark.log"), "conf": TIGHT, **job})
        child = subprocess.run(
            [sys.executable, "-m", "headgate_lab.bench.faucet_job"],
            input=text,
            text=True,
            capture_output=True,
            check=False,
        )
        if child.returncode:
            lines = child.stderr.strip().splitlines()
            raise HeadgateError(f"{name} failed: {lines[-1] if lines else child.returncode}")
        figures: Figures = json.loads(child.stdout.strip().splitlines()[-1])
        self.samples.setdefault(f"{name} (s)", []).append(figures["seconds"])
        return figures


PARTS = ("gate", "stragglers", "cliques")


def run(*, quick: bool, repeat: int, progress: Tick, only: Sequence[str] = ()) -> Report:
    """Measure, and compare with the goals; `only` chooses among the parts."""
    where, sizes = machine(), FaucetSizes.quick() if quick else FaucetSizes()
    parts = chosen_parts(only)
    results: list[Result] = []
    goals: list[Goal] = []
    figure = None
    with workspace() as work:
        jobs = {"gate": repeat * (len(sizes.batches) + 3), "stragglers": 2 * repeat, "cliques": 3}
        bench = _Bench(work, progress, sum(jobs[part] for part in parts))
        for part in parts:
            if part == "gate":
                found, asked, figure = _gate(bench, sizes, repeat)
            else:
                measure = _stragglers if part == "stragglers" else _cliques
                found, asked = measure(bench, sizes, repeat)
            results += found
            goals += asked
    return Report("faucet", tuple(results), tuple(goals), machine=where, quick=quick, picture=figure)


def chosen_parts(only: Sequence[str]) -> tuple[str, ...]:
    """The parts to run, in their order."""
    for part in only:
        if part not in PARTS:
            raise unknown("part of bench faucet", part, PARTS)
    return tuple(part for part in PARTS if not only or part in only)


def _gate(bench: _Bench, sizes: FaucetSizes, repeat: int) -> tuple[list[Result], list[Goal], Figure]:
    """Time and memory of one query at one size, behind a gate and without."""
    graph = _indexed(bench.work / "graph", *sizes.graph)
    answer = count_cliques(graph, 3)
    proposals = int(graph.degrees[graph.targets].sum())
    common = {"kind": "exploding", "graph": str(bench.work / "graph"), "in_flight": 2}
    # some twenty waves: all code is hot before we look
    warm = {"part": 0.02, "batch": max(1, proposals // 1000)}
    free: dict[float, list[Figures]] = {0.1: [], 1.0: []}
    gated: dict[tuple[int, float], list[Figures]] = {}
    wrong = 0
    for _ in range(repeat):
        for part, figures in free.items():
            name = f"no gate, {part:g} of the input"
            figures.append(bench.run(name, part=part, batch=None, warm={"part": 0.1}, **common))
        for batch in sizes.batches:
            one = bench.run(f"waves of {batch:,}", part=1.0, batch=batch, warm=warm, **common)
            gated.setdefault((batch, 1.0), []).append(one)
            wrong += one["answer"] != answer
        name = f"waves of {sizes.plateau:,}, 0.1 of the input"
        small = bench.run(name, part=0.1, batch=sizes.plateau, warm=warm, **common)
        gated.setdefault((sizes.plateau, 0.1), []).append(small)
        wrong += free[1.0][-1]["answer"] != answer or small["answer"] != free[0.1][-1]["answer"]
    at = (sizes.plateau, 1.0)
    seconds = _median(gated[at], "seconds"), _median(free[1.0], "seconds")
    memory = _median(gated[at], "all"), _median(free[1.0], "all")
    flat = memory[0], _median(gated[sizes.plateau, 0.1], "all")
    grows = memory[1] / _median(free[0.1], "all")
    results = [
        Result(
            f"{proposals:,} proposals behind a gate", "s", seconds[0], "no gate", seconds[1], bench.samples
        ),
        Result("memory that the run took", "MB", memory[0], "no gate", memory[1], {}),
        Result("the same, input times ten", "MB", flat[0], "a tenth of the input", flat[1], {}),
        Result("the same, Python workers alone", "MB", *_both(gated[at], free[1.0], "python")),
        Result("the same, the JVM alone", "MB", *_both(gated[at], free[1.0], "jvm")),
        Result("growth without a gate, input times ten", "x", grows, None, None, {}),
    ]
    for batch in sizes.batches:
        runs = gated[batch, 1.0]
        results.append(Result(f"waves of {batch:,}: time", "s", *_both(runs, free[1.0], "seconds")))
        results.append(Result(f"waves of {batch:,}: memory", "MB", *_both(runs, free[1.0], "all")))
    over = "time behind the gate over time without, at the plateau"
    ten = "memory behind the gate, ten times the input over the input"
    goals = [
        Goal(over, 1.05, seconds[0] / seconds[1], at_most=True),
        Goal("memory without a gate over memory behind it", 10, memory[1] / memory[0]),
        Goal(ten, 1.2, flat[0] / flat[1], at_most=True),
        Goal("runs whose triangles differ from a count on one machine", 0, wrong, at_most=True, unit=""),
    ]
    times = {batch: _median(gated[batch, 1.0], "seconds") for batch in sizes.batches}
    peaks = {batch: _median(gated[batch, 1.0], "all") for batch in sizes.batches}
    return results, goals, _drawn(times, peaks, seconds[1], memory[1])


def _stragglers(bench: _Bench, sizes: FaucetSizes, repeat: int) -> tuple[list[Result], list[Goal]]:
    """Waves with one slow task each: what a second wave in flight gains."""
    seconds = {}
    for n in (1, 2):
        common = {"kind": "stragglers", "in_flight": n, "heavy": sizes.heavy, "waves": sizes.waves}
        warm = {"waves": 6, "heavy": sizes.heavy // 100}
        runs = [bench.run(f"stragglers, {n} in flight", warm=warm, **common) for _ in range(repeat)]
        seconds[n] = _median(runs, "seconds")
    name = "waves with a straggler each, 2 in flight"
    samples = {name: values for name, values in bench.samples.items() if name.startswith("stragglers")}
    result = Result(name, "s", seconds[2], "1 in flight", seconds[1], samples)
    return [result], [Goal("stragglers: 1 in flight over 2", 1.5, seconds[1] / seconds[2])]


def _cliques(bench: _Bench, sizes: FaucetSizes, repeat: int) -> tuple[list[Result], list[Goal]]:
    """Triangles from the file on beside Spark SQL, and 4-cliques beyond memory; one round, since they take minutes."""
    file = bench.work / "triangles.parquet"
    scale, edges = sizes.triangles
    generate(file, scale, edges, seed=1)
    warm = bench.work / "warm.parquet"
    generate(warm, 10, 10_000, seed=2)
    common = {"file": str(file), "warm": {"file": str(warm)}, "partitions": 8, "memory": "4g", "conf": {}}
    ours = bench.run("triangles, headgate cliques", kind="cliques", size=3, **common)
    sql = bench.run("triangles, Spark SQL self-join", kind="self_join", **common)
    exact = count_cliques(_graph(scale, edges), 3)
    beyond = bench.work / "beyond.parquet"
    generate(beyond, *sizes.beyond, seed=1)
    four = bench.run(
        "4-cliques beyond memory",
        kind="cliques",
        size=4,
        file=str(beyond),
        memory="1g",
        warm={"file": str(warm)},
    )
    rate = ours["answer"] / ours["seconds"], sql["answer"] / sql["seconds"]
    results = [
        Result("triangles, from the file on", "per s", rate[0], "Spark SQL self-join", rate[1], {}),
        Result("4-cliques beyond memory: all of Spark's memory", "MB", four["peak"], None, None, {}),
        Result("4-cliques beyond memory", "s", four["seconds"], None, None, {}),
        Result("4-cliques found", "", four["answer"], None, None, {}),
    ]
    differing = (ours["answer"] != exact) + (sql["answer"] != exact)
    goals = [
        Goal("triangles per second over Spark SQL's", 3, rate[0] / rate[1]),
        Goal("triangle counts that differ from one machine's", 0, differing, at_most=True, unit=""),
        Goal("4-cliques beyond memory: peak memory", 4000, four["peak"], at_most=True, unit=" MB"),
    ]
    return results, goals


def _graph(scale: int, edges: int) -> Adjacency:
    made = rmat(scale, edges, np.random.default_rng(1).random)
    return orient(clean(Edges(made.source, made.target, made.vertices)).edges)


def _indexed(folder: Path, scale: int, edges: int) -> Adjacency:
    from headgate_lab.cliques import write_index

    graph = _graph(scale, edges)
    write_index(graph, graph.names, folder)
    return graph


def _both(ours: list[Figures], theirs: list[Figures], what: str) -> tuple[Any, ...]:
    samples = {"gate": [run[what] for run in ours], "no gate": [run[what] for run in theirs]}
    return _median(ours, what), "no gate", _median(theirs, what), samples


def _median(runs: list[Figures], what: str) -> float:
    return statistics.median(max(run[what], 1e-3) for run in runs)


def _drawn(times: dict[int, float], peaks: dict[int, float], time: float, peak: float) -> Figure:
    """Time and memory by the size of a wave, beside the run without a gate: the paper's
    figure 4, on Spark.
    """
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = [(times, time, "seconds"), (peaks, peak, "MB above idle")]
    for axes, (values, free, what) in zip(figure.subplots(1, 2), panels, strict=True):
        axes.plot(
            list(values), list(values.values()), "o-", color=pictures.BLUE, label="behind a gate, 2 in flight"
        )
        axes.axhline(free, color=pictures.GREY, linestyle="--", label="no gate")
        axes.set(xscale="log", xlabel="rows of a wave", ylabel=what, ylim=(0, None))
        axes.set_xticks(list(values), [f"{batch:,}" for batch in values])
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize=8)
        pictures.plain(axes)
    figure.suptitle("A step that explodes, behind a gate and without", fontsize=11)
    return figure
