"""Reads the state of a bin back from the checkpoint: from its own chain of files, or from those
of the bins that it is made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headgate.operators.base import BoundOperator
from headgate.routing.reshape import BinPart
from headgate.state.index import FOREVER
from headgate.state.section import Extract, apply, apply_removed, extract, join_extracts, take
from headgate.state.table import BinTable
from headgate.storage import state_file
from headgate.storage.section_file import Contents
from headgate.storage.state_index import StateIndex
from headgate.storage.store import Store


@dataclass(frozen=True)
class BinReader:
    """The committed state of a stage; `reshaped` says which committed bins a new bin is made of."""

    operator: BoundOperator
    index: StateIndex
    store: Store
    reshaped: Mapping[int, tuple[BinPart, ...]]
    _known: dict[str, Contents] = field(default_factory=dict, repr=False, compare=False)
    """The footers of the files read so far, and the small files themselves: other bins are in them, too."""

    def of(self, b: int) -> Stored:
        """Bin b, for a cache that lacks it."""
        return Stored(self, b)

    def read(self, b: int, table: BinTable) -> None:
        """Fill an empty table with the state of bin b. Of the pieces of a split key one has its state; if an
        older version left some with several of them, it is merged.
        """
        for _ in self.steps(b, table, ""):
            pass

    def steps(self, b: int, table: BinTable, since: str) -> Iterator[str]:
        """Bring a table up to the state of bin b that stands for the file `since` of its chain, or is empty, file after
        file; their names are returned.
        """
        if since:
            table.begin()
        sources = self.reshaped.get(b, (BinPart(b, frozenset(), True),))
        table.due = min((self.index.due.get(source.bin, FOREVER) for source in sources), default=FOREVER)
        pieces = Counter(source.hashes for source in sources if not source.without)
        for source in sources:
            if source.without or pieces[source.hashes] == 1:
                yield from self._copied(source, table, since)
        for hashes in (hashes for hashes, times in pieces.items() if times > 1):
            merged = self._merged([source for source in sources if source.hashes == hashes])
            if merged is not None:
                apply(table, merged)

    def _merged(self, sources: list[BinPart]) -> Extract | None:
        states = []
        for source in sources:
            table = BinTable.create(self.operator.layout)
            for _ in self._copied(source, table, ""):
                pass
            if table.rows:
                states.append(extract(table, table.live, whole=True))
        return self.operator.merge(join_extracts(states)) if len(states) > 1 else next(iter(states), None)

    def _copied(self, source: BinPart, table: BinTable, since: str) -> Iterator[str]:
        names, layout = self.chain(source.bin), self.operator.layout
        for name in names[names.index(since) + 1 if since else 0 :]:
            for _, kind, section in state_file.read(self.store, name, layout, {source.bin}, self._known):
                wanted = section if not source.hashes else take(section, _rows(section, source))
                apply_removed(table, wanted) if kind == state_file.GONE else apply(table, wanted)
            yield name

    def chain(self, b: int) -> list[str]:
        """The names of the files that make up bin b, oldest first."""
        return [file.name for file in self.index.chain(b)]


@dataclass(frozen=True)
class Stored:
    """One bin (`bin_cache.StoredBin`). A reshaped bin is made of others, so it has no chain of its own."""

    reader: BinReader
    bin: int

    @property
    def rows(self) -> int:
        """How many rows it has, as far as that is known."""
        return self.reader.index.keys.get(self.bin, 0)

    @property
    def heap(self) -> int:
        """How many bytes of them are of variable length."""
        layout = self.reader.operator.layout
        size = self.reader.index.sizes.get(self.bin, 0) - self.rows * layout.row_bytes
        return size if layout.heap_refs and size > 0 else 0

    def chain(self) -> list[str]:
        """The names of its files."""
        return [] if self.bin in self.reader.reshaped else self.reader.chain(self.bin)

    def steps(self, table: BinTable, since: str) -> Iterator[str]:
        """Bring a table up to date, file after file."""
        return self.reader.steps(self.bin, table, since)


def _rows(section: Extract, source: BinPart) -> NDArray[np.int64]:
    return np.flatnonzero(belongs(section.keys.hashes, source))


def belongs(hashes: NDArray[np.int64], source: BinPart) -> NDArray[np.bool_]:
    """Which keys, by their hashes, a reshaped bin takes from one of its sources."""
    named: NDArray[np.bool_] = np.isin(hashes, np.fromiter(source.hashes, np.int64))
    return ~named if source.without else named
