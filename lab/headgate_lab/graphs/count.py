"""Cliques counted on one machine, by depth-first intersection: the independent answer with
which listings are compared.

It keeps one list of candidates for each vertex of a clique, so memory is that of the graph.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled
from headgate.errors import ConfigError
from headgate_lab.graphs.edges import Adjacency, Ints


def count_cliques(graph: Adjacency, size: int) -> int:
    """How many sets of `size` vertices have all edges between them, in a graph from `orient`.

    >>> from headgate_lab.graphs import Edges, clean, orient
    >>> square = Edges(np.array([0, 0, 0, 1, 1, 2]), np.array([1, 2, 3, 2, 3, 3]), 4)
    >>> [count_cliques(orient(square), size) for size in (2, 3, 4, 5)]
    [6, 4, 1, 0]
    """
    if size < 2:
        raise ConfigError(f"size={size} is below 2, the size of an edge")
    widest = int(graph.degrees.max(initial=0))
    room = np.empty((size - 1, widest), np.int64)
    return int(_count(graph.offsets, graph.targets, size, room))


@compiled
def _count(offsets: Ints, targets: Ints, size: int, room: Ints) -> int:
    """`room[l]` has the vertices that extend the l + 1 chosen ones, `place[l]` the one to be chosen next."""
    if size == 2:
        return targets.size
    last = size - 3
    cliques = 0
    length = np.zeros(size, np.int64)
    place = np.zeros(size, np.int64)
    for vertex in range(offsets.size - 1):
        begin, end = offsets[vertex], offsets[vertex + 1]
        length[0] = end - begin
        room[0, : length[0]] = targets[begin:end]
        place[0] = 0
        level = 0
        while level >= 0:
            if place[level] == length[level]:
                level -= 1
                continue
            chosen = room[level, place[level]]
            place[level] += 1
            i, j, both = place[level], offsets[chosen], 0
            while i < length[level] and j < offsets[chosen + 1]:
                first, second = room[level, i], targets[j]
                if first == second:
                    room[level + 1, both] = first
                    both += 1
                i += first <= second
                j += second <= first
            if level == last:
                cliques += both
            else:
                level += 1
                length[level] = both
                place[level] = 0
    return cliques
