"""What owners do with deliveries: order, look, pause, resume, remove. Everything is private to its tenant."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headgate.errors import ConfigError
from headgate.service.delivery.orders import Delivery
from headgate.service.results import Cursor
from headgate.service.service import Service
from headgate.service.tenants import Tenant
from headgate.sql.template import Template

KEPT: Final = "kept"
NEW: Final = "new"
"""Where a delivery begins: with the results that are kept, or with those of later batches."""


class Desk:
    """The deliveries of a service, as their owners see them."""

    def __init__(self, service: Service) -> None:
        self._service, self._orders = service, service.deliveries

    def add(
        self,
        tenant: Tenant,
        queries: Sequence[int],
        target: str,
        options: Mapping[str, str],
        *,
        start: str = KEPT,
    ) -> tuple[list[Delivery], str]:
        """Order the results of some queries to a target; returns the deliveries and the secret of a webhook."""
        if start not in (KEPT, NEW):
            raise ConfigError(f"start={start!r}: a delivery begins with {KEPT!r} or with {NEW!r} results")
        if not queries:
            raise ConfigError("a delivery needs a query")
        templates = dict[int, Template | None]()
        for number in queries:
            found = self._service.view_of(tenant.name, number)
            templates[number] = found[1] if found else None
        cursor = str(Cursor(self._service.last_batch + 1)) if start == NEW else ""
        return self._orders.add(tenant.name, templates, target, options, cursor=cursor)

    def targets(self, tenant: Tenant) -> list[dict[str, str]]:
        """The targets that a tenant may name."""
        return self._orders.targets_of(tenant.name)

    def list(self, tenant: Tenant, query: int | None = None) -> list[dict[str, Any]]:
        """A tenant's deliveries."""
        return [self._shown(one) for one in self._orders.of(tenant.name, query)]

    def get(self, tenant: Tenant, number: int) -> dict[str, Any]:
        """One of a tenant's deliveries."""
        return self._shown(self._orders.get(tenant.name, number))

    def pause(self, tenant: Tenant, number: int) -> dict[str, Any]:
        """Send nothing more until it is resumed."""
        return self._shown(self._orders.pause(tenant.name, number))

    def resume(self, tenant: Tenant, number: int, *, skip: bool = False) -> dict[str, Any]:
        """Go on from where it stood. With `skip`, results that can no longer be read are not sent."""
        cursor = self._after_gap(self._orders.get(tenant.name, number)) if skip else None
        return self._shown(self._orders.resume(tenant.name, number, cursor=cursor))

    def _after_gap(self, one: Delivery) -> str:
        """The first cursor that can be read, after what was being sent."""
        history = self._service.batch_log.history
        oldest = Cursor(history[0].batch if history else 0)
        at = json.loads(one.pending)[0] if one.pending else one.cursor
        stood = Cursor.parse(at) if at else oldest
        return str(max(stood, oldest, key=lambda cursor: (cursor.batch, cursor.row)))

    def rotate(self, tenant: Tenant, number: int, grace_s: float) -> tuple[dict[str, Any], str]:
        """Sign a webhook with a new secret, which is returned; the old one signs it, too, for the grace period."""
        made, secret = self._orders.rotate(tenant.name, number, grace_s=grace_s, now=time.time())
        return self._shown(made), secret

    def remove(self, tenant: Tenant, number: int) -> None:
        """Remove a delivery."""
        self._orders.remove(tenant.name, number)

    def _shown(self, one: Delivery) -> dict[str, Any]:
        """A delivery, with how many batches it has still to look through."""
        behind = self._service.last_batch + 1 - Cursor.parse(one.cursor).batch if one.cursor else None
        return {**one.to_json(), "batches_behind": behind}
