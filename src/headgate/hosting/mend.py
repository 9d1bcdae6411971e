"""Repair and refinement within one budget, for a caller that does both now and then, such as the batches of the query service."""

from __future__ import annotations

from headgate.hosting.decision import Move
from headgate.hosting.host import Host

_SEEDS = 1 << 31


def mend(host: Host, moves: int, *, examine: int, samples: int, seed: int) -> list[Move]:
    """Repair a host, then divide so many samples anew with what is left of the moves; return all moves.

    ``seed`` decides which samples are drawn: give another one each time.
    """
    made = host.repair(moves, examine)
    for step in range(samples):
        left = moves - sum(len(move.servers()) for move in made)
        if left <= 0:
            break
        made += host.refine(left, seed=(seed * samples + step) % _SEEDS)
    return made
