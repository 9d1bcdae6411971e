"""Which computations a batch can concern, found from their constants before any statement runs: by source, and for a join
also by the times of the rows that could meet.

Law: a computation that is left out has no result in the batch. The cost is a few array operations over all computations of
a template, and no statement is run for a template that no row touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.sql.clock import Times, times_of
from headgate.sql.template import Template

NONE = 1 << 61
"""The first time of no rows; the last is its negative."""


def present(rows: pa.Table, sources: int) -> NDArray[np.bool_]:
    """By source number: whether a batch has rows of it."""
    found = np.zeros(sources, bool)
    found[rows.column("source").to_numpy()] = True
    return found


def touched(template: Template, constants: pa.Table, sources: NDArray[np.bool_]) -> pa.Table:
    """The computations that read one of these sources."""
    hit = np.zeros(constants.num_rows, bool)
    for i in range(template.sources):
        hit |= sources[constants.column(f"s{i}").to_numpy()]
    return constants if hit.all() else constants.filter(pa.array(hit))


@dataclass(frozen=True)
class Spans:
    """By source number: the times of the first and the last of some rows."""

    first: Times
    last: Times

    @classmethod
    def of(cls, rows: pa.Table, sources: int) -> Spans:
        """The spans of rows, of which some may have no source's."""
        first, last = np.full(sources, NONE), np.full(sources, -NONE)
        source, time = rows.column("source").to_numpy(), times_of(rows)
        np.minimum.at(first, source, time)
        np.maximum.at(last, source, time)
        return cls(first, last)

    def __or__(self, other: Spans) -> Spans:
        return Spans(np.minimum(self.first, other.first), np.maximum(self.last, other.last))


@dataclass(frozen=True)
class JoinIndex:
    """The spans of the rows that the joins of a server read in a batch: new ones, earlier ones, and both."""

    fresh: Spans
    kept: Spans
    lately: Spans

    @classmethod
    def of(cls, fresh: pa.Table, kept: pa.Table, sources: int) -> JoinIndex:
        """The index of the rows that are new, and of those that were kept."""
        new, before = Spans.of(fresh, sources), Spans.of(kept, sources)
        return cls(new, before, new | before)

    def candidates(self, template: Template, constants: pa.Table, lead: int) -> pa.Table:
        """The computations that may have a tuple in which source `lead` has the first of the new rows."""
        spans = list[tuple[Times, Times]]()
        for i in range(template.sources):
            rows = self.fresh if i == lead else self.kept if i < lead else self.lately
            number = constants.column(f"s{i}").to_numpy()
            spans.append((rows.first[number], rows.last[number]))
        can = np.ones(constants.num_rows, bool)
        for first, last in spans:
            can &= first <= last
        first, last = spans[0]
        for (earliest, latest), (before, after) in zip(spans[1:], template.bounds, strict=True):
            can &= (latest >= first - before) & (earliest <= last + after)
        return constants if can.all() else constants.filter(pa.array(can))


def open_labels(pieces: pa.Table, constants: pa.Table, size_us: int) -> set[int]:
    """The labels of pieces (`id`, `pane`, `batch`, `home`) that a computation still needs: a window that has this pane
    ends after its watermark (`new`), and it was born when the piece was written.
    """
    ids, pane, batch, home = _columns(pieces, "id", "pane", "batch", "home")
    known, born, new = _columns(constants, "id", "born", "new")
    if not len(known) or not len(ids):
        return set()
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known, ids, sorter=order), len(known) - 1)]
    needed = (known[at] == ids) & (batch >= born[at]) & (pane + size_us > new[at])
    return set(np.unique(home[needed]).tolist())


def _columns(table: pa.Table, *names: str) -> Sequence[NDArray[np.int64]]:
    return [np.asarray(table.column(name).to_numpy()) for name in names]
