"""Results as readers see them: by query, in order, from a cursor on.

Batches store results once per computation. This module decides which of them a query sees: the results of its
computation, from the batch on in which the query began, and of windows only those that began after everything that the
source had brought until then. So no query sees the result of half a window. Of an outer join it sees the rows whose
partners cannot have come before the query began, so no row seems to be without one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import CheckpointError, ConfigError, CursorGone
from headgate.service.manifest import BatchManifest, StoredTable
from headgate.service.table_file import RESULTS, read_table
from headgate.sql.clock import NEVER
from headgate.sql.template import Mode, Template
from headgate.storage.store import Store

CACHE_BYTES = 256 << 20
"""How much of the decoded results stays in memory: readers ask for the newest again and again."""
FIRST_US, LAST_US = (
    int((moment - datetime(1970, 1, 1)).total_seconds()) * 1_000_000
    for moment in (datetime(1, 1, 2), datetime(9999, 12, 30))
)
"""The times that Python has dates for."""
INFINITE_US = (1 << 63) - 2
"""The engine's infinity."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class View:
    """What a query may see: the results of a computation from batch `since` on, and windows that begin after `after_us`."""

    query: int
    computation: int
    template: int
    since: int
    after_us: int = NEVER
    first: int = 0
    """The first batch that its tenant may read: what is older has become too much (`usage`)."""


@dataclass(frozen=True)
class Cursor:
    """The next row that a reader has not seen: a batch, and the row's number among the query's rows of that batch."""

    batch: int
    row: int = 0

    def __str__(self) -> str:
        return f"{self.batch}.{self.row}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read what str() gave."""
        batch, _, row = text.partition(".")
        if not batch.isdecimal() or not (row or "0").isdecimal() or len(text) > 40:
            raise ConfigError(
                f"cursor {text!r} is not valid: use one that came with results, or omit it to start at the beginning"
            )
        return cls(int(batch), int(row or 0))


@dataclass(frozen=True)
class Page:
    """Rows of a query that one batch brought."""

    batch: int
    rows: pa.Table
    cut: int = 0
    """How many more there were, which an earlier version cut off."""


