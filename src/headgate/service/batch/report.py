"""What a server's task reports to the driver. It travels as one row of JSON."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate import errors, logs
from headgate.service.manifest import StoredTable
from headgate.service.tenant_use import Fairness, TenantUse

log = logs.logger("headgate.service")


@dataclass(frozen=True)
class ServerReport:
    """What one server did in one batch. Nothing of it counts until the driver commits it."""

    server: int
    executor: str
    rows: int
    rows_of_source: Mapping[int, int]
    latest: Mapping[int, int]
    """By source number: the latest event time, where this batch moved it on."""
    far_ahead_rows: Mapping[int, int]
    """By source number: rows whose event time is too far ahead to be believed."""
    state: list[tuple[int, int, StoredTable]]
    """(template, first pane, piece) of each piece of state that was written."""
    gone: list[tuple[int, int]]
    """(template, first pane): the pieces written there before this batch are no longer needed."""
    results: list[tuple[int, StoredTable]]
    """(template, table) of each table of results that was written."""
    faults: Mapping[int, str]
    """Computations that failed, and why."""
    busy_ms: float
    cpu_ms: float
    usage: Mapping[int, TenantUse] = field(default_factory=dict)
    """By tenant."""
    slow_ms: float = 0.0
    """What tenants took of the time that use more than their part of a batch."""
    fairness: Fairness = field(default_factory=Fairness)
    """What the server's next batch has to know to divide its time."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, with no numbers as keys."""
        return {
            "server": self.server,
            "executor": self.executor,
            "rows": self.rows,
            "rows_of_source": _pairs(self.rows_of_source),
            "latest": _pairs(self.latest),
            "far_ahead_rows": _pairs(self.far_ahead_rows),
            "state": [[template, pane, piece.to_json()] for template, pane, piece in self.state],
            "gone": self.gone,
            "results": [[template, table.to_json()] for template, table in self.results],
            "faults": _pairs(self.faults),
            "busy_ms": self.busy_ms,
            "cpu_ms": self.cpu_ms,
            "usage": [[tenant, *use] for tenant, use in self.usage.items()],
            "slow_ms": self.slow_ms,
            "fairness": self.fairness.to_json(),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ServerReport:
        """Read what `to_json` gave; if it is the report of a failed task instead, raise that task's error."""
        if "error" in body:
            log.error("a server's task failed: %s", body["trace"])
            raise getattr(errors, body["error"])(body["message"])
        return cls(
            server=body["server"],
            executor=body["executor"],
            rows=body["rows"],
            rows_of_source=dict(body["rows_of_source"]),
            latest=dict(body["latest"]),
            far_ahead_rows=dict(body["far_ahead_rows"]),
            state=[(template, pane, StoredTable.from_json(piece)) for template, pane, piece in body["state"]],
            gone=[(template, pane) for template, pane in body["gone"]],
            results=[(template, StoredTable.from_json(table)) for template, table in body["results"]],
            faults=dict(body["faults"]),
            busy_ms=body["busy_ms"],
            cpu_ms=body["cpu_ms"],
            usage={tenant: TenantUse(*use) for tenant, *use in body["usage"]},
            slow_ms=body["slow_ms"],
            fairness=Fairness.from_json(body["fairness"]),
        )


def failure_json(error: errors.HeadgateError) -> dict[str, Any]:
    """The report of a task that failed: an error as data, so that the driver raises the very same one."""
    return {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}


def _pairs(mapping: Mapping[int, Any]) -> list[list[Any]]:
    return [[key, value] for key, value in mapping.items()]


@dataclass(frozen=True)
class JobReport:
    """What the servers' tasks of one batch reported, and what the shuffle to them carried."""

    servers: list[ServerReport]
    sent_rows: int = 0
    sent_bytes: int = 0
