"""Deliveries: the standing orders of tenants, and how far each of them has come.

A delivery goes through the results of a query in parcels. Before a parcel is sent, the registry has its *pending* end;
after it was sent, the cursor moves there. So a parcel that is sent again after a crash has the same number and the same
results: a target that remembers numbers gets it once, and a webhook can drop it by its id.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headgate.errors import ConfigError, NotFound, QuotaExceeded
from headgate.service.delivery.addresses import check_url
from headgate.service.registry import Registry
from headgate.service.targets_config import WEBHOOK, Allowed
from headgate.service.tokens import LONGEST_S
from headgate.sql.source_schema import NAME
from headgate.sql.template import Mode, Template

ACTIVE, PAUSED, STOPPED = "active", "paused", "stopped"
MOST_SHOWN = 1_000
"""How long a reason may be."""
OPTIONS = {WEBHOOK: {"url"}, "kafka": {"key"}, "delta": {"table"}, "iceberg": {"table"}, "parquet": {"table"}}
"""By kind of target: what a tenant may set."""
_COLUMNS = (
    "id, uid, tenant, query, target, options, secret, cursor, pending, number, state, why, failing_since"
)
_INSERT = f"INSERT INTO deliveries ({_COLUMNS}) VALUES ({', '.join('?' * 13)})"
_FORGET_OLD = "DELETE FROM old_secrets WHERE delivery = ?"
_UPDATE = "UPDATE deliveries SET cursor = ?, pending = ?, number = ?, state = ?, why = ?, failing_since = ? WHERE id = ?"


@dataclass(frozen=True)
class Delivery:
    """A standing order: the results of a query go to a target."""

    id: int
    uid: str
    """Unlike any other, in any service: targets remember the delivery by it."""
    tenant: str
    query: int
    target: str
    options: Mapping[str, str] = field(default_factory=dict)
    secret: str = field(default="", repr=False)
    """With which webhooks are signed."""
    cursor: str = ""
    """Up to where results have been sent; empty before the first."""
    pending: str = ""
    """What is being sent, or was when the process ended: the cursor after it, and how many results."""
    number: int = 0
    """How many parcels have been sent."""
    state: str = ACTIVE
    why: str = ""
    """Why it is stopped, or why it waits."""
    failing_since: float = 0.0
    """Since when every attempt has failed, in seconds since 1970; 0 if the last one did not."""
    old_secret: str = field(default="", repr=False)
    """The secret before this one, with which webhooks are signed, too, until it ends."""
    old_ends: float = 0.0
    """In seconds since 1970."""

    def secrets_at(self, now: float) -> tuple[str, ...]:
        """The secrets that sign a webhook now."""
        old = (self.old_secret,) if self.old_secret and now < self.old_ends else ()
        return (self.secret, *old)

    def to_json(self) -> dict[str, Any]:
        """Plain data, as the HTTP API shows it."""
        return {
            "id": self.id,
            "query": self.query,
            "target": self.target,
            "options": dict(self.options),
            "state": self.state,
            "why": self.why,
            "cursor": self.cursor,
            "parcels": self.number,
        }

    def row(self) -> tuple[Any, ...]:
        """The row of the registry."""
        return (
            self.id, self.uid, self.tenant, self.query, self.target, json.dumps(dict(self.options)), self.secret,
            self.cursor, self.pending, self.number, self.state, self.why, self.failing_since,
        )  # fmt: skip


class Deliveries:
    """The deliveries of all tenants. Every change is durable when its method returns."""

    def __init__(self, registry: Registry, allowed: Allowed, most: int) -> None:
        """`most` is how many a tenant may have."""
        self._registry, self.allowed, self._most = registry, allowed, most
        self._lock = threading.RLock()
        rows = registry.read(f"SELECT {_COLUMNS} FROM deliveries ORDER BY id")
        self.by_id = {row[0]: _read(*row) for row in rows}
        for number, secret, ends in registry.read("SELECT delivery, secret, ends FROM old_secrets"):
            if number in self.by_id:
                self.by_id[number] = replace(self.by_id[number], old_secret=secret, old_ends=ends)
        self._next_id = max(self.by_id, default=-1) + 1
        self.changed = threading.Event()
        """Set when a delivery was added or resumed."""

    def add(
        self,
        tenant: str,
        queries: Mapping[int, Template | None],
        target: str,
        options: Mapping[str, str],
        *,
        cursor: str = "",
    ) -> tuple[list[Delivery], str]:
        """Order the results of these queries to a target, all or none; returns the deliveries, and for a webhook the
        secret that signs it, which is shown only now. A template is that of a query that runs.
        """
        self._check(tenant, target, options)
        for number, template in queries.items():
            if template is not None:
                self._check_columns(number, template, target, options)
        secret = _new_secret() if target == WEBHOOK else ""
        with self._lock:
            have = sum(one.tenant == tenant for one in self.by_id.values())
            if have + len(queries) > self._most:
                raise QuotaExceeded(
                    f"tenant {tenant!r} has {have} deliveries and asks for {len(queries)} more, but at most {self._most} are "
                    "allowed (the limit is deliveries): remove some"
                )
            added = [
                Delivery(
                    self._next_id + i,
                    secrets.token_hex(8),
                    tenant,
                    number,
                    target,
                    dict(options),
                    secret,
                    cursor,
                )
                for i, number in enumerate(queries)
            ]
            self._registry.write((_INSERT, [one.row() for one in added]))
            self._next_id += len(added)
            self.by_id |= {one.id: one for one in added}
        self.changed.set()
        return added, secret

    def kind_of(self, target: str) -> str:
        """The kind of a target; empty if the configuration no longer has it."""
        if target == WEBHOOK:
            return WEBHOOK
        found = self.allowed.targets.get(target)
        return found.kind if found else ""

    def may(self, tenant: str, target: str) -> bool:
        """Whether a tenant may deliver to a target now: the configuration may have changed since it was ordered."""
        if target == WEBHOOK:
            return self.allowed.webhooks.allows(tenant)
        found = self.allowed.targets.get(target)
        return found is not None and found.allows(tenant)

    def targets_of(self, tenant: str) -> list[dict[str, str]]:
        """The targets that a tenant may name."""
        named = [{"name": t.name, "kind": t.kind} for t in self.allowed.targets.values() if t.allows(tenant)]
        webhook = [{"name": WEBHOOK, "kind": WEBHOOK}] if self.allowed.webhooks.allows(tenant) else []
        return sorted(named, key=lambda one: one["name"]) + webhook

    def _check(self, tenant: str, target: str, options: Mapping[str, str]) -> None:
        if not self.may(tenant, target):
            known = ", ".join(one["name"] for one in self.targets_of(tenant)) or "none"
            raise NotFound(f"there is no target {target!r}; you may deliver to: {known}")
        kind = self.kind_of(target)
        if unknown := sorted(set(options) - OPTIONS[kind]):
            raise ConfigError(
                f"target {target!r} does not know the option {unknown[0]!r}; it takes {', '.join(OPTIONS[kind])}"
            )
        if kind == WEBHOOK:
            check_url(options.get("url", ""), self.allowed.webhooks)
        elif "table" in OPTIONS[kind] and not NAME.fullmatch(options.get("table", "")):
            raise ConfigError(
                f"target {target!r} needs the option 'table': a name with lower-case letters, digits and _, "
                f"not {options.get('table', '')!r}"
            )

    def _check_columns(
        self, number: int, template: Template, target: str, options: Mapping[str, str]
    ) -> None:
        kind, names = self.kind_of(target), template.names
        key = options.get("key")
        if key is not None and key not in names:
            raise ConfigError(f"query {number} has no column {key!r}; it has {', '.join(names)}")
        if "table" not in OPTIONS[kind]:
            return
        seen = set(own_columns(template))
        for name in names:
            if name.lower() in seen:
                raise ConfigError(
                    f"query {number} has the column {name!r} twice, or it is one that a table has besides "
                    f"({', '.join(own_columns(template))}): give it another name with AS"
                )
            seen.add(name.lower())

    # -- what owners do

    def of(self, tenant: str, query: int | None = None) -> list[Delivery]:
        """A tenant's deliveries, of one query or of all."""
        with self._lock:
            own = [one for one in self.by_id.values() if one.tenant == tenant]
        return [one for one in own if query is None or one.query == query]

    def get(self, tenant: str, number: int) -> Delivery:
        """Find a tenant's own delivery; to a tenant, those of others do not exist."""
        found = self.by_id.get(number)
        if found is None or found.tenant != tenant:
            raise NotFound(f"there is no delivery {number}")
        return found

    def pause(self, tenant: str, number: int) -> Delivery:
        """Send nothing more until it is resumed. A parcel that is on its way arrives."""
        with self._lock:
            return self.save(replace(self.get(tenant, number), state=PAUSED, why=""))

    def resume(self, tenant: str, number: int, *, cursor: str | None = None) -> Delivery:
        """Go on from where it stood; with a cursor, from there, and what lies between is not sent."""
        with self._lock:
            found = replace(self.get(tenant, number), state=ACTIVE, why="", failing_since=0.0)
            if cursor is not None:
                # The number of the parcel is used up: it may have arrived, so the target gets an empty one.
                pending = json.dumps([cursor, 0]) if found.pending else ""
                found = replace(found, cursor=cursor, pending=pending)
            saved = self.save(found)
        self.changed.set()
        return saved

    def rotate(self, tenant: str, number: int, *, grace_s: float, now: float) -> tuple[Delivery, str]:
        """Sign with a new secret, and until the grace period ends with the old one, too; returns the new one."""
        if not 0 <= grace_s <= LONGEST_S:
            raise ConfigError(f"the grace period is 0 to {LONGEST_S} seconds")
        with self._lock:
            found = self.get(tenant, number)
            if found.target != WEBHOOK:
                raise ConfigError(
                    f"delivery {number} goes to {found.target!r}: only webhooks are signed with a secret"
                )
            made = replace(
                found,
                secret=_new_secret(),
                old_secret=found.secret if grace_s else "",
                old_ends=now + grace_s,
            )
            old = [(number, made.old_secret, made.old_ends)] if grace_s else []
            self._registry.write(
                ("UPDATE deliveries SET secret = ? WHERE id = ?", [(made.secret, number)]),
                (_FORGET_OLD, [(number,)]),
                ("INSERT INTO old_secrets VALUES (?, ?, ?)", old),
            )
            self.by_id[number] = made
        return made, made.secret

    def remove(self, tenant: str, number: int) -> None:
        """Remove a delivery. What was sent stays where it is."""
        self.get(tenant, number)
        self._remove([number])

    def _remove(self, numbers: Sequence[int]) -> None:
        with self._lock:
            rows = [(number,) for number in numbers]
            self._registry.write(("DELETE FROM deliveries WHERE id = ?", rows), (_FORGET_OLD, rows))
            for number in numbers:
                self.by_id.pop(number, None)

    def remove_all(self, tenant: str) -> None:
        """Remove the deliveries of a tenant, and their secrets."""
        with self._lock:
            self._remove([one.id for one in self.by_id.values() if one.tenant == tenant])

    # -- what the senders do

    def active(self) -> list[Delivery]:
        """The deliveries that are neither paused nor stopped."""
        with self._lock:
            return [one for one in self.by_id.values() if one.state == ACTIVE]

    def update(self, known: Delivery, **changes: Any) -> Delivery | None:
        """Change how far a delivery has come; None if its owner has removed it, paused it or moved it meanwhile."""
        with self._lock:
            now = self.by_id.get(known.id)
            if now is None or (now.cursor, now.pending, now.number) != (
                known.cursor,
                known.pending,
                known.number,
            ):
                return None
            if now.state != ACTIVE:  # what was sent counts all the same, and its state is its owner's
                changes = {name: value for name, value in changes.items() if name not in ("state", "why")}
            return self.save(replace(now, **changes))

    def save(self, one: Delivery) -> Delivery:
        """Write a delivery that has changed."""
        why = one.why.replace("\0", "\\0").encode(errors="backslashreplace").decode()[:MOST_SHOWN]
        one = replace(one, why=why)
        with self._lock:
            values = (one.cursor, one.pending, one.number, one.state, one.why, one.failing_since, one.id)
            self._registry.write((_UPDATE, [values]))
            self.by_id[one.id] = one
        return one


def _new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(32)}"


def _read(number: int, uid: str, tenant: str, query: int, target: str, options: str, *rest: Any) -> Delivery:
    return Delivery(number, uid, tenant, query, target, json.loads(options), *rest)


def own_columns(template: Template) -> Sequence[str]:
    """The columns that a table has before those of the query."""
    if template.mode is Mode.panes:
        return ("_query", "_batch", "_window_start", "_window_end")
    return ("_query", "_batch", "_time")
