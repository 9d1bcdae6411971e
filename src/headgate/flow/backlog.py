"""The backlog: for each bin, a queue of rows that were admitted and not yet processed.

Three things wait here by one mechanism: the rows that overflow from a slow channel (Flux's
transient-skew buffer), the rows of a bin whose state is on disk, and the rows of a bin whose state
is being moved. This module has values only. The rows are in files, with one section for each bin
and batch, and the entries that name them are committed with the batch.

Law: the rows of a bin leave in the order in which they came, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

from headgate.ids import Bin


@dataclass(frozen=True, slots=True)
class BacklogEntry:
    """Rows of one bin that wait in a file: how many, and their bytes in memory (the
    file is slightly larger).
    """

    file: str
    bin: Bin
    rows: int
    bytes: int
    batch: int = -1
    """The batch in which they came; -1 if nobody has written it down."""


@dataclass(frozen=True)
class Backlog:
    """The entries that wait, oldest first.

    >>> backlog = Backlog().after(Backlog(), [BacklogEntry("a", 3, 10, 80), BacklogEntry("a", 5, 1, 8)])
    >>> backlog.after([BacklogEntry("a", 3, 10, 80)], [BacklogEntry("b", 5, 2, 16)]).rows
    {5: 3}
    """

    entries: tuple[BacklogEntry, ...] = ()

    def __iter__(self) -> Iterator[BacklogEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def rows(self) -> Mapping[Bin, int]:
        """The number of rows that wait, by bin."""
        return self._sum("rows")

    @cached_property
    def bytes(self) -> Mapping[Bin, int]:
        """The bytes of the rows that wait, by bin."""
        return self._sum("bytes")

    def _sum(self, field: str) -> dict[Bin, int]:
        totals: dict[Bin, int] = {}
        for entry in self.entries:
            totals[entry.bin] = totals.get(entry.bin, 0) + getattr(entry, field)
        return totals

    @property
    def files(self) -> frozenset[str]:
        """The files that are still needed."""
        return frozenset(entry.file for entry in self.entries)

    def of(self, bins: Iterable[Bin]) -> tuple[BacklogEntry, ...]:
        """The entries of the given bins, oldest first."""
        wanted = frozenset(bins)
        return tuple(entry for entry in self.entries if entry.bin in wanted)

    def after(self, taken: Iterable[BacklogEntry], added: Iterable[BacklogEntry]) -> Backlog:
        """The backlog without the entries that were taken, followed by those that were added."""
        removed = frozenset(taken)
        return Backlog((*(entry for entry in self.entries if entry not in removed), *added))

    def to_json(self) -> list[list[Any]]:
        """JSON-native values."""
        return [list(astuple(entry)) for entry in self.entries]

    @classmethod
    def from_json(cls, data: Iterable[Iterable[Any]]) -> Backlog:
        """Read what `to_json` wrote."""
        return cls(tuple(BacklogEntry(*values) for values in data))
