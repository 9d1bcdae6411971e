"""Names and their numbers: sources, queries and types that come and go, and arrays that grow with them.

A query's slot is used again after it leaves, and types that no query has are forgotten once they outnumber the
others, so memory follows what is hosted now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headgate.hosting.placement.reference_counts import widened
from headgate.hosting.placement.state import Books

_FEW = 1024


class Roster:
    """Numbers for names. ``kept`` types, the first ones, are never forgotten."""

    def __init__(self) -> None:
        self.sources: dict[str, int] = {}
        self.slots: dict[str, int] = {}
        self.types: dict[tuple[int, ...], int] = {}
        self.kept = 0
        self.widest = 1
        self._free: list[int] = []
        self._names: list[str] = []

    def name(self, slot: int) -> str:
        """Return the query that has a slot."""
        return self._names[slot]

    def with_source(self, books: Books, name: str, rate: float) -> Books:
        """Return the books with one more source."""
        number = self.sources[name] = len(self.sources)
        rates = grown(books.rate, number + 1)
        rates[number] = rate
        streams = widened(books.streams, rows=rates.shape[0])
        wider = {
            name: grown(getattr(books, name), number + 1) for name in ("use", "readers", "known", "times")
        }
        return books._replace(rate=rates, streams=streams, **wider)

    def with_type(self, books: Books, members: Sequence[int]) -> tuple[Books, int]:
        """Return the books with a set of sources as a type, and its number."""
        key = tuple(members)
        if key in self.types:
            return books, self.types[key]
        kind = self.types[key] = len(self.types)
        self.widest = max(self.widest, len(key))
        begin = int(books.type_start[kind])
        start, source = grown(books.type_start, kind + 2), grown(books.type_source, begin + len(key))
        source[begin : begin + len(key)] = key
        start[kind + 1] = begin + len(key)
        if books.hosted.start.shape[0]:
            books = books._replace(
                hosted=widened(books.hosted, rows=max(start.shape[0], books.hosted.start.shape[0]))
            )
        return books._replace(type_start=start, type_source=source), kind

    def with_slot(self, books: Books, query: str, kind: int, cost: float) -> tuple[Books, int]:
        """Return the books with a slot for a query that is not hosted yet."""
        if self._free:
            slot = self._free.pop()
            self._names[slot] = query
        else:
            slot = len(self._names)
            self._names.append(query)
        self.slots[query] = slot
        books = books._replace(
            type_of=grown(books.type_of, slot + 1),
            cost=grown(books.cost, slot + 1),
            server_of=grown(books.server_of, slot + 1, fill=-1),
        )
        books.type_of[slot], books.cost[slot] = kind, cost
        return books, slot

    def let_go(self, query: str) -> None:
        """Free the slot of a query that has left."""
        self._free.append(self.slots.pop(query))

    def tidied(self, books: Books) -> Books:
        """Return the books without types that no query has, if they are many."""
        if len(self.types) <= _FEW + self.kept + 2 * len(self.slots):
            return books
        live = set(books.type_of[list(self.slots.values())].tolist()) | set(range(self.kept))
        kept = [(key, old) for key, old in self.types.items() if old in live]
        number = np.zeros(len(self.types), np.int64)
        number[[old for _, old in kept]] = np.arange(len(kept))
        self.types = {key: new for new, (key, _) in enumerate(kept)}
        starts = np.cumsum([0, *(len(key) for key in self.types)], dtype=np.int64)
        members = np.array([s for key in self.types for s in key], dtype=np.int64)
        slots = list(self.slots.values())
        books.type_of[slots] = number[books.type_of[slots]]
        if books.hosted.start.shape[0]:
            old = [old for _, old in kept]
            rows = {
                name: np.append(getattr(books.hosted, name)[old], getattr(books.hosted, name)[:1] * 0)
                for name in ("start", "size", "room")
            }
            books = books._replace(hosted=books.hosted._replace(**rows))
        return books._replace(type_start=starts, type_source=members)


def grown(array: Any, size: int, *, fill: int = 0) -> Any:
    """Return an array of at least that size: the same, or a copy of twice the length."""
    if array.shape[0] >= size:
        return array
    wide = np.full((max(size, 2 * array.shape[0]), *array.shape[1:]), fill, array.dtype)
    wide[: array.shape[0]] = array
    return wide
