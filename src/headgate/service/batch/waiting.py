"""The files of rows that wait: heads are read often and are small, chunks are read when they are needed, and written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from headgate.service.manifest import StoredTable
from headgate.service.table_file import STATE, EncodedTable, encode, read_table
from headgate.service.tenant_use import Owners
from headgate.sql.deferred import Chunk, Deferred, waits
from headgate.sql.shared import Label
from headgate.storage.store import Store

MOST_HEADS = 10_000
"""How many heads a worker process caches."""
_heads: dict[tuple[str, int], pa.Table] = {}


class WaitingFiles:
    """What waits on a server, in one attempt at its batch."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._chunks: dict[tuple[str, int], Chunk] = {}
        self._encoded: dict[int, EncodedTable] = {}
        """By chunk that is new."""
        self.shared: dict[Any, Chunk] = {}
        """The new chunks, by what they hold."""

    def read(
        self, state: Mapping[Label, tuple[StoredTable, ...]], valid: Callable[[Deferred, int], Deferred]
    ) -> list[Deferred]:
        """The rows that wait, of a template's state, for the computations that are valid in the batch of the head."""
        return [
            valid(deferred, head.batch)
            for label, stored in state.items()
            if waits(label)
            for head, deferred in Deferred.of_pieces(stored, self._head, self._chunk)
        ]

    def _head(self, stored: StoredTable) -> pa.Table:
        key = (stored.file, stored.at)
        if key not in _heads:
            if len(_heads) >= MOST_HEADS:
                _heads.clear()
            table = read_table(self._store, STATE, stored)
            if table.num_rows:  # of an earlier version: it has the rows too
                return table
            _heads[key] = table
        return _heads[key]

    def _chunk(self, stored: StoredTable) -> Chunk:
        key = (stored.file, stored.at)
        if key not in self._chunks:
            self._chunks[key] = Chunk(
                ref=stored, rows=stored.rows, load=partial(read_table, self._store, STATE)
            )
        return self._chunks[key]

    def pieces(
        self, deferred: Sequence[Deferred], template: int, label: Label, owners: Owners
    ) -> list[EncodedTable | StoredTable]:
        """The pieces of what waits under a label. A chunk that is on disk is not written again, and one that several
        templates share is written once: it counts for the tenants of the first.
        """
        found = list[EncodedTable | StoredTable]()
        for one in deferred:
            found.append(encode(one.head(), template, label))
            whose = owners.weights(one.ids)
            ids = max(1, sum(count for _, count in whose))
            for chunk in one.chunks:
                if chunk.ref is not None:
                    found.append(chunk.ref)
                    continue
                if id(chunk) not in self._encoded:
                    rows = tuple((owner, count * chunk.rows // ids) for owner, count in whose)
                    self._encoded[id(chunk)] = encode(chunk.table, template, label, owners=rows)
                found.append(self._encoded[id(chunk)])
        return found


def placed(
    state: Sequence[tuple[int, Label, EncodedTable | StoredTable]],
    write: Callable[[list[EncodedTable]], list[StoredTable]],
) -> list[tuple[int, Label, StoredTable]]:
    """Where pieces of state are after those that are new were written, each once."""
    new = {id(piece): piece for _, _, piece in state if isinstance(piece, EncodedTable)}
    stored = dict(zip(new, write([*new.values()]) if new else [], strict=True))
    return [
        (template, label, stored[id(piece)] if isinstance(piece, EncodedTable) else replace(piece))
        for template, label, piece in state
    ]
