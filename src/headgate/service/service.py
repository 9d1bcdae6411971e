"""The service as one object: what HTTP calls for tenants, and what batches call before and after their work.

Thread-safe: the methods take the lock themselves. Every change is durable when the method that makes it returns.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from headgate import logs
from headgate.errors import HeadgateError, NotFound
from headgate.hosting import Host
from headgate.service.accounts import Accounts
from headgate.service.audit import Audit
from headgate.service.batch_log import BatchLog
from headgate.service.collecting import collecting_later
from headgate.service.computations import Computations
from headgate.service.delivery.orders import Deliveries
from headgate.service.delivery.publications import Published
from headgate.service.explaining import explain, explain_query
from headgate.service.grants import Grants
from headgate.service.lag import Lag
from headgate.service.lock import RegistryLock
from headgate.service.manifest import BatchManifest
from headgate.service.overview import servers_of, status_of
from headgate.service.pace import Pace
from headgate.service.places import Places
from headgate.service.preparing import Preparing
from headgate.service.private import private_folder
from headgate.service.push_source import PUSHED
from headgate.service.push_upgrade import open_push_log
from headgate.service.queries import Queries, Query
from headgate.service.registry import damaged, open_registry
from headgate.service.results import Cursor, Results, View
from headgate.service.row_rates import RowRates
from headgate.service.settings import Settings
from headgate.service.snapshot import HostingSnapshot
from headgate.service.source_calls import SourceCalls
from headgate.service.sources import Sources
from headgate.service.tenant_limits import TenantLimits
from headgate.service.tenants import ADMIN, WRITER, Tenant, Tenants
from headgate.service.upgrade import upgrade
from headgate.service.usage import Usage
from headgate.service.usage_view import above_their_limits, first_readable, waiting_rows
from headgate.sql.clock import NEVER
from headgate.sql.prepare import Prepared, Preparer
from headgate.sql.template import Template

log = logs.logger("headgate.service")
MAX_FACTS = 1_000
"""For how many batches the measurements stay in memory."""
SHOWN_FAILED = 20
"""How many of the queries that failed are named to whoever asks whether the service is ready."""
REGISTER_AT_ONCE = 2_500
"""How many queries are registered before the lock is released, so that a batch need not wait for a large request."""


class Service(SourceCalls):
    """Tenants, sources, queries, servers and results."""

    def __init__(self, settings: Settings, preparer: Preparer | None = None) -> None:
        """Open the service and claim its state. Services of one process may share a preparer."""
        self.settings = settings
        places = Places.of(settings.folder, settings.registry, settings.state, settings.push)
        private_folder(settings.folder)
        self._registry = open_registry(places.registry)
        self._lock = RegistryLock(self._registry, self._reload)
        self.accounts = Accounts(self, self._lock)
        self.audit = Audit(settings.folder / "audit.db", settings.audit_entries)
        self._preparing = Preparing(preparer or Preparer(settings.limits, settings.functions))
        try:
            self.batch_log = BatchLog(places.state, settings.kept_batches)
            if self.batch_log.history and not self._registry.read("SELECT id FROM servers LIMIT 1"):
                raise damaged(
                    f"it is empty, and {places.state} has commits up to batch {self.last_batch}. If there is no backup, move "
                    "state and push away to begin anew"
                )
            assert self.batch_log.commits.claim is not None
            self._registry.own(self.batch_log.commits.claim.number)
        except BaseException:
            self._registry.close()
            raise
        self.upgraded = upgrade(self._registry, places.registry)
        """What was done to a registry of an older version; empty if nothing."""
        self._load()  # after the claim, so that it has all that was registered with the service before
        self.computations.next_batch = self.last_batch + 1
        if self.batch_log.last is not None:  # whoever committed it may have died before the registry was told
            self.computations.moves.committed(self.batch_log.last.batch, self.batch_log.last.moves)
        try:
            self.push_log = open_push_log(places, self.batch_log, settings.flow, self.sources.owner_of)
        except BaseException:
            self._registry.close()
            raise
        self.lags = Lag(settings.flow)
        """How far the streams that the service plans itself are behind."""
        self.results = Results(self.batch_log.store, self.batch_log.history)
        self.published = Published(self._registry)
        self.deliveries = Deliveries(self._registry, settings.allowed, settings.limits.deliveries)
        self.usage = Usage(self.batch_log.history)
        self.pace = Pace(settings.limits.batch_part, lambda: self.tenant_limits.parts())
        """How long batches take, and who may lengthen them by how much."""
        self.push_log.most_backlog = self.pace.most_backlog
        self.row_rates = RowRates(lambda tenant: self.tenant_limits.of(tenant).rows_s)
        self.facts: deque[dict[str, Any]] = deque(maxlen=MAX_FACTS)
        """What was measured in the last batches."""
        for manifest in self.batch_log.history:
            self.facts.append({"batch": manifest.batch, **manifest.facts})
        self.running = False
        """Whether batches run."""
        self.failures: dict[str, str] = {}
        """Why batches have stopped, if they have: by stream, or by "" for pushed events."""
        self._latest_before: dict[int, dict[int, int]] = {}
        """By batch: how far each source had come before it (a cache of the registry's `starts`)."""

    def _load(self, version: int = 0) -> None:
        """Read tenants, sources, computations and queries from the registry."""
        self.tenants = Tenants(self._registry)
        draw = np.random.default_rng(self.settings.seed).random
        host = partial(Host, rule=self.settings.rule, draw=draw)
        try:
            with collecting_later():
                self.sources = Sources(self._registry)
                self.grants = Grants(self._registry, self.sources)
                self.computations = Computations(
                    self._registry, self.sources, servers=self.settings.servers, host=host, version=version
                )
                self.queries = Queries(self._registry, self.computations, self._preparing.preparer.limits)
                self.tenant_limits = TenantLimits(self._registry, self._preparing.preparer.limits)
                self.queries.limits_of = self.tenant_limits.of
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, HeadgateError):
                raise
            raise damaged(f"a row cannot be read ({error!r})") from error

    def _reload(self) -> None:
        """Make memory equal to the registry again, after the registry refused a change."""
        next_batch = self.computations.next_batch
        self._load(self.computations.version)
        self.computations.next_batch = next_batch

    def close(self) -> None:
        """Write the events that are waiting, and close the registry."""
        self.push_log.close()
        self.audit.close()
        with suppress(HeadgateError):  # another service has taken over, or the registry is gone
            self.tenants.tokens.save_used()
        self._registry.close()

    # -- what a batch calls

    def begin_batch(self, batch: int) -> HostingSnapshot:
        """Take the snapshot of what is hosted where, with which a batch works."""
        with self._lock:
            self.queries.begin_by(batch)
            begin = self.queries.sources_beginning(batch)
            if begin:
                last = self.batch_log.last
                known = last.latest if last else {}
                latest = json.dumps([(source, known[source]) for source in sorted(begin) if source in known])
                insert = (  # a batch that is tried again may have more queries that begin with it
                    "INSERT INTO starts VALUES (?, ?) ON CONFLICT (batch) DO UPDATE SET latest = excluded.latest"
                )
                self._registry.write((insert, [(batch, latest)]), *self.queries.starts_to_forget(batch))
                self._latest_before.pop(batch, None)
            moved = self.computations.moves.repair(batch, self.settings.repair, self.settings.refine)
            status = self.computations.host.status()
            facts = {
                "at": time.time(),
                "queries": self.queries.count(),
                "computations": status.queries,
                "replication": round(status.replication, 4),
                "moved": moved,
            }
            snapshot = self.computations.snapshot(batch)
            self._quarantine(self.computations.unfit)
            self.computations.unfit.clear()
            return replace(snapshot, facts=facts, budgets=self.tenant_limits.budgets())

    def batch_committed(self, manifest: BatchManifest) -> None:
        """Act on what a batch committed. Spark may deliver a batch again, so this may come twice for one batch."""
        self.usage.add(manifest)
        self.pace.committed(manifest)
        too_large = above_their_limits(self, manifest)  # may read state: without the lock
        with self._lock:
            self.computations.moves.committed(manifest.batch, manifest.moves)
            self._quarantine(manifest.faults)
            self._quarantine(too_large)
            if not self.facts or self.facts[-1]["batch"] != manifest.batch:
                self.facts.append({"batch": manifest.batch, **manifest.facts})
        self.push_log.committed(manifest.offsets.get(PUSHED))

    def lag(self) -> dict[str, Any]:
        """How far batches are behind: in all, and by stream (`""` has the pushed events); and the rows that batches have
        taken and that wait as state, in all and by tenant.
        """
        waiting = waiting_rows(self)
        lag = self.lags.to_json(self.push_log.backlog())
        return {**lag, "waiting_rows": sum(waiting.values()), "waiting": waiting}

    def _quarantine(self, faults: Mapping[int, str]) -> None:
        for computation, why in faults.items():
            for query in self.queries.fail(computation, why):
                log.warning("query %d of tenant %r is stopped: %s", query.id, query.tenant, query.why)

    def quarantined(self) -> tuple[list[dict[str, Any]], int]:
        """The queries that failed last, and whose they are, and how many have failed in all. Why they
        failed is for their owners: it may quote their rows.
        """
        with self._lock:
            last = self.queries.failed_last(SHOWN_FAILED)
            return [{"query": query.id, "tenant": query.tenant} for query in last], len(self.queries.failed)

    @property
    def lock(self) -> RegistryLock:
        """The lock of all that the service knows; it may be held several times by one thread."""
        return self._lock

    @property
    def failure(self) -> str | None:
        """Why batches have stopped, if they have: of all rows, or of a stream."""
        failures = sorted(self.failures.items())
        return "; ".join(f"stream {name!r}: {why}" if name else why for name, why in failures) or None

    @property
    def failure_in_short(self) -> str:
        """The same for everyone: a reason may quote what is a tenant's."""
        streams = sum(bool(name) for name in self.failures)
        parts = ["batches have stopped"] if "" in self.failures else []
        if streams:
            parts.append(f"{streams} stream{'s have' if streams > 1 else ' has'} stopped")
        return "; ".join(parts) or ("" if self.running else "batches do not run")

    @property
    def last_batch(self) -> int:
        """The batch that was committed last; -1 before the first."""
        last = self.batch_log.last
        return last.batch if last else -1

    # -- tenants

    def add_tenant(
        self,
        name: str,
        *,
        admin: bool = False,
        role: str = "",
        token: str | None = None,
        label: str = "first",
    ) -> str:
        """Add a tenant; returns its token, which cannot be looked up later."""
        with self._lock:
            return self.tenants.add(name, role=role or (ADMIN if admin else WRITER), token=token, label=label)

    def authenticate(self, token: str | None) -> Tenant:
        """Find the tenant of a token, or raise AccessDenied; BadToken, if the token is none that is valid."""
        return self.tenants.by_token(token)

    # -- queries

    def register(self, tenant: Tenant, requests: Sequence[tuple[str, str]]) -> list[Query | HeadgateError]:
        """Register (text, name) pairs; each becomes a query, or the error that says why it was refused."""
        answers = list[Query | HeadgateError]()
        for begin in range(0, len(requests), REGISTER_AT_ONCE):
            some = requests[begin : begin + REGISTER_AT_ONCE]
            readable, read = self.grants.readable(tenant), self._preparing.prepare_or_refuse
            with collecting_later():
                requested = [(text, name, read(text, readable)) for text, name in some]
            with self._lock, collecting_later():
                self.tenants.check(tenant)
                answers += self.queries.register(tenant.name, requested, self.grants.readable(tenant))
        return answers

    def list_queries(self, tenant: Tenant, after: int = -1, limit: int = 100) -> tuple[list[Query], int]:
        """A tenant's queries from behind a number on, and how many the tenant has in all."""
        with self._lock:
            return self.queries.of_tenant(tenant.name, after, limit), self.queries.count(tenant.name)

    def get_query(self, tenant: Tenant, number: int) -> Query:
        """Find a tenant's own query."""
        with self._lock:
            return self.queries.get(tenant.name, number)

    def count_queries(self, tenant: Tenant) -> int:
        """How many queries a tenant has."""
        with self._lock:
            return self.queries.count(tenant.name)

    def pause(self, tenant: Tenant, number: int) -> Query:
        """Pause a query: it costs nothing, and its results so far can no longer be read."""
        with self._lock:
            return self.queries.pause(tenant.name, number)

    def resume(self, tenant: Tenant, number: int) -> Query:
        """Start a paused or failed query afresh from the next batch on."""
        text = self.get_query(tenant, number).text
        prepared = self._preparing.prepare(text, self.grants.readable(tenant))
        with self._lock:
            self.tenants.check(tenant)
            return self.queries.resume(tenant.name, number, prepared, self.grants.readable(tenant))

    def remove(self, tenant: Tenant, number: int) -> None:
        """Remove a query; its results can no longer be read."""
        with self._lock:
            self.queries.remove(tenant.name, number)

    def explain(self, tenant: Tenant, text: str) -> dict[str, Any]:
        """What a query would become, without registering it (`explaining`)."""
        return explain(self, tenant, text)

    def explain_query(self, tenant: Tenant, number: int) -> dict[str, Any]:
        """The same for a registered query, with its server and how many queries share its work."""
        return explain_query(self, tenant, number)

    def prepare(self, tenant: Tenant, text: str) -> Prepared:
        """Read a text over the sources that a tenant may read."""
        return self._preparing.prepare(text, self.grants.readable(tenant))

    def read(
        self, tenant: Tenant, number: int, cursor: str | None = None, limit: int = 1000
    ) -> tuple[list[dict[str, Any]], str]:
        """Read results of a query from a cursor on; returns them and the next cursor."""
        at = Cursor.parse(cursor) if cursor else None
        found = self.view_of(tenant.name, number)
        if found is None:
            return [], str(at or Cursor(self.get_query(tenant, number).since))
        rows, following = self.results.read(*found, at, limit)
        return rows, str(following)

    def view_of(self, tenant: str, number: int) -> tuple[View, Template] | None:
        """What a tenant's own query may see, and its template; None while it is paused or failed."""
        with self._lock:
            query = self.queries.get(tenant, number)
            if query.computation is None:
                return None
            computation = self.computations.by_id[query.computation]
            template = self.computations.templates[computation.template]
        # Without the lock from here on: batches need not wait for readers.
        after_us = self._latest_when_began(query.since, computation.sources)
        first = first_readable(self, tenant)
        return View(number, computation.id, computation.template, query.since, after_us, first), template

    def _latest_when_began(self, batch: int, sources: Sequence[int]) -> int:
        """The latest event time that any of these sources had brought when a batch began."""
        if batch not in self._latest_before:
            rows = self._registry.read("SELECT latest FROM starts WHERE batch = ?", batch)
            if not rows:
                return NEVER  # the batch has not begun yet
            if len(self._latest_before) > MAX_FACTS:
                self._latest_before.clear()
            self._latest_before[batch] = {int(s): int(t) for s, t in json.loads(rows[0][0])}
        return max(self._latest_before[batch].get(source, NEVER) for source in sources)

    def set_limits(self, tenant: str, values: Mapping[str, float | None]) -> dict[str, float]:
        """Set limits of one tenant; None takes one back. Returns those in force."""
        with self._lock:
            self.tenants.get(tenant)  # raises, if there is none
            self.tenant_limits.set(tenant, values)
            return self.tenant_limits.shown(tenant)

    # -- servers

    def add_server(self) -> int:
        """Add a server; returns its number."""
        with self._lock:
            return self.computations.add_server()

    def lose_server(self, server: int) -> list[int]:
        """Remove a server; returns its computations, which move to other servers and keep their state."""
        with self._lock:
            if server not in self.computations.alive:
                raise NotFound(f"there is no server {server}")
            return self.computations.lose_server(server)

    def servers(self, tenant: Tenant) -> list[dict[str, Any]]:
        """The servers with their load, computations and sources, of which a tenant sees those that it may read."""
        with self._lock:
            last = self.facts[-1] if self.facts else {}
            return servers_of(self.computations, self.sources, self.grants.readable(tenant), last)

    def status(self) -> dict[str, Any]:
        """The service at a glance."""
        with self._lock:
            return {
                **status_of(self.computations, self.queries, self.sources),
                "batch": self.last_batch,
                "pushed_rows": self.push_log.rows,
                "taken_rows": sum(manifest.facts["rows"] for manifest in list(self.batch_log.history)),
                "failure": self.failure,
            }
