"""What a server's task writes: pieces of state, and results, which go to disk while they are made if they are large."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from headgate.service.batch.waiting import WaitingFiles, placed
from headgate.service.manifest import StoredTable
from headgate.service.table_file import RESULTS, STATE, EncodedTable, encode, write_tables
from headgate.service.tenant_use import Owners
from headgate.sql.blame import ids_of, owners_of
from headgate.sql.deferral import TemplateRun
from headgate.sql.shared import Label
from headgate.storage.store import Store

MAX_WAITING_BYTES = 64 << 20
"""How many bytes of results wait in memory until they are written."""


class TaskOutput:
    """Collects what one attempt at a server's batch gives, and writes it under a name that no other attempt uses."""

    def __init__(self, store: Store, file_name: str, batch: int, waiting: WaitingFiles) -> None:
        self._store, self._file_name, self._batch, self._waiting = store, file_name, batch, waiting
        self._state: list[tuple[int, Label, EncodedTable | StoredTable]] = []
        self._results: list[EncodedTable] = []
        self._spilled: list[tuple[int, StoredTable]] = []
        """Results that are on disk already."""
        self._owners: dict[int, Owners] = {}
        self.gone: list[tuple[int, int]] = []
        """(template, label) of the pieces that are obsolete."""
        self.results_of: dict[int, tuple[int, int]] = {}
        """By tenant: rows and bytes of results."""

    def keep_results(self, template: int, run: TemplateRun) -> None:
        """Encode the results that a template has by now."""
        for batch, table in run.results:
            owners = self._owners_of(template, run).weights(table.column("id").to_numpy())
            encoded = encode(table, template, batch, owners=owners)
            self._results.append(encoded)
            for owner, rows in owners:
                before, size = self.results_of.get(owner, (0, 0))
                part = len(encoded.data) * rows // max(1, table.num_rows)
                self.results_of[owner] = (before + rows, size + part)
            if sum(len(encoded.data) for encoded in self._results) > MAX_WAITING_BYTES:
                self._spill()
        run.results.clear()

    def keep_state(self, template: int, run: TemplateRun) -> None:
        """Encode the state that a template has after the batch."""
        owners = self._owners_of(template, run)
        self.gone += [(template, label) for label in sorted(run.gone)]
        for label, tables in run.written.items():
            if (whole := pa.concat_tables(tables)).num_rows:
                whose = owners.weights(whole.column("id").to_numpy())
                self._state.append((template, label, encode(whole, template, label, owners=whose)))
        for label, deferred in run.put_aside.items():
            pieces = self._waiting.pieces(deferred, template, label, owners)
            self._state += [(template, label, piece) for piece in pieces]

    def add_state(self, template: int, label: Label, table: pa.Table) -> None:
        """Keep a table as state, if it has rows."""
        if table.num_rows:
            self._state.append((template, label, encode(table, template, label)))

    def _owners_of(self, template: int, run: TemplateRun) -> Owners:
        if template not in self._owners:
            constants = run.work.constants
            self._owners[template] = Owners(ids_of(constants), owners_of(constants))
        return self._owners[template]

    # -- to disk

    def write_state(self) -> list[tuple[int, int, StoredTable]]:
        """Write all state; returns where each piece is."""

        def write(tables: list[EncodedTable]) -> list[StoredTable]:
            return write_tables(self._store, STATE, self._file_name, self._batch, tables)

        return placed(self._state, write)

    def write_results(self) -> list[tuple[int, StoredTable]]:
        """Write the results that are not yet on disk; returns where all of them are."""
        self._spill()
        return self._spilled

    def _spill(self) -> None:
        """Write the results that are in memory."""
        if self._results:
            name = f"{self._file_name}-{len(self._spilled)}" if self._spilled else self._file_name
            written = write_tables(self._store, RESULTS, name, self._batch, self._results)
            self._spilled += [
                (e.labels[0], replace(stored, batch=e.labels[1]))  # the batch whose rows they are of
                for e, stored in zip(self._results, written, strict=True)
            ]
            self._results.clear()
