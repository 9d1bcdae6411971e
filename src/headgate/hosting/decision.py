"""What a host answers: where a query went, which queries moved, and the state of the whole placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    """Queries that moved together to another server, and the traffic that this saved.

    ``saved_traffic`` is 0 where the move only prepares a stream to be closed by later moves. ``exchanged`` are the
    queries that went the other way at the same time, because the server was full.
    """

    queries: tuple[str, ...]
    origin: int
    server: int
    saved_traffic: float
    exchanged: tuple[str, ...] = ()

    def servers(self) -> list[tuple[str, int]]:
        """Each query that moved, and where it is now."""
        there = [(query, self.server) for query in self.queries]
        return there + [(query, self.origin) for query in self.exchanged]


@dataclass(frozen=True)
class Decision:
    """Where a query went, the traffic that this added, and the server's load and limit at that moment.

    ``fallback`` is true if no server was within its balance limit, so that the least filled one took
    the query (MICE-E1). ``moves`` are those of the repair that followed.
    """

    query: str
    server: int
    added_traffic: float
    load: float
    limit: float
    fallback: bool = False
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True)
class HostStatus:
    """The figures of a placement as it is now.

    ``rate_in_use`` is the rate of all sources that some hosted query reads, and ``replication`` is
    traffic / rate_in_use, at least 1 (MICE-31, MICE-E16).
    """

    queries: int
    servers: int
    traffic: float
    rate_in_use: float
    replication: float
    loads: Mapping[int, float]
    fallbacks: int
