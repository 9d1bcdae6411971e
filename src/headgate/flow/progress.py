"""Progress inside of nested scopes: stamps, frontiers, and what is outstanding at each
stamp (Faucet, section 3).

A stamp is a tuple of counters, one for each scope around the data: `enter` appends a counter,
`leave` removes it. Stamps of the same depth are compared in each coordinate (the product order), so
some pairs have no order. `Progress` counts what is outstanding at each stamp. Its frontier says
which stamps may still be seen; a stamp that the frontier has passed never comes again.

Law: whoever makes work at a new stamp from work at an old one adds the new before removing the old,
and the new stamp does not precede the old one. Then a stamp that was passed stays passed, whatever
the shape of the graph: a cycle needs no rule of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from headgate.errors import ConfigError

Stamp: TypeAlias = tuple[int, ...]
"""One counter for each nested scope, the outermost first."""


def enter(stamp: Stamp, counter: int = 0) -> Stamp:
    """The stamp inside one more scope.

    >>> enter((3,), 5)
    (3, 5)
    """
    return (*stamp, counter)


def leave(stamp: Stamp) -> Stamp:
    """The stamp outside the innermost scope.

    >>> leave((3, 5))
    (3,)
    """
    if not stamp:
        raise ConfigError("the stamp () is in no scope and cannot leave one")
    return stamp[:-1]


def precedes(first: Stamp, second: Stamp) -> bool:
    """Whether the first stamp is at most the second in every coordinate.

    >>> precedes((1, 2), (1, 3)), precedes((1, 3), (2, 2)), precedes((2, 2), (1, 3))
    (True, False, False)
    """
    if len(first) != len(second):
        raise ConfigError(
            f"{first} and {second} are stamps of different scopes; enter or leave one of them first"
        )
    return all(a <= b for a, b in zip(first, second, strict=True))


@dataclass(frozen=True)
class Frontier:
    """The least stamps that may still come, an antichain. `in` tests whether a
    stamp may still come.

    >>> frontier = Frontier.of([(1, 3), (2, 1), (2, 4)])
    >>> sorted(frontier), (1, 2) in frontier, (5, 1) in frontier
    ([(1, 3), (2, 1)], False, True)
    """

    least: frozenset[Stamp] = frozenset()

    @classmethod
    def of(cls, stamps: Iterable[Stamp]) -> Frontier:
        """The frontier of the stamps at which something is outstanding."""
        held = frozenset(stamps)
        return cls(frozenset(s for s in held if not any(precedes(o, s) for o in held if o != s)))

    def __iter__(self) -> Iterator[Stamp]:
        return iter(self.least)

    def __contains__(self, stamp: Stamp) -> bool:
        return any(precedes(held, stamp) for held in self.least)


class Progress:
    """What is outstanding in a scope, by stamp: messages in flight, and rights to
    send more (capabilities).

    >>> progress = Progress()
    >>> progress.update((0, 1), +2)
    >>> progress.passed((0, 0)), progress.passed((0, 1)), progress.passed((1, 1))
    (True, False, False)
    >>> progress.update((0, 1), -2)
    >>> progress.passed((1, 1))
    True
    """

    def __init__(self) -> None:
        self._counts: dict[Stamp, int] = {}

    def update(self, stamp: Stamp, change: int) -> None:
        """Add to what is outstanding at a stamp, or subtract from it."""
        count = self._counts.get(stamp, 0) + change
        if count < 0:
            raise ConfigError(f"cannot remove {-change} at {stamp}, where {count - change} are outstanding")
        if count:
            self._counts[stamp] = count
        else:
            self._counts.pop(stamp, None)

    @property
    def outstanding(self) -> frozenset[Stamp]:
        """The stamps at which something is outstanding."""
        return frozenset(self._counts)

    @property
    def frontier(self) -> Frontier:
        """The least of the outstanding stamps."""
        return Frontier.of(self._counts)

    def passed(self, stamp: Stamp, within: Stamp = ()) -> bool:
        """Whether the frontier has passed a stamp; with `within`, only stamps that begin
        like it are considered.
        """
        depth = len(within)
        return not any(precedes(held, stamp) for held in self._counts if held[:depth] == within)
