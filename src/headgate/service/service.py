"""The service as one object: what REST, the client's tests and the batches call. Thread-safe; every change is durable when it returns."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headgate.errors import AccessDenied, HeadgateError
from headgate.hosting import DEFAULT_RULE, Host
from headgate.service.batch.hosted import Hosted
from headgate.service.batch.manifest import ServingManifest
from headgate.service.batch.serving import Job, Serving
from headgate.service.computations import COST_UNIT, Computations
from headgate.service.push import PushLog
from headgate.service.queries import ACTIVE, Queries, Query
from headgate.service.registry import Registry, open_registry
from headgate.service.results import Cursor, Results, View
from headgate.service.sources import Source, Sources, rows_in_slots
from headgate.service.tenants import Tenant, Tenants
from headgate.sql.clock import NEVER
from headgate.sql.engine import Function
from headgate.sql.limits import Limits
from headgate.sql.prepare import Preparer

KEPT_FACTS = 1_000


@dataclass(frozen=True)
class Settings:
    """Where a service lives and how large it is. ``registry`` is a path or a postgresql:// URL; empty: a file in the folder."""

    folder: Path
    servers: int = 4
    registry: str = ""
    limits: Limits = field(default_factory=Limits)
    functions: Mapping[str, Function] = field(default_factory=dict)
    kept_batches: int = 500
    memory: str = "512MB"
    rule: str = DEFAULT_RULE.name
    """How queries are placed: a rule of `headgate.hosting`."""
    seed: int = 7
    """For a rule that draws."""