class Results:
    """Reads the results of committed batches."""

    def __init__(self, store: Store, history: Sequence[BatchManifest]) -> None:
        self._store, self._history = store, history
        self._cache: OrderedDict[tuple[str, int], tuple[Any, pa.Table]] = OrderedDict()
        self._cache_bytes = 0
        self._lock = threading.Lock()

    def read(
        self, view: View, template: Template, cursor: Cursor | None = None, limit: int = 1000
    ) -> tuple[list[dict[str, Any]], Cursor]:
        """Return at most `limit` rows from a cursor on, and the cursor after them."""
        pages, following = self.pages(view, template, cursor, limit)
        rows = list[dict[str, Any]]()
        for page in pages:
            rows += [result_json(row, template, view.query, page.batch) for row in rows_of(page.rows)]
            if page.cut:
                rows[-1]["cut"] = page.cut
        return rows, following

    def pages(
        self,
        view: View,
        template: Template,
        cursor: Cursor | None = None,
        limit: int = 1000,
        until: Cursor | None = None,
    ) -> tuple[list[Page], Cursor]:
        """The same as tables with the columns `at`, `o0`..., one for each batch that has rows; with `until`, of the rows
        before that cursor.
        """
        history = list(self._history)
        first = history[0].batch if history else 0
        at = cursor or Cursor(max(view.since, first, view.first))
        if at.batch < first and at.batch >= view.since:
            raise _cursor_gone(at.batch, first)
        if at.batch < view.first and at.batch >= view.since:
            raise CursorGone(
                f"results of batch {at.batch} can no longer be read: those of its tenant are more than it may keep (the limit "
                f"is result_bytes). The oldest are those of batch {view.first}: read sooner, or select less"
            )
        pages, count = list[Page](), 0
        for manifest in history[max(0, at.batch - first) :]:
            if manifest.batch < max(at.batch, view.since, view.first):  # a cursor may be older than the query
                continue
            if until is not None and (manifest.batch, 0) >= (until.batch, until.row):
                break
            skip = at.row if manifest.batch == at.batch else 0
            most = limit - count
            if until is not None and manifest.batch == until.batch:
                most = min(most, until.row - skip)
            try:
                page = self._page_of_batch(manifest, view, template, skip, most)
            except CheckpointError:
                if self._history[0].batch <= manifest.batch:
                    raise
                raise _cursor_gone(manifest.batch, self._history[0].batch) from None  # removed while we read
            if page is not None:
                pages.append(page)
            taken = page.rows.num_rows if page is not None else 0
            count += taken
            at = Cursor(manifest.batch, skip + taken)
            if count >= limit or at == until:
                return pages, at
            at = Cursor(manifest.batch + 1)
        # A query may yet begin earlier, with the next batch: a cursor never passes over one that is not there.
        following = Cursor(history[-1].batch + 1 if history else 0)
        return pages, min(at, following, key=lambda cursor: (cursor.batch, cursor.row))

    def _page_of_batch(
        self, manifest: BatchManifest, view: View, template: Template, skip: int, most: int
    ) -> Page | None:
        """At most so many rows of one batch, by time, after the first `skip` of them. Only these are decoded."""
        found = list[pa.Table]()
        for stored in manifest.results.get(view.template, ()):
            if stored.batch < view.since:
                continue  # of rows that waited since before the query began
            ids, table = self._table(stored)
            low, high = np.searchsorted(ids, [view.computation, view.computation + 1])
            if high > low:
                found.append(table.slice(low, high - low))
        if not found:
            return None
        whole = pa.concat_tables(found)
        times = whole.column("at").to_numpy()
        order = np.argsort(times, kind="stable")
        if template.mode is Mode.panes or template.outer_on:
            order = order[times[order] > view.after_us + template.warm_us]
        chosen = order[skip : skip + most]
        if not len(chosen):
            return None
        cut = manifest.cut.get(view.computation, 0) if skip + len(chosen) == len(order) else 0
        return Page(manifest.batch, whole.take(pa.array(chosen)), cut)

    def _table(self, stored: StoredTable) -> tuple[Any, pa.Table]:
        """A table of results, which is sorted by computation, and its column of computation ids."""
        key = (stored.file, stored.at)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        table = read_table(self._store, RESULTS, stored)
        ids_and_table = (table.column("id").to_numpy(), table)
        with self._lock:
            if key not in self._cache:
                self._cache[key] = ids_and_table
                self._cache_bytes += table.nbytes
            while self._cache_bytes > CACHE_BYTES and len(self._cache) > 1:
                _, (_, evicted) = self._cache.popitem(last=False)
                self._cache_bytes -= evicted.nbytes
        return ids_and_table


def _cursor_gone(batch: int, first: int) -> CursorGone:
    return CursorGone(f"results of batch {batch} are no longer kept: the oldest are those of batch {first}")


def result_json(row: Mapping[str, Any], template: Template, query: int, batch: int) -> dict[str, Any]:
    """A result as the HTTP API shows it."""
    values = {name: _json_value(row[f"o{i}"]) for i, name in enumerate(template.names)}
    body: dict[str, Any] = {"query": query, "batch": batch}
    if template.mode is Mode.panes:
        body["window"] = {"start": _iso(row["at"]), "end": _iso(row["at"] + template.size_us)}
    else:
        body["time"] = _iso(row["at"])
    return {**body, "values": values}


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of results as Python values. A time that Python has no date for is text."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            us = table.column(at).cast(pa.timestamp("us", field.type.tz)).cast(pa.int64())
            ends = pc.min_max(us).as_py()
            if ends["min"] is not None and (ends["min"] < FIRST_US or ends["max"] > LAST_US):
                table = table.set_column(at, field.name, pa.array([_far(one) for one in us.to_pylist()]))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _far(us: int | None) -> str | None:
    """A time of any year as text."""
    if us is None:
        return None
    if abs(us) >= INFINITE_US:
        return "infinity" if us > 0 else "-infinity"
    return f"{np.datetime64(us, 'us')}Z"


def _iso(us: int) -> str:
    """Microseconds since 1970 as an ISO date and time."""
    return (EPOCH + timedelta(microseconds=us)).isoformat().replace("+00:00", "Z")


def _json_value(value: Any) -> Any:
    """A value as JSON can carry it; what JSON has no type for becomes text."""
    if isinstance(value, datetime):
        return value.isoformat() + ("" if value.tzinfo else "Z")
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
