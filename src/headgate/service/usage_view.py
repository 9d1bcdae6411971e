"""The use of tenants by name, beside their limits; and what happens above these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headgate.service.manifest import BatchManifest
from headgate.service.tenant_use import COMMON, TenantUse, number_of
from headgate.service.usage import largest

if TYPE_CHECKING:
    from headgate.service.service import Service


def usage_of(service: Service, tenant: str) -> dict[str, Any]:
    """What a tenant has and uses, and its limits."""
    number, use = number_of(tenant), service.usage.of(number_of(tenant))
    return {
        "tenant": tenant,
        "queries": service.queries.count(tenant),
        "templates": service.queries.count_templates(tenant),
        "sources": sum(source.tenant == tenant for source in service.sources.by_name.values()),
        "rows_s": round(service.row_rates.rate(tenant), 1),
        "state_bytes": service.usage.state_bytes(number),
        "result_bytes": service.usage.result_bytes(number),
        **_measured(use),
        "batches": service.usage.batches,
        "limits": service.tenant_limits.shown(tenant),
    }


def usage_of_all(service: Service) -> list[dict[str, Any]]:
    """The same for every tenant that has sources or queries, and what computations took that several share."""
    owners = {source.tenant for source in service.sources.by_name.values()}
    listed = [usage_of(service, tenant) for tenant in sorted({*service.queries.tenants, *owners})]
    return [
        *listed,
        {"tenant": None, **_measured(service.usage.of(COMMON)), "batches": service.usage.batches},
    ]


def _measured(use: TenantUse) -> dict[str, Any]:
    return {
        "cpu_s": round(use.cpu_ms / 1e3, 6),
        "rows": use.rows,
        "results": use.results,
        "waiting_rows": use.waiting_rows,
        "peak_bytes": use.peak_bytes or None,
    }


def first_readable(service: Service, tenant: str) -> int:
    """The oldest batch whose results a tenant can read."""
    return service.usage.first_readable(number_of(tenant), service.tenant_limits.of(tenant).result_bytes)


def waiting_rows(service: Service) -> dict[str, int]:
    """By tenant: the rows that wait for it as state, because it had no time left; `""` has those of nobody alone."""
    names, found = _names(service.queries.tenants), Counter[str]()
    for tenant, rows in service.usage.waiting.items():
        found[names.get(tenant, "")] += rows
    return dict(found)


def above_their_limits(service: Service, manifest: BatchManifest) -> dict[int, str]:
    """The computations with the most state of tenants that keep more than they may, and why they are stopped."""
    names = _names(service.queries.tenants)
    defaults = service.tenant_limits.defaults

    def limit_of(number: int) -> int:
        name = names.get(number)
        return (service.tenant_limits.of(name) if name else defaults).state_bytes

    stopped = dict[int, str]()
    for tenant in service.usage.above(limit_of, manifest.batch):
        stopped |= largest(
            manifest,
            service.batch_log.store,
            tenant,
            lambda number, template, batch, tenant=tenant: (  # type: ignore[misc]
                service.queries.is_owned(number, template, tenant)
                and service.computations.by_id[number].since <= batch
            ),
            limit_of(tenant),
        )
    return stopped


def _names(tenants: Iterable[str]) -> dict[int, str]:
    return {number_of(tenant): tenant for tenant in tenants}
