"""How much repair and refinement may do."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import ConfigError


@dataclass(frozen=True)
class Repair:
    """After each event at most ``moves`` queries move; before each move, ``examine`` hosted queries are examined.

    Queries are examined in turn. Each moves alone, or together with the queries on its server that
    share a rare source with it. The move that lowers the smoothed traffic most per query moved is
    made; no move raises the real traffic.

    With a ``sample``, so many queries of two servers are divided anew after every ``every`` events (refinement). It may
    move what repair has left of ``every`` x ``moves`` queries. ``seed`` decides which queries are drawn.
    """

    moves: int = 8
    examine: int = 8
    """More find better moves, at the price of time: see `DEFAULT_REPAIR`."""
    sample: int = 0
    """0: no refinement."""
    every: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.moves, self.examine, self.sample) < 0:
            raise ConfigError(
                f"moves={self.moves}, examine={self.examine}, sample={self.sample}: "
                "these are numbers of queries, 0 or more"
            )
        if self.every < 1 or not 0 <= self.seed < 1 << 31:
            raise ConfigError(
                f"every={self.every}, seed={self.seed}: a number of events, at least 1, and a number from 0 to 2^31 - 1"
            )


DEFAULT_REPAIR = Repair(moves=8, examine=32, sample=512)
"""The budget of the default placement, `DEFAULT_RULE` with repair and refinement. The query service has one for each batch instead."""
NO_REPAIR = Repair(moves=0)
"""Nothing moves but the queries of a lost server, as in the paper. All rules but the default have this."""
