"""Edges as two arrays: cleaned, and oriented from the vertex of lower degree to
that of higher degree.

A graph here is simple and undirected once it is clean: no self-loops, and each pair of vertices at
most once in either direction. Oriented by degree no vertex has more than sqrt(2 * edges)
successors, whatever its degree was, which is what makes listing cliques worst-case optimal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.errors import ConfigError

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Edges:
    """Pairs of vertices 0 <= v < vertices."""

    source: Ints
    target: Ints
    vertices: int

    def __post_init__(self) -> None:
        if self.source.shape != self.target.shape or self.source.ndim != 1:
            raise ConfigError(
                f"sources of shape {self.source.shape} and targets of shape {self.target.shape}: give two lists of one length"
            )
        for name, ends in (("source", self.source), ("target", self.target)):
            wrong = np.flatnonzero((ends < 0) | (ends >= self.vertices))
            if wrong.size:
                raise ConfigError(
                    f"edge {wrong[0]} has {name} {ends[wrong[0]]}, outside 0..{self.vertices - 1}"
                )

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Cleaned:
    """A simple graph, and what was removed to make it one."""

    edges: Edges
    self_loops: int
    duplicates: int


def clean(edges: Edges) -> Cleaned:
    """Each pair once, the smaller vertex first, in order; self-loops and duplicates
    (either direction) are counted.

    >>> got = clean(Edges(np.array([0, 1, 1, 2]), np.array([1, 0, 1, 0]), 3))
    >>> got.edges.source.tolist(), got.edges.target.tolist(), got.self_loops, got.duplicates
    ([0, 0], [1, 2], 1, 1)
    """
    if edges.vertices > 2**31:
        raise ConfigError(f"{edges.vertices} vertices are more than 2^31; number those that have edges anew")
    kept = edges.source != edges.target
    first, second = edges.source[kept], edges.target[kept]
    pairs = np.unique(np.minimum(first, second) * edges.vertices + np.maximum(first, second))
    source, target = np.divmod(pairs, max(edges.vertices, 1))
    return Cleaned(
        Edges(source, target, edges.vertices),
        self_loops=len(edges) - len(first),
        duplicates=len(first) - len(pairs),
    )


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Successors by vertex: those of v are `targets[offsets[v] : offsets[v + 1]]`, ascending."""

    offsets: Ints
    targets: Ints
    names: Ints
    """The name of each vertex before it was numbered by degree."""

    @property
    def vertices(self) -> int:
        """The number of vertices."""
        return len(self.offsets) - 1

    @property
    def degrees(self) -> Ints:
        """The number of successors of each vertex."""
        return np.diff(self.offsets)


def adjacency(edges: Edges, names: Ints | None = None) -> Adjacency:
    """The successors of each vertex, along the edges as they are."""
    order = np.lexsort((edges.target, edges.source))
    offsets = np.zeros(edges.vertices + 1, np.int64)
    np.cumsum(np.bincount(edges.source, minlength=edges.vertices), out=offsets[1:])
    return Adjacency(offsets, edges.target[order], np.arange(edges.vertices) if names is None else names)


def orient(edges: Edges) -> Adjacency:
    """A clean graph with vertices numbered by degree (ties by name) and each edge from the lower
    number to the higher.

    >>> star = clean(Edges(np.array([0, 0, 0, 1]), np.array([1, 2, 3, 2]), 4)).edges
    >>> got = orient(star)
    >>> got.names.tolist(), got.offsets.tolist(), got.targets.tolist()
    ([3, 1, 2, 0], [0, 1, 3, 4, 4], [3, 2, 3, 3])
    """
    degree = np.bincount(edges.source, minlength=edges.vertices)
    degree += np.bincount(edges.target, minlength=edges.vertices)
    names = np.argsort(degree, kind="stable")
    number = np.empty(edges.vertices, np.int64)
    number[names] = np.arange(edges.vertices)
    first, second = number[edges.source], number[edges.target]
    return adjacency(Edges(np.minimum(first, second), np.maximum(first, second), edges.vertices), names)
