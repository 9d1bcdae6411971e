"""A placement of a whole workload: how many queries of each type are on each server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headgate.hosting.workload import Floats, Ints, Workload


@dataclass(frozen=True, eq=False)
class Assignment:
    """``number[i]`` queries of type ``type[i]`` are on server ``server[i]``.

    ``sizes`` and ``limits`` are by server: its size, and the cost that it may hold.
    """

    load: Workload
    sizes: Floats
    limits: Floats
    type: Ints
    server: Ints
    number: Ints

    @staticmethod
    def from_servers(load: Workload, sizes: Floats, limits: Floats, server_of: Ints) -> Assignment:
        """Build an assignment from the server of each query."""
        pairs = load.types.of_query * sizes.shape[0] + server_of
        pair, number = np.unique(pairs, return_counts=True)
        return Assignment(
            load, sizes, limits, pair // sizes.shape[0], pair % sizes.shape[0], number.astype(np.int64)
        )

    @cached_property
    def server_of(self) -> Ints:
        """The server of each query. The queries of a type are dealt out in their order."""
        order = np.argsort(self.type, kind="stable")
        by_type = np.repeat(self.server[order], self.number[order])
        placed = np.empty(self.load.queries, np.int64)
        placed[np.argsort(self.load.types.of_query, kind="stable")] = by_type
        return placed

    @cached_property
    def copies(self) -> Ints:
        """The number of servers that receive each source."""
        types, k = self.load.types, self.sizes.shape[0]
        lengths = np.diff(types.start)[self.type]
        begin = np.repeat(types.start[self.type], lengths)
        inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        pairs = np.unique(types.source[begin + inside] * k + np.repeat(self.server, lengths))
        return np.bincount(pairs // k, minlength=self.load.sources)

    @property
    def traffic(self) -> float:
        """The sum of the sources' rates, each once for every server that receives it (MICE-2)."""
        return float((self.load.rates * self.copies).sum())

    @property
    def replication(self) -> float:
        """Traffic over the rate of all sources in use (MICE-31)."""
        return self.traffic / self.load.rate_in_use if self.load.rate_in_use else 1.0

    @cached_property
    def loads(self) -> Floats:
        """The cost of the queries on each server."""
        loads: Floats = np.bincount(
            self.server, self.number * self.load.types.cost[self.type], self.sizes.shape[0]
        ).astype(np.float64)
        return loads

    @property
    def imbalance(self) -> float:
        """The largest load per size over the mean load per size."""
        mean = self.loads.sum() / self.sizes.sum()
        return float((self.loads / self.sizes).max() / mean) if mean else 1.0
