"""Moves of computations between servers, which repair makes.

A move is made with a batch: until that is committed, the registry has the server where the computation was, and its state
with it; the commit itself says which computations have moved (`committed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headgate.hosting.mend import mend
from headgate.service.registry import Changes, Registry
from headgate.service.snapshot import ServerTemplate

if TYPE_CHECKING:
    from headgate.service.computations import Computations

EXAMINE = 256
"""How many computations are examined before each move of repair."""
REWRITTEN = 20_000
"""How many rows of constants a batch may have written anew for repair, on average. A table is written whole, however few of
its computations move, so a service with many computations repairs in fewer batches."""
FRUITLESS = 8
"""After how many batches repair looks again, if it has found nothing to move: to look takes time too."""
_UPDATE_SERVER = "UPDATE computations SET server = ? WHERE id = ?"
_UPDATE_PLACE = "UPDATE computations SET server = ?, here = ? WHERE id = ?"


class Moves:
    """The moves that the next commit makes."""

    def __init__(self, computations: Computations, registry: Registry) -> None:
        self._of, self._registry = computations, registry
        self._moving: dict[int, int] = {}
        """Computations that move with the next commit, and the servers where their state is until then."""
        self.repairs_from = 0
        """The first batch that may repair again."""

    def repair(self, batch: int, most: int, samples: int = 0) -> int:
        """Move at most so many computations in a batch to servers where fewer sources have to be sent; returns how many.
        If repair leaves some of these moves, so many samples of computations are divided anew with them.

        A batch that is tried again has the moves of all attempts together, and no more than so many. After moves, repair
        waits until what they had written anew is `REWRITTEN` rows a batch. If it finds none, it waits too.
        """
        if batch < self.repairs_from:
            return len(self._moving)
        of, placed, tables = self._of, list[Sequence[Any]](), set[ServerTemplate]()
        left = max(0, most - len(self._moving))
        for move in mend(of.host, left, examine=EXAMINE, samples=samples, seed=batch):
            for name, server in move.servers():
                c = of.by_id[int(name)]
                tables |= {(c.server, c.template), (server, c.template)}
                if c.born >= batch:  # it has no state yet
                    of.put(c.id, server)
                    placed.append((server, c.id))
                elif self._moving.setdefault(c.id, c.server) == server:  # back to where its state is
                    del self._moving[c.id]
                    of.put(c.id, server, here=c.since)
                else:
                    of.put(c.id, server, here=batch)
        if placed:
            self._registry.write((_UPDATE_SERVER, placed))
        rows = sum(map(of.rows_of, tables))
        # They are written in this batch, and when it is committed.
        self.repairs_from = batch + (2 * rows // REWRITTEN if tables else FRUITLESS)
        return len(self._moving)

    def committed(self, batch: int, moves: Mapping[int, int]) -> None:
        """Take note of the moves that a batch has committed. It may be told twice, or when the service has forgotten them."""
        changes: Changes = {}
        of = self._of
        for number, server in moves.items():
            c = of.by_id.get(number)
            if c is None or c.born > batch or c.since >= batch:
                continue  # removed meanwhile, or known already
            self._moving.pop(number, None)
            if server in of.alive and c.server != server:
                of.host.move(str(number), server)
                of.put(number, server, here=batch, since=batch)
            else:
                of.put(number, c.server, here=batch, since=batch)
            changes.setdefault(_UPDATE_PLACE, []).append((of.by_id[number].server, batch, number))
        if changes:
            self._registry.write(*changes.items())

    def lost(self, server: int, moved: Iterable[int], changes: Changes) -> None:
        """A server was lost, and its computations have moved. What was to move from it takes over its state as they do."""
        left = set(moved) - set(self._moving)
        for number in [number for number, origin in self._moving.items() if origin == server]:
            del self._moving[number]
            left.add(number)
        for number in sorted(left):
            changes.setdefault(_UPDATE_SERVER, []).append((self._of.by_id[number].server, number))

    def forget(self, number: int) -> None:
        """A computation was removed."""
        self._moving.pop(number, None)

    def targets(self) -> dict[int, int]:
        """The computations that move, and where they go."""
        return {number: self._of.by_id[number].server for number in self._moving}

    def origins(self) -> dict[ServerTemplate, frozenset[int]]:
        """From which servers computations move, by where they go."""
        origins: dict[ServerTemplate, frozenset[int]] = {}
        for number, origin in self._moving.items():
            c = self._of.by_id[number]
            key = (c.server, c.template)
            origins[key] = origins.get(key, frozenset()) | {origin}
        return origins
