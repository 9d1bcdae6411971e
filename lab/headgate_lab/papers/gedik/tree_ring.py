"""The paper's consistent hash (section 5.2): 1,000 replicas a channel, in 100 buckets, with a sorted tree in each.

The library's ring is one sorted array with more buckets (`routing.ring`); this one is here because
the paper compares the cost of building it with that of building the explicit part. It has the same
points, so it answers the same. `comparisons` counts what inserting the points one by one into balanced
trees takes: as many as a binary search in what the bucket holds already.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from headgate.routing.ring import HashRing

BUCKETS = 100
_RING = 1 << 64


class TreeRing:
    """The points of a ring in buckets; lookups go to the first point at or after a position."""

    def __init__(self, ring: HashRing, buckets: int = BUCKETS) -> None:
        order = np.random.default_rng(0).permutation(ring.points.shape[0])
        self.buckets: list[list[tuple[int, int]]] = [[] for _ in range(buckets)]
        self.comparisons = 0
        for position, owner in zip(ring.points[order].tolist(), ring.owners[order].tolist(), strict=True):
            tree = self.buckets[self._bucket(position)]
            self.comparisons += len(tree).bit_length()
            tree.insert(bisect_left(tree, (position, owner)), (position, owner))

    def _bucket(self, position: int) -> int:
        return position * len(self.buckets) // _RING

    def lookup(self, positions: Iterable[int]) -> list[int]:
        """The owners of hashes (as unsigned numbers)."""
        found = []
        for position in positions:
            bucket = self._bucket(position)
            place = bisect_left(self.buckets[bucket], (position, -1))
            while place == len(self.buckets[bucket]):
                bucket, place = (bucket + 1) % len(self.buckets), 0
            found.append(self.buckets[bucket][place][1])
        return found
