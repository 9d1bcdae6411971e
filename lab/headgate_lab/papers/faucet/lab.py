"""The paper's runs in the model, made once each: figures and claims that use the same run share it.

The graph is an R-MAT graph with about as many triangles for each edge as LiveJournal has (5),
oriented by degree; `quick` has a smaller one and fewer points, and is too small for what memory
does as the input grows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headgate.flow import Gate
from headgate_lab.graphs import Adjacency, clean, orient, rmat
from headgate_lab.graphs.edges import Ints
from headgate_lab.papers.faucet.join import Join
from headgate_lab.papers.faucet.model import Machines, Model, ModelRun
from headgate_lab.papers.rerun import Progress

EDGES_PER_VERTEX = 6
IN_FLIGHT = 4
"""N_batches of Figures 4 and 5."""
SHARE = 1000
"""Rows of a batch for each worker at the paper's threshold."""


@dataclass
class Lab:
    """Runs the model and caches the results. All random choices follow from `seed`."""

    quick: bool = False
    progress: Progress | None = None
    seed: int = 1
    cache: dict[tuple[object, ...], ModelRun] = field(default_factory=dict)
    figure: str = ""
    part: float = 0.0

    @property
    def scale(self) -> int:
        """Vertices of the graph, as a power of two."""
        return 13 if self.quick else 15

    @property
    def clique_scale(self) -> int:
        """The same where 4-cliques are the subject."""
        return 11 if self.quick else 13

    @property
    def workers(self) -> tuple[int, ...]:
        """Worker threads."""
        return (4, 8) if self.quick else (2, 4, 8)

    @property
    def shares(self) -> tuple[int, ...]:
        """Rows of a batch for each worker, Figure 4."""
        return (50, 300, 1000, 3000) if self.quick else (30, 100, 200, 300, 500, 1000, 2000, 4000)

    @property
    def few_shares(self) -> tuple[int, ...]:
        """The same where N is compared, up to the paper's threshold."""
        return (50, 300, 1000) if self.quick else (30, 100, 300, 1000)

    @property
    def widths(self) -> tuple[int, ...]:
        """Batches in flight."""
        return (1, 2, 4, 8)

    @property
    def parts(self) -> tuple[float, ...]:
        """Parts of the input, Figure 5."""
        return (0.25, 0.5, 1.0) if self.quick else (0.1, 0.25, 0.5, 0.75, 1.0)

    def tell(self, what: str, part: float) -> None:
        """Report progress."""
        self.figure, self.part = what, part
        if self.progress is not None:
            self.progress(what, part)

    def made(self, scale: int) -> Adjacency:
        """A graph of a size."""
        rng = np.random.default_rng([self.seed, scale])
        return orient(clean(rmat(scale, EDGES_PER_VERTEX * 2**scale, rng.random)).edges)

    @cached_property
    def graph(self) -> Adjacency:
        """The graph of the runs for triangles."""
        return self.made(self.scale)

    @cached_property
    def clique_graph(self) -> Adjacency:
        """The graph of the runs for 4-cliques."""
        return self.made(self.clique_scale)

    def first(self, graph: Adjacency, part: float) -> Ints:
        """A random part of the vertices; a larger one holds the smaller."""
        order = np.random.default_rng([self.seed, 3]).permutation(graph.vertices)
        return np.sort(order[: round(part * graph.vertices)])

    def offered(self, part: float) -> int:
        """The rows that a part of the input offers to the first gate: as many as its vertices have edges."""
        return int(self.graph.degrees[self.first(self.graph, part)].sum())

    def run(
        self, gate: Gate | None, *, workers: int = 8, size: int = 3, part: float = 1.0, pauses: bool = True
    ) -> ModelRun:
        """A run, from the cache if it was made before."""
        key = (gate, workers, size, part, pauses)
        if key not in self.cache:
            if self.progress is not None:
                what = "without gates" if gate is None else f"{gate.in_flight} batches of {gate.batch}"
                self.progress(f"{self.figure}: {what}, {workers} workers", self.part)
            graph = self.graph if size == 3 else self.clique_graph
            machines = Machines(workers=workers) if pauses else Machines(workers=workers, pause_every_us=0.0)
            join = Join(graph, size, self.first(graph, part))
            self.cache[key] = Model(join, machines, gate, seed=self.seed).run()
        return self.cache[key]

    def gated(
        self, in_flight: int = IN_FLIGHT, share: int = SHARE, *, workers: int = 8, pauses: bool = True
    ) -> ModelRun:
        """A run with nested gates of one kind over the whole input."""
        return self.run(Gate(in_flight, share * workers), workers=workers, pauses=pauses)

    def near_best(self, workers: int) -> list[float]:
        """Time with gates over time without, for a range of parameters on the plateau (Figure 5, left)."""
        free = self.run(None, workers=workers).seconds
        points = [(width, share) for width in (4, 8) for share in self.shares if share >= SHARE]
        return [self.gated(width, share, workers=workers).seconds / free for width, share in points]
