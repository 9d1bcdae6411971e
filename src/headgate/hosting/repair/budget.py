"""How much repair may do after each event."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import ConfigError


@dataclass(frozen=True)
class Repair:
    """After each event at most ``moves`` queries move; before each move, ``examine`` hosted queries are examined.

    Queries are examined in turn. Each moves alone, or together with the queries on its server that
    share a rare source with it. The move that lowers the smoothed traffic most per query moved is
    made; no move raises the real traffic.
    """

    moves: int = 8
    examine: int = 8
    """More find better moves, at the price of time: see `DEFAULT_REPAIR`."""

    def __post_init__(self) -> None:
        if self.moves < 0 or self.examine < 0:
            raise ConfigError(
                f"moves={self.moves}, examine={self.examine}: both are numbers of queries, 0 or more"
            )


DEFAULT_REPAIR = Repair(moves=8, examine=32)
"""The budget of the default placement, `DEFAULT_RULE` with repair. The query service has one for each batch instead."""
