"""The backlog: per bin a queue of rows that were admitted and not yet processed.

It is Flux's transient-skew buffer, the spool of a bin on disk and the waiting room of a bin whose state is on its way:
one mechanism. Here it is values; the rows are in files, one section per bin and batch, and what the queue names is
committed with the batch. Law: the rows of a bin leave in the order in which they came, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headgate.ids import Bin


@dataclass(frozen=True, slots=True)
class Waiting:
    """Some rows of one bin: the file that holds them, how many, and their bytes (in memory; a file has some more)."""

    file: str
    bin: Bin
    rows: int
    bytes: int


@dataclass(frozen=True)
class Backlog:
    """What waits, oldest first.

    >>> backlog = Backlog().after(Backlog(), [Waiting("a", 3, 10, 80), Waiting("a", 5, 1, 8)])
    >>> backlog.after([Waiting("a", 3, 10, 80)], [Waiting("b", 5, 2, 16)]).rows
    {5: 3}
    """

    entries: tuple[Waiting, ...] = ()

    def __iter__(self) -> Any:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def rows(self) -> Mapping[Bin, int]:
        """Rows that wait, by bin."""
        return self._sum("rows")

    @cached_property
    def bytes(self) -> Mapping[Bin, int]:
        """Bytes that wait, by bin."""
        return self._sum("bytes")

    def _sum(self, what: str) -> dict[Bin, int]:
        found: dict[Bin, int] = {}
        for one in self.entries:
            found[one.bin] = found.get(one.bin, 0) + getattr(one, what)
        return found

    @property
    def files(self) -> frozenset[str]:
        """The files that are still needed."""
        return frozenset(one.file for one in self.entries)

    def of(self, bins: Iterable[Bin]) -> tuple[Waiting, ...]:
        """What waits for some bins, oldest first."""
        wanted = frozenset(bins)
        return tuple(one for one in self.entries if one.bin in wanted)

    def after(self, taken: Iterable[Waiting], added: Iterable[Waiting]) -> Backlog:
        """The backlog once some of it was taken, and other rows came."""
        gone = frozenset(taken)
        return Backlog((*(one for one in self.entries if one not in gone), *added))

    def to_json(self) -> list[list[Any]]:
        """JSON-native values."""
        return [[one.file, one.bin, one.rows, one.bytes] for one in self.entries]

    @classmethod
    def from_json(cls, data: Iterable[Iterable[Any]]) -> Backlog:
        """Read what `to_json` wrote."""
        return cls(tuple(Waiting(*one) for one in data))
