"""The tables that a server's task reads: constants, pieces of state, and what arrives from other servers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.service.batch.residence import Residence
from headgate.service.manifest import StoredTable
from headgate.service.table_file import CONSTANTS, STATE, read_table
from headgate.sql.deferred import read_by, waits
from headgate.sql.shared import Label, Piece
from headgate.sql.template import Template
from headgate.storage.store import Store

MAX_CONSTANTS_TABLES = 4_000
"""How many tables of constants a worker process caches."""
Stored = Mapping[Label, tuple[StoredTable, ...]]
"""The state of a template on a server."""
_constants: dict[tuple[str, int], tuple[Template, pa.Table]] = {}
"""Tables of constants that this worker process has read, with their templates."""
_sources: dict[tuple[str, int], NDArray[np.int64]] = {}
"""The sources that these computations read."""


@dataclass(frozen=True)
class TemplateFiles:
    """Where the constants and the state of a template on a server are, with the state of lost servers."""

    template: int
    constants: StoredTable
    state: Stored = field(default_factory=dict)
    of_lost: Sequence[Stored] = ()
    """The state of this template on each server that was lost since the last commit: what belongs to a
    computation of this server is taken over in this batch.
    """
    of_origins: Sequence[Stored] = ()
    """The state of this template on each server from which a computation moves here in this batch (`residence`)."""


@dataclass(frozen=True)
class JoinRowFiles:
    """Where the rows are that a server keeps for its joins, and those that lost servers kept."""

    pieces: tuple[StoredTable, ...] = ()
    of_lost: Sequence[tuple[StoredTable, ...]] = ()


class TaskTables:
    """Reads the tables of one task. Constants are cached by the worker process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def constants(self, stored: StoredTable) -> tuple[Template, pa.Table]:
        """A template with the constants of its computations."""
        key = (stored.file, stored.at)
        if key not in _constants:
            if len(_constants) >= MAX_CONSTANTS_TABLES:
                _constants.clear()
            table = read_table(self._store, CONSTANTS, stored)
            _constants[key] = (Template.from_json(json.loads(table.schema.metadata[b"template"])), table)
        return _constants[key]

    def sources(self, stored: StoredTable) -> NDArray[np.int64]:
        """The sources that the computations of a template read, each once."""
        key = (stored.file, stored.at)
        if key not in _sources:
            if len(_sources) >= MAX_CONSTANTS_TABLES:
                _sources.clear()
            _sources[key] = read_by(self.constants(stored)[1])
        return _sources[key]

    def load(self, pieces: Sequence[Piece]) -> list[pa.Table]:
        """Pieces of state; those that are tables already stay what they are."""
        return [
            piece.ref if isinstance(piece.ref, pa.Table) else read_table(self._store, STATE, piece.ref)
            for piece in pieces
        ]

    def load_own(self, residence: Residence, pieces: Sequence[Piece]) -> list[pa.Table]:
        """The pieces of this server, without what computations left here that moved away and came back."""
        tables = zip(self.load(pieces), pieces, strict=True)
        return [residence.own(table, piece.batch) for table, piece in tables]

    def arriving(self, arriving: Sequence[tuple[Stored, Residence]]) -> dict[Label, pa.Table]:
        """What other servers have of computations of this server: those that were lost, and those where they were."""
        arrived: dict[Label, list[pa.Table]] = {}
        for state, residence in arriving:
            for label, pieces in state.items():
                if waits(label):
                    continue
                tables = self.load([Piece(stored.batch, stored) for stored in pieces])
                for stored, table in zip(pieces, tables, strict=True):
                    mine = residence.arriving(table, stored.batch)
                    if mine.num_rows:
                        arrived.setdefault(label, []).append(mine)
        return {label: pa.concat_tables(tables) for label, tables in arrived.items()}
