"""What a batch of the service committed: which pieces of state each server has now, and where the results are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.service.tenant_use import Fairness, TenantUse
from headgate.storage.section_file import Section

StatePlace = tuple[int, int, int]
"""(server, template, first pane): where pieces of state belong."""
JOIN_ROWS = -1
"""Takes the template's place in a `StatePlace` for the rows that a server keeps for its joins."""


@dataclass(frozen=True)
class StoredTable:
    """Where a table is stored: a section of a file, the batch that wrote it, and how many rows it holds."""

    file: str
    batch: int
    rows: int
    at: int
    size: int
    checksum: int
    owners: tuple[tuple[int, int], ...] = ()
    """(Tenant, bytes) of the tenants that have most of it."""

    @property
    def section(self) -> Section:
        """The section as `section_file.read` takes it."""
        return Section((0,), self.at, self.size, self.checksum)

    def to_json(self) -> list[Any]:
        """Plain data."""
        return [self.file, self.batch, self.rows, self.at, self.size, self.checksum, self.owners]

    @classmethod
    def from_json(cls, body: Sequence[Any]) -> StoredTable:
        """Read what `to_json` gave; earlier versions knew no owners."""
        file, batch, rows, at, size, checksum, *more = body
        owners = tuple((owner, part) for owner, part in (more[0] if more else ()))
        return cls(file, batch, rows, at, size, checksum, owners)


@dataclass(frozen=True)
class BatchManifest:
    """Everything that a batch committed."""

    batch: int
    run: str
    origin: str | None = None
    """The id of the Spark streaming query that delivers batches; None if nobody did yet, or a direct call."""
    oldest: int | None = None
    """The first of the batches that are kept with this one; None if an earlier version committed it."""
    delivered: int = -1
    """Spark's own number of the last batch that its query delivered; -1 before the first."""
    offsets: Mapping[str, Any] = field(default_factory=dict)
    """By name: where the streams stand that the service plans itself. Any values that JSON can hold."""
    pieces: Mapping[StatePlace, tuple[StoredTable, ...]] = field(default_factory=dict)
    results: Mapping[int, tuple[StoredTable, ...]] = field(default_factory=dict)
    """By template."""
    latest: Mapping[int, int] = field(default_factory=dict)
    """By source number: the latest event time that it has brought so far, in microseconds."""
    moves: Mapping[int, int] = field(default_factory=dict)
    """Computations that moved in this batch, with their state, and to which server."""
    faults: Mapping[int, str] = field(default_factory=dict)
    """Computations that failed in this batch, and why."""
    cut: Mapping[int, int] = field(default_factory=dict)
    """Computations whose results an earlier version cut off at a limit, and how many rows it cut."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What was measured. Every tenant may see it."""
    usage: Mapping[int, TenantUse] = field(default_factory=dict)
    """What the batch took for each tenant."""
    fairness: Mapping[int, Fairness] = field(default_factory=dict)
    """By server: what the next batch has to know to divide its time."""

    @property
    def state_files(self) -> set[str]:
        """The files that hold a live piece of state."""
        return {piece.file for pieces in self.pieces.values() for piece in pieces}

    @property
    def result_files(self) -> set[str]:
        """The files that hold results of this batch."""
        return {table.file for tables in self.results.values() for table in tables}

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "batch": self.batch,
            "run": self.run,
            "origin": self.origin,
            "oldest": self.oldest,
            "delivered": self.delivered,
            "offsets": self.offsets,
            "pieces": [
                [*place, [piece.to_json() for piece in pieces]] for place, pieces in self.pieces.items()
            ],
            "results": [
                [template, [table.to_json() for table in tables]] for template, tables in self.results.items()
            ],
            "latest": [list(self.latest), list(self.latest.values())],
            "moves": [list(self.moves), list(self.moves.values())],
            "faults": [list(self.faults), list(self.faults.values())],
            "cut": [list(self.cut), list(self.cut.values())],
            "facts": self.facts,
            "usage": [[tenant, *use] for tenant, use in self.usage.items()],
            "fairness": [[server, fairness.to_json()] for server, fairness in self.fairness.items()],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> BatchManifest:
        """Read what `to_json` gave."""
        return cls(
            batch=body["batch"],
            run=body["run"],
            origin=body["origin"],
            oldest=body.get("oldest"),
            delivered=body.get("delivered", body["batch"]),  # earlier versions had no batches of their own
            offsets=body.get("offsets", {}),
            pieces={(p[0], p[1], p[2]): _stored_tables(p[3]) for p in body["pieces"]},
            results={template: _stored_tables(tables) for template, tables in body["results"]},
            latest=dict(zip(*body["latest"], strict=True)),
            moves=dict(zip(*body.get("moves", ((), ())), strict=True)),  # earlier versions moved none
            faults=dict(zip(*body["faults"], strict=True)),
            cut=dict(zip(*body["cut"], strict=True)),
            facts=body["facts"],
            usage={tenant: TenantUse(*use) for tenant, *use in body.get("usage", ())},
            fairness={server: Fairness.from_json(of) for server, of in body.get("fairness", ())},
        )


def _stored_tables(tables: Iterable[list[Any]]) -> tuple[StoredTable, ...]:
    return tuple(map(StoredTable.from_json, tables))
