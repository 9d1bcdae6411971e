"""What a text became, or would become. What is said depends on no other tenant; placement is for admins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.service.computations import COST_UNIT
from headgate.service.tenants import Tenant

if TYPE_CHECKING:
    from headgate.service.service import Service


def explain(service: Service, tenant: Tenant, text: str) -> dict[str, Any]:
    """What a query would become, without registering it; to an admin also where it would be placed, which tells about
    the load of everyone.
    """
    prepared = service.prepare(tenant, text)
    explanation: dict[str, Any] = prepared.explanation()
    if tenant.admin:
        sources = list(dict.fromkeys(prepared.sources))
        with service.lock:
            placement = service.computations.host.explain(sources, prepared.template.cost / COST_UNIT)
        explanation["placement"] = str(placement).splitlines()
    return explanation


def explain_query(service: Service, tenant: Tenant, number: int) -> dict[str, Any]:
    """The same for a registered query, with its server and how many of the tenant's queries share its work; to an
    admin, how many of all.
    """
    explanation = explain(service, tenant, service.get_query(tenant, number).text)
    with service.lock:
        query = service.queries.get(tenant.name, number)
        if query.computation is not None:
            computation = service.computations.by_id[query.computation]
            among = None if tenant.admin else tenant.name
            explanation |= {
                "server": computation.server,
                "queries_of_computation": service.queries.count_sharing(computation.id, among),
            }
            if tenant.admin:
                count = service.computations.count_of_template(computation.template)
                explanation |= {"template": computation.template, "computations_of_template": count}
    return explanation