class Lock:
    """Who holds it sees what is durable: after a change that failed the registry is read again first."""

    def __init__(self, registry: Registry, reload: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._registry, self._reload = registry, reload

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            if self._registry.in_doubt:
                self._reload()
                self._registry.in_doubt = False
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Service:
    """Queries, sources, servers and results."""

    def __init__(self, settings: Settings, job: Job) -> None:
        self.settings = settings
        folder = settings.folder
        folder.mkdir(parents=True, exist_ok=True)
        self._registry = open_registry(settings.registry or str(folder / "registry.db"))
        self.lock = Lock(self._registry, self._reload)
        self.tenants = Tenants(self._registry)
        self._preparer = Preparer(settings.limits, settings.functions)
        self._load()
        self.push = PushLog(str(folder / "push"))
        self.serving = Serving(
            str(folder / "state"), job, self._hosted, self._committed,
            limits=settings.limits, functions=settings.functions, kept=settings.kept_batches, memory=settings.memory,
        )  # fmt: skip
        last = self.serving.last
        self.computations.upcoming = last.batch + 1 if last else 0
        self.results = Results(self.serving.store, self.serving.history)
        self.facts: deque[dict[str, Any]] = deque(maxlen=KEPT_FACTS)
        """What was measured in the last batches."""
        for one in self.serving.history:
            self.facts.append({"batch": one.batch, **one.facts})
        self.running = False
        """Whether batches run."""
        self.failure: str | None = None
        """Why batches have stopped, if they have."""
        self._starts: dict[int, dict[int, int]] = {}
        self._new = False

    def _load(self, version: int = 0) -> None:
        """What the registry has: sources, computations, queries."""
        draw = np.random.default_rng(self.settings.seed).random
        host = partial(Host, rule=self.settings.rule, draw=draw)
        self.sources = Sources(self._registry)
        self.computations = Computations(
            self._registry, self.sources, servers=self.settings.servers, host=host, version=version
        )
        self.queries = Queries(self._registry, self.sources, self.computations, self._preparer)

    def _reload(self) -> None:
        """Put back in memory what is durable, after a change that failed."""
        upcoming = self.computations.upcoming
        self._load(self.computations.version)
        self.computations.upcoming = upcoming

    def close(self) -> None:
        """Let go of everything."""
        self.push.close()
        self._registry.close()

    # -- what batches call

    def _hosted(self, batch: int) -> Hosted:
        with self.lock:
            last = self.serving.last
            if self._new:
                latest = json.dumps(list((last.latest if last else {}).items()))
                start = "INSERT INTO starts VALUES (?, ?) ON CONFLICT (batch) DO NOTHING"
                self._registry.write((start, [(batch, latest)]))
                self._new = False
            status = self.computations.host.status()
            notes = {
                "at": time.time(),
                "queries": self.queries.count(),
                "computations": status.queries,
                "replication": round(status.replication, 4),
            }
            return replace(self.computations.hosted(batch), notes=notes)

    def _committed(self, manifest: ServingManifest) -> None:
        with self.lock:
            self.computations.settled(manifest.batch)
            for computation, why in manifest.faults.items():
                self.queries.fail(computation, why)
            if not self.facts or self.facts[-1]["batch"] != manifest.batch:  # it may be told again
                self.facts.append({"batch": manifest.batch, **manifest.facts})

    @property
    def last_batch(self) -> int:
        """The batch that was committed last; -1 before the first."""
        last = self.serving.last
        return last.batch if last else -1

    # -- sources

    def add_sources(self, tenant: Tenant, wishes: Sequence[Mapping[str, Any]]) -> list[Source]:
        """Declare sources that take pushed events."""
        with self.lock:
            made = self.sources.add(wishes, tenant.name)
            for one in made:
                self.computations.host.add_source(one.name, one.rate)
            return made

    def push_events(self, tenant: Tenant, name: str, events: Sequence[Mapping[str, Any]]) -> int:
        """Take events into a source; they are durable when this returns. Returns how many there were."""
        source = self.sources.get(name)
        if source.tenant != tenant.name and not tenant.admin:
            raise AccessDenied(f"source {name!r} belongs to another tenant: only it may push there")
        rows = rows_in_slots(source, events)
        if rows.num_rows:
            self.push.append(rows)
        return int(rows.num_rows)

    # -- queries

    def register(self, tenant: Tenant, wishes: Sequence[tuple[str, str]]) -> list[Query | HeadgateError]:
        """Register queries, in pieces so that batches need not wait for all of a large lot."""
        answers = list[Query | HeadgateError]()
        for begin in range(0, len(wishes), 1000):
            with self.lock:
                self._new = True
                answers += self.queries.register(tenant.name, wishes[begin : begin + 1000])
        return answers

    def resume(self, tenant: Tenant, number: int) -> Query:
        """Let a paused or failed query begin anew."""
        with self.lock:
            self._new = True
            return self.queries.resume(tenant.name, number)

    def explain(self, text: str) -> dict[str, Any]:
        """What a query would become, and where it would go, without registering it."""
        with self.lock:
            prepared = self._preparer.prepare(text, self.sources.kinds)
            template = prepared.template
            host = self.computations.host
            told = host.explain(list(dict.fromkeys(prepared.sources)), template.cost / COST_UNIT)
            return {
                "mode": template.mode.value,
                "sources": list(prepared.sources),
                "constants": list(prepared.constants),
                "columns": list(template.names),
                "cost": template.cost,
                "statement": template.rows_sql() if template.mode.value == "rows" else template.begin_sql(),
                "placement": str(told).splitlines(),
            }

    def explain_query(self, tenant: Tenant, number: int) -> dict[str, Any]:
        """The same for a registered query, and what it shares."""
        with self.lock:
            one = self.queries.get(tenant.name, number)
            found = self.explain(one.text)
            if one.computation is not None:
                computation = self.computations.all[one.computation]
                found |= {
                    "server": computation.server,
                    "template": computation.template,
                    "queries_of_computation": self.queries.sharing(computation.id),
                    "computations_of_template": self.computations.sharing(computation.template),
                }
            return found

    def read(
        self, tenant: Tenant, number: int, cursor: str | None = None, limit: int = 1000
    ) -> tuple[list[dict[str, Any]], str]:
        """Results of a query from a cursor on, and the next cursor."""
        at = Cursor.parse(cursor) if cursor else None
        with self.lock:
            one = self.queries.get(tenant.name, number)
            if one.computation is None:
                return [], str(at or Cursor(one.since))
            computation = self.computations.all[one.computation]
            template = self.computations.templates[computation.template]
        view = View(
            number,
            computation.id,
            computation.template,
            one.since,
            self._after(one.since, computation.sources),
        )
        rows, following = self.results.read(view, template, at, limit)
        return rows, str(following)

    def _after(self, batch: int, sources: Sequence[int]) -> int:
        """How far these sources had come when a batch began."""
        if batch not in self._starts:
            found = self._registry.read("SELECT latest FROM starts WHERE batch = ?", batch)
            if not found:
                return NEVER  # nothing has run since
            if len(self._starts) > KEPT_FACTS:
                self._starts.clear()
            self._starts[batch] = {int(s): int(t) for s, t in json.loads(found[0][0])}
        return max(self._starts[batch].get(source, NEVER) for source in sources)

    # -- servers

    def add_server(self) -> int:
        """Add a server."""
        with self.lock:
            return self.computations.add_server()

    def lose_server(self, server: int) -> list[int]:
        """Take a server away; its computations go elsewhere and keep their state."""
        with self.lock:
            return self.computations.lose_server(server)

    def servers(self) -> list[dict[str, Any]]:
        """Servers with load, computations and sources."""
        with self.lock:
            status = self.computations.host.status()
            wanted = self.computations.wanted()
            names = self.sources.names
            last = self.facts[-1] if self.facts else {}
            found = []
            for server in sorted(self.computations.alive):
                reads = [names[s] for s, servers in enumerate(wanted) if server in servers]
                busy, rows = last.get("busy_ms", {}), last.get("server_rows", {})
                found.append(
                    {
                        "server": server,
                        "load": round(status.loads.get(server, 0.0), 3),
                        "limit": round(self.computations.host.limit_of(server), 3),
                        "computations": self.computations.on(server),
                        "sources": len(reads),
                        "first_sources": reads[:20],
                        "busy_ms": busy.get(server, busy.get(str(server))),
                        "rows": rows.get(server, rows.get(str(server))),
                    }
                )
            return found

    def status(self) -> dict[str, Any]:
        """The service at a glance."""
        with self.lock:
            status = self.computations.host.status()
            return {
                "queries": self.queries.count(),
                "active": sum(one.state == ACTIVE for one in self.queries.all.values()),
                "computations": len(self.computations.all),
                "templates": len(self.computations.templates),
                "sources": len(self.sources),
                "servers": len(self.computations.alive),
                "traffic": status.traffic,
                "replication": round(status.replication, 4),
                "batch": self.last_batch,
                "pushed_rows": self.push.rows,
                "taken_rows": sum(one.facts["rows"] for one in list(self.serving.history)),
                "failure": self.failure,
            }
