# mypy: allow-untyped-calls
"""A numbered workload under a rule, many events at a call: what `Host` does by name, at compiled speed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headgate.errors import ConfigError, NoRoom
from headgate.hosting.balance import Balance
from headgate.hosting.events import PLACE, REMOVE, play
from headgate.hosting.host import Repair
from headgate.hosting.offline.algorithms import Assignment
from headgate.hosting.online.rules import LeastQT, RareFirst, Reserved, Rule
from headgate.hosting.online.select_server import Frame
from headgate.hosting.placement import state as book
from headgate.hosting.placement.state import NEEDED, TRAFFIC, Books
from headgate.hosting.workload import Floats, Ints, Workload

Acts = NDArray[np.int8]


class Run:
    """Books of a workload, a rule, and its luck: ``draw(n)`` gives n numbers in [0, 1)."""

    def __init__(
        self,
        load: Workload,
        sizes: Floats,
        rule: Rule,
        *,
        balance: Balance | None = None,
        repair: Repair | None = None,
        draw: Callable[[int], Floats] | None = None,
    ) -> None:
        if isinstance(rule, Reserved):
            raise ConfigError("reserved shares are by name: use them in a Host")
        if rule.draws and draw is None:
            raise ConfigError(
                f"rule {rule.name!r} needs chance: give draw=, for example numpy.random.default_rng(7).random"
            )
        self.load = load
        limits, mend = balance or Balance(), repair or Repair(moves=0)
        self.books: Books = book.open_books(
            load,
            sizes,
            count_types=isinstance(rule, LeastQT),
            repairs=mend.moves > 0,
            reaches=isinstance(rule, RareFirst),
        )
        self._draw = draw if rule.draws else None
        none = np.zeros(0)
        self.frame = Frame(
            rule.code, rule.parameter, limits.relative, limits.absolute, limits.capacity,
            mend.moves, mend.look, int(np.diff(load.start).max(initial=1)),
            np.zeros(1, np.int64), none.astype(np.int32), none,
        )  # fmt: skip

    def play(self, act: Acts, query: Ints) -> Ints:
        """Carry out events; return the server of each. Stops with `NoRoom` at a query that no server can hold."""
        chance = self._draw(act.shape[0]) if self._draw else np.zeros(act.shape[0])
        server = np.full(act.shape[0], -2, np.int64)
        at = 0
        while at < act.shape[0]:
            at = play(self.books, self.frame, act, query, chance, server, at)
            if at < act.shape[0]:
                if server[at] == -1:
                    q, names = int(query[at]), self.load.query_names
                    raise NoRoom(
                        f"query {names[q] if names else q!r} of cost {self.load.cost[q]:g} fits no server within capacity "
                        f"{self.frame.capacity:g}: raise it or add servers"
                    )
                self.books = book.with_room(self.books, self.frame.widest * (1 + self.frame.moves))
        return server

    def arrive(self, queries: Ints) -> Ints:
        """Place queries in this order."""
        return self.play(np.full(queries.shape[0], PLACE, np.int8), queries)

    def depart(self, queries: Ints) -> None:
        """Let queries go."""
        self.play(np.full(queries.shape[0], REMOVE, np.int8), queries)

    @property
    def factor(self) -> float:
        """Traffic over the rate of the sources that are needed now (MICE-E16)."""
        totals = self.books.totals
        return float(totals[TRAFFIC] / totals[NEEDED]) if totals[NEEDED] else 1.0

    def assignment(self, rooms: Floats) -> Assignment:
        """Return what is where, once every query is placed."""
        return Assignment.of_servers(self.load, self.books.size, rooms, self.books.server_of.astype(np.int64))
