"""Runs of `headgate bench faucet`: each in a process and a Spark of its own, so that time and memory are the run's."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from headgate.cli.console import Tick
from headgate.errors import HeadgateError
from headgate_lab.bench.result import Goal, Result
from headgate_lab.graphs.edges import Adjacency, Edges, clean, orient
from headgate_lab.graphs.rmat import rmat

Figures = dict[str, Any]
"""What one run measured: its answer, seconds, MB by kind of memory, and the course of all of it."""
HEAP = "-XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 -XX:-ShrinkHeapInSteps -Xms128m -Xmn48m"
TIGHT = {
    "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {HEAP}",
    "spark.buffer.pageSize": "2m",
    "spark.sql.files.minPartitionNum": "8",
}
"""All runs, with a gate or not, have a heap that stays close to what is live: a small young generation, room that is
given back at every full collection, and small pages for what Spark sorts. Each file of the input is a task.
"""


@dataclass(frozen=True)
class FaucetSizes:
    """The sizes of a run: graphs as scale and edges, rows of a wave, heaps of the JVM, work of stragglers."""

    graph: tuple[int, int] = (15, 800_000)
    batch: int = 1_000_000
    heap: str = "2g"
    heavy: int = 1_500_000_000
    waves: int = 8
    triangles: tuple[int, int] = (17, 1_500_000)
    beyond: tuple[int, int] = (17, 2_000_000)

    @classmethod
    def quick(cls) -> FaucetSizes:
        """Sizes that only show that it runs."""
        return cls(
            (10, 8_000), 50_000, heavy=20_000_000, waves=4, triangles=(11, 20_000), beyond=(11, 20_000)
        )


@dataclass
class Measured:
    """Results and goals of some parts."""

    results: list[Result] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    picture: Figure | None = None

    def __add__(self, other: Measured) -> Measured:
        picture = self.picture or other.picture
        return Measured(self.results + other.results, self.goals + other.goals, picture)


@dataclass
class Runs:
    """Starts runs one after the other."""

    work: Path
    progress: Tick
    jobs: int
    done: int = 0

    def run(self, name: str, **job: Any) -> Figures:
        """One run in a process of its own. `conf` adds to the settings that all runs have, or with `tight=False` takes
        their place; `variables` adds to its environment.
        """
        self.progress(name, self.done / self.jobs)
        self.done += 1
        conf = {**TIGHT, **job.pop("conf", {})} if job.pop("tight", True) else job.pop("conf", {})
        variables = {**os.environ, **job.pop("variables", {})}
        text = json.dumps({"log": str(self.work / "spark.log"), "conf": conf, **job})
        child = subprocess.run(
            [sys.executable, "-m", "headgate_lab.bench.faucet.job"],
            input=text,
            env=variables,
            text=True,
            capture_output=True,
            check=False,
        )
        if child.returncode:
            lines = child.stderr.strip().splitlines()
            raise HeadgateError(f"{name} failed: {lines[-1] if lines else child.returncode}")
        figures: Figures = json.loads(child.stdout.strip().splitlines()[-1])
        return figures


def beside(name: str, unit: str, what: str, ours: list[Figures], rival: str, theirs: list[Figures]) -> Result:
    """One figure of some runs beside that of others, with all samples."""
    samples: Mapping[str, list[float]] = {
        f"{name}, behind a gate": [run[what] for run in ours],
        f"{name}, {rival}": [run[what] for run in theirs],
    }
    return Result(name, unit, median(ours, what), rival, median(theirs, what), samples)


def median(runs: list[Figures], what: str) -> float:
    """The median of a figure; never zero, since it may be divided by."""
    return float(statistics.median(max(run[what], 1e-3) for run in runs))


def graph(scale: int, edges: int) -> Adjacency:
    """A random graph, each edge from the lower degree to the higher."""
    made = rmat(scale, edges, np.random.default_rng(1).random)
    return orient(clean(Edges(made.source, made.target, made.vertices)).edges)
