"""Rows that wait for some computations of a template, and how far each of these has come with them.

The rows are in *chunks*, which are written once and shared: by all templates of a server that wait for the same rows, and
by the works of several batches that are merged into one. What changes from batch to batch is the *head*, which is small.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.sql.blame import ids_of, owners_of
from headgate.sql.clock import NEVER, Clock
from headgate.sql.shared import Label, Work

Ids = NDArray[np.int64]
WAITING = -(1 << 62)
"""The pieces of rows that wait have labels from here on: this and the number of their batch. No pane is that early."""
MOST_MERGED = 100_000
"""How many rows are merged into one."""
_SOURCE = re.compile(r"s\d+")


def waits(label: Label) -> bool:
    """Whether a label is that of rows that wait."""
    return label < WAITING // 2


class Chunk:
    """Rows that were put aside together, and where they are stored, if they are. They are read when they are needed."""

    def __init__(
        self, table: pa.Table | None = None, *, ref: Any = None, rows: int = 0, load: Any = None
    ) -> None:
        self.ref = ref
        self.rows = rows if table is None else table.num_rows
        self._table, self._load = table, load

    @property
    def table(self) -> pa.Table:
        """The rows."""
        if self._table is None:
            self._table = self._load(self.ref)
        return self._table


class Part(NamedTuple):
    """Computations that are tried together, and how far they have come."""

    ids: Ids
    done: int = 0
    """How many rows of its sources it has had: only a single computation is tried with fewer than all."""
    step: int = 0
    """How many rows it is tried with next; 0 for all."""


@dataclass(frozen=True)
class Deferred:
    """The rows of one batch, or of several, that wait for some computations; with the watermarks of their sources then."""

    batch: int
    chunks: tuple[Chunk, ...]
    sources: Ids
    old: Ids
    new: Ids
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, work: Work, parts: Sequence[Part], shared: dict[Any, Chunk]) -> Deferred:
        """What of a work has to wait. Templates that read the same columns of the same sources share the rows."""
        ids = np.concatenate([part.ids for part in parts])
        waiting = work.constants.filter(pa.array(np.isin(ids_of(work.constants), ids)))
        sources = read_by(waiting)
        columns = ("source", "time", *(s for s in work.template.slots[0] if s not in ("source", "time")))
        key = (id(work.rows), columns, sources.tobytes())
        if key not in shared:
            shared[key] = Chunk(rows_of(work.rows.select(columns), sources).combine_chunks())
        old, new = work.clock.old[sources], work.clock.new[sources]
        return cls(work.batch, (shared[key],), sources, old, new, tuple(parts))

    # -- as pieces of state: the head, and after it the chunks

    def head(self) -> pa.Table:
        """All but the rows, as a table without any."""
        ids = [part.ids for part in self.parts]
        numbers = {
            "sources": self.sources,
            "old": self.old,
            "new": self.new,
            "ids": self.ids,
            "cuts": np.cumsum([len(part) for part in ids])[:-1],
            "done": np.array([part.done for part in self.parts]),
            "step": np.array([part.step for part in self.parts]),
        }
        meta = {name: values.astype(np.int64).tobytes() for name, values in numbers.items()}
        empty = pa.table({"rows": pa.array([], pa.null())})
        return empty.replace_schema_metadata(
            {**meta, "batch": str(self.batch), "chunks": str(len(self.chunks))}
        )

    @classmethod
    def of_pieces(
        cls, pieces: Sequence[Any], load: Callable[[Any], pa.Table], chunk: Callable[[Any], Chunk]
    ) -> Iterator[tuple[Any, Deferred]]:
        """Read what was written under one label: heads with their chunks, and the piece of each head. `chunk` makes
        one of a piece, and `load` reads a head. An earlier version wrote rows and head as one table.
        """
        following = iter(pieces)
        for piece in following:
            head = load(piece)
            meta = head.schema.metadata
            if b"chunks" in meta:
                chunks = [chunk(next(following)) for _ in range(int(meta[b"chunks"]))]
            else:
                chunks = [Chunk(head.replace_schema_metadata(None))]
            numbers = {
                name: np.frombuffer(meta[name.encode()], np.int64) for name in ("sources", "old", "new")
            }
            yield piece, cls(int(meta[b"batch"]), tuple(chunks), **numbers, parts=tuple(_parts_of(meta)))

    # -- what is in it

    @cached_property
    def ids(self) -> Ids:
        """All computations that wait."""
        return np.concatenate([np.zeros(0, np.int64), *(part.ids for part in self.parts)])

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(chunk.rows for chunk in self.chunks)

    @cached_property
    def rows(self) -> pa.Table:
        """The rows of the sources that these computations read, in the order in which they came."""
        first, *others = [rows_of(chunk.table, self.sources) for chunk in self.chunks]
        return pa.concat_tables([first, *(table.select(first.column_names) for table in others)])

    def clock(self, sources: int) -> Clock:
        """The clock of that batch, for so many sources."""
        old, new = np.full(sources, NEVER), np.full(sources, NEVER)
        old[self.sources], new[self.sources] = self.old, self.new
        return Clock(old, new)

    # -- other forms of it

    def among(self, constants: pa.Table) -> Deferred | None:
        """The part for computations of this table, each part with one tenant; None if there is none. Ids are used
        again, so one that was born later is another.
        """
        here = constants.filter(pa.array(constants.column("born").to_numpy() <= self.batch))
        ids, owners = ids_of(here), owners_of(here)
        order = np.argsort(ids)
        parts = list[Part]()
        for part in self.parts:
            found = part.ids[np.isin(part.ids, ids)]
            whose = owners[order[np.searchsorted(ids, found, sorter=order)]] if len(found) else found
            parts += [part._replace(ids=found[whose == owner]) for owner in np.unique(whose)]
        if not parts:
            return None
        read = read_by(here.filter(pa.array(np.isin(ids, np.concatenate([part.ids for part in parts])))))
        kept = np.isin(self.sources, read)
        some = self.sources[kept], self.old[kept], self.new[kept]
        return Deferred(self.batch, self.chunks, *some, tuple(parts))

    def where(self, kept: NDArray[np.bool_]) -> Deferred:
        """The same for some of its computations, in the order of `ids`; parts without any are left out."""
        if kept.all():
            return self
        cuts = np.cumsum([len(part.ids) for part in self.parts])[:-1]
        parts = [
            part._replace(ids=part.ids[some])
            for part, some in zip(self.parts, np.split(kept, cuts), strict=True)
        ]
        return replace(self, parts=tuple(part for part in parts if len(part.ids)))

    def without(self, ids: Ids) -> Deferred | None:
        """The same without some computations; None if none is left."""
        left = self.where(~np.isin(self.ids, ids))
        return left if left.parts else None

    def followed_by(self, later: Deferred) -> Deferred | None:
        """The work of two batches as one, if the same computations wait for both, and it is not too large."""
        same = np.array_equal(np.sort(self.ids), np.sort(later.ids))
        joined = same and np.array_equal(self.sources, later.sources) and np.array_equal(self.new, later.old)
        begun = any(part.done for part in (*self.parts, *later.parts))
        if not joined or begun or self.count + later.count > MOST_MERGED:
            return None
        return replace(self, chunks=(*self.chunks, *later.chunks), new=later.new)


def _parts_of(meta: Any) -> Iterator[Part]:
    ids, cuts = (np.frombuffer(meta[name], np.int64) for name in (b"ids", b"cuts"))
    parts = np.split(ids, cuts)
    none = np.zeros(len(parts), np.int64).tobytes()
    done, step = (np.frombuffer(meta.get(name, none), np.int64) for name in (b"done", b"step"))
    for part, had, tried in zip(parts, done.tolist(), step.tolist(), strict=True):
        yield Part(part, had, tried)


def rows_of(rows: pa.Table, sources: Ids) -> pa.Table:
    """The rows of some sources."""
    mine = np.isin(rows.column("source").to_numpy(), sources)
    return rows if mine.all() else rows.filter(pa.array(mine))


def read_by(constants: pa.Table) -> Ids:
    """The sources that some computations read."""
    return np.unique(np.concatenate(source_columns(constants))).astype(np.int64)


def source_columns(constants: pa.Table) -> list[Ids]:
    """By place in the statement: the source that each computation reads there."""
    return [constants.column(name).to_numpy() for name in constants.column_names if _SOURCE.fullmatch(name)]
