"""Pairs of vertices, looked up in a graph."""

from __future__ import annotations

from typing import Any

from headgate.compiled import compiled


@compiled
def edges_among(v1: Any, v3: Any, offsets: Any, targets: Any) -> int:
    """How many of the pairs are edges."""
    total = 0
    for i in range(len(v1)):
        low, high = offsets[v1[i]], offsets[v1[i] + 1]
        while low < high:
            middle = (low + high) >> 1
            if targets[middle] < v3[i]:
                low = middle + 1
            else:
                high = middle
        total += low < offsets[v1[i] + 1] and targets[low] == v3[i]
    return total
