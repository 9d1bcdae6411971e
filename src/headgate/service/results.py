"""Results as readers see them: by query, in order, from a cursor on.

Results lie once per computation in the files that batches committed; which query may see which is decided here: those of
its computation, from the batch on in which it began, and of windows only those that began after all that the source had
brought by then.
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

from headgate.errors import CheckpointError, ConfigError, CursorGone
from headgate.service.batch.manifest import ServingManifest, Stored
from headgate.service.batch.piece_file import RESULTS, read_table
from headgate.sql.clock import NEVER
from headgate.sql.template import Mode, Template
from headgate.storage.store import Store

MOST_BYTES = 256 << 20
"""Of sections that are kept decoded: those that readers ask for again and again are the newest."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class View:
    """What a query may see: of which computation, from which batch, and windows that begin after when."""

    query: int
    computation: int
    template: int
    since: int
    after_us: int = NEVER


@dataclass(frozen=True)
class Cursor:
    """The next row that a reader has not seen: of a batch, so many rows in."""

    batch: int
    row: int = 0

    def __str__(self) -> str:
        return f"{self.batch}.{self.row}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The reverse of str()."""
        batch, _, row = text.partition(".")
        if not batch.isdecimal() or not (row or "0").isdecimal() or len(text) > 40:
            raise ConfigError(
                f"cursor {text!r}: use one that came with results, or leave it out to begin at the beginning"
            )
        return cls(int(batch), int(row or 0))


class Results:
    """Reads the results of committed batches."""

    def __init__(self, store: Store, history: Sequence[ServingManifest]) -> None:
        self._store, self._history = store, history
        self._tables: OrderedDict[tuple[str, int], tuple[Any, pa.Table]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def read(
        self, view: View, template: Template, cursor: Cursor | None = None, limit: int = 1000
    ) -> tuple[list[dict[str, Any]], Cursor]:
        """Rows from a cursor on, at most so many, and the cursor behind them."""
        history = list(self._history)
        first = history[0].batch if history else 0
        at = cursor or Cursor(max(view.since, first))
        if at.batch < first and at.batch >= view.since:
            raise _gone(at.batch, first)
        rows = list[dict[str, Any]]()
        for manifest in history[max(0, at.batch - first) :]:
            if manifest.batch < max(at.batch, view.since):
                continue
            try:
                found = self._batch(manifest, view, template)
            except CheckpointError:
                if self._history[0].batch <= manifest.batch:
                    raise
                raise _gone(manifest.batch, self._history[0].batch) from None  # let go while it was read
            skip = at.row if manifest.batch == at.batch else 0
            taken = found[skip : skip + limit - len(rows)]
            rows += taken
            at = Cursor(manifest.batch, skip + len(taken))
            if len(rows) >= limit:
                return rows, at
            at = Cursor(manifest.batch + 1)
        return rows, at

    def _batch(self, manifest: ServingManifest, view: View, template: Template) -> list[dict[str, Any]]:
        """A batch's rows; the last says how many more were cut off, if any were."""
        rows = list[dict[str, Any]]()
        for stored in manifest.results.get(view.template, ()):
            ids, table = self._table(stored)
            low, high = np.searchsorted(ids, [view.computation, view.computation + 1])
            for row in table.slice(low, high - low).to_pylist():
                if template.mode is Mode.panes and row["at"] <= view.after_us:
                    continue
                rows.append(shown(row, template, view.query, manifest.batch))
        rows.sort(key=lambda row: row["window"]["start"] if "window" in row else row["time"])
        if rows and view.computation in manifest.cut:
            rows[-1]["cut"] = manifest.cut[view.computation]
        return rows

    def _table(self, stored: Stored) -> tuple[Any, pa.Table]:
        key = (stored.file, stored.at)
        with self._lock:
            if key in self._tables:
                self._tables.move_to_end(key)
                return self._tables[key]
        table = read_table(self._store, RESULTS, stored)
        found = (table.column("id").to_numpy(), table)
        with self._lock:
            if key not in self._tables:
                self._tables[key] = found
                self._bytes += table.nbytes
            while self._bytes > MOST_BYTES and len(self._tables) > 1:
                self._bytes -= self._tables.popitem(last=False)[1][1].nbytes
        return found


def _gone(batch: int, first: int) -> CursorGone:
    return CursorGone(f"results of batch {batch} are no longer kept: the oldest are of batch {first}")


def shown(row: Mapping[str, Any], template: Template, query: int, batch: int) -> dict[str, Any]:
    """A result as JSON has it."""
    values = {name: plain(row[f"o{i}"]) for i, name in enumerate(template.names)}
    found: dict[str, Any] = {"query": query, "batch": batch}
    if template.mode is Mode.panes:
        found["window"] = {"start": moment(row["at"]), "end": moment(row["at"] + template.size_us)}
    else:
        found["time"] = moment(row["at"])
    return {**found, "values": values}


def moment(micros: int) -> str:
    """Microseconds since 1970 as people write it."""
    return (EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON cannot say is text."""
    if isinstance(value, datetime):
        return value.isoformat() + ("" if value.tzinfo else "Z")
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
