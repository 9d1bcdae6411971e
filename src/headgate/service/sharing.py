"""Which queries share a computation. Most computations have one query, so a single one is kept without a set."""

from __future__ import annotations

from collections.abc import Collection


class Sharing:
    """The queries of all computations.

    >>> sharing = Sharing()
    >>> sharing.add(7, 1), sharing.add(7, 2), sorted(sharing.of(7))
    (None, 1, [1, 2])
    >>> sharing.remove(7, 1), sharing.remove(7, 2), list(sharing.of(7))
    (2, None, [])
    """

    def __init__(self) -> None:
        self._queries: dict[int, int | set[int]] = {}

    def of(self, computation: int) -> Collection[int]:
        """The queries of a computation."""
        found = self._queries.get(computation, ())
        return (found,) if isinstance(found, int) else found

    def add(self, computation: int, query: int) -> int | None:
        """Add a query; returns one that had the computation before, if any had."""
        found = self._queries.setdefault(computation, query)
        if found == query:
            return None
        if isinstance(found, int):
            self._queries[computation] = {found, query}
            return found
        other = next(iter(found))
        found.add(query)
        return other

    def remove(self, computation: int, query: int) -> int | None:
        """Remove a query; returns one that still has the computation, if any has."""
        found = self._queries[computation]
        if isinstance(found, set):
            found.discard(query)
            if found:
                return next(iter(found))
        del self._queries[computation]
        return None
