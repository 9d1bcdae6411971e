"""Whose state a piece is: computations move from server to server, and what they leave behind stays until it is rewritten.

A computation is on its server from batch `here` on. State of it that a server wrote earlier is out of date, whichever server
that is: when a computation moves, its new server writes all of its state anew in the batch of the move. In that batch
`since` is what `here` was before: state from `since` on is taken over from where the computation was. So a move costs
what the computation has, and the server that it leaves need not do anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headgate.sql.deferred import Deferred, Ids


@dataclass(frozen=True, init=False)
class Residence:
    """The computations of a template on a server: since when each is there, and what it takes over."""

    ids: Ids
    here: Ids
    since: Ids

    def __init__(self, constants: pa.Table) -> None:
        for name, column in (("ids", "id"), ("here", "here"), ("since", "since")):
            object.__setattr__(self, name, constants.column(column).to_numpy())

    def coming(self, batch: int) -> Residence:
        """Those of them that come in a batch."""
        some = self.here == batch
        found = object.__new__(Residence)
        for name in ("ids", "here", "since"):
            object.__setattr__(found, name, getattr(self, name)[some])
        return found

    def own(self, piece: pa.Table, batch: int) -> pa.Table:
        """A piece that this server wrote in a batch, without computations that came after it."""
        stale = self.ids[self.here > batch]
        if not len(stale):
            return piece
        return piece.filter(pa.array(~np.isin(piece.column("id").to_numpy(), stale)))

    def arriving(self, piece: pa.Table, batch: int) -> pa.Table:
        """The part of another server's piece that belongs to these computations."""
        return piece.filter(pa.array(np.isin(piece.column("id").to_numpy(), self.ids[self.since <= batch])))

    def without_stale(self, waiting: Deferred, batch: int) -> Deferred:
        """Rows that wait here since a batch, without computations that came after it."""
        return waiting.where(~np.isin(waiting.ids, self.ids[self.here > batch]))

    def taken_over(self, waiting: Deferred, batch: int) -> Deferred:
        """Rows that wait on another server, for these computations alone."""
        return waiting.where(np.isin(waiting.ids, self.ids[self.since <= batch]))
