"""The routes for sources, servers, tenants and the service itself."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi import Query as Parameter
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field

from headgate.service.http.dependencies import Bulk, CurrentAdmin, CurrentService, CurrentTenant
from headgate.service.http.metrics import metrics_text

router = APIRouter()


class NewSource(BaseModel):
    """A source that takes pushed events."""

    name: str
    columns: dict[str, str] = Field(examples=[{"temp": "double", "city": "varchar"}])
    delay_s: float = Field(5.0, description="How late its rows may arrive.")
    rate: float = Field(1.0, description="Its traffic, in the units of placement.")


class NewTenant(BaseModel):
    """A tenant to add."""

    name: str
    admin: bool = False


class Event(BaseModel, extra="allow"):
    """An event of a source: it has `time` and the source's columns."""

    time: str | float = Field(examples=["2026-01-01T08:00:00Z"])


NewSources = Bulk("sources", NewSource, most=100_000)
Events = Bulk("events", Event, most=200_000)


@router.get("/sources", tags=["sources"])
def list_sources(
    service: CurrentService,
    tenant: CurrentTenant,
    after: str = "",
    limit: Annotated[int, Parameter(ge=1, le=10_000)] = 1000,
) -> dict[str, Any]:
    """List the sources that queries can read, by name; for the next page, set `after` to the last name."""
    sources, count = service.list_sources(tenant, after, limit)
    return {"sources": [source.to_json() for source in sources], "count": count}


@router.post("/sources", status_code=201, tags=["sources"])
def add_source(new: NewSource, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Declare a source that takes pushed events."""
    return service.add_sources(tenant, [new.model_dump()])[0].to_json()


@router.post("/sources/bulk", status_code=201, tags=["sources"], openapi_extra=NewSources.description)
def add_sources(
    new: Annotated[bytes, NewSources.body], service: CurrentService, tenant: CurrentTenant
) -> dict[str, Any]:
    """Declare many sources, all or none."""
    declared = [source.model_dump() for source in NewSources.read(new)]
    return {"declared": len(service.add_sources(tenant, declared))}


@router.post("/sources/{name}/events", status_code=202, tags=["sources"], openapi_extra=Events.description)
def push(
    name: str, new: Annotated[bytes, Events.body], service: CurrentService, tenant: CurrentTenant
) -> dict[str, Any]:
    """Push events. They are durable when this answers."""
    return {"accepted": service.push_events(tenant, name, Events.objects(new))}


@router.get("/sources/{name}/grants", tags=["sources"])
def list_grants(name: str, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """List the tenants that may read your source; `*` is everyone."""
    return {"grants": service.list_grants(tenant, name)}


@router.put("/sources/{name}/grants/{to}", status_code=204, tags=["sources"])
def grant(name: str, to: str, service: CurrentService, tenant: CurrentTenant) -> None:
    """Let a tenant, or everyone (`*`), read your source."""
    service.grant(tenant, name, to)


@router.delete("/sources/{name}/grants/{of}", status_code=204, tags=["sources"])
def revoke(name: str, of: str, service: CurrentService, tenant: CurrentTenant) -> None:
    """Take a grant back. Queries that may no longer read the source stop."""
    service.revoke(tenant, name, of)


@router.get("/servers", tags=["servers"])
def list_servers(service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """List the servers with their load, computations and sources."""
    return {"servers": service.servers(tenant)}


@router.post("/servers", status_code=201, tags=["servers"])
def add_server(service: CurrentService, tenant: CurrentAdmin) -> dict[str, Any]:
    """Add a server, which takes part from the next batch on."""
    return {"server": service.add_server()}


@router.delete("/servers/{number}", tags=["servers"])
def lose_server(number: int, service: CurrentService, tenant: CurrentAdmin) -> dict[str, Any]:
    """Remove a server; its queries move to other servers and keep their windows."""
    return {"moved": len(service.lose_server(number))}


@router.get("/traffic", tags=["servers"])
def traffic(
    service: CurrentService, tenant: CurrentTenant, last: Annotated[int, Parameter(ge=1, le=1000)] = 100
) -> dict[str, Any]:
    """Show what the last batches carried, beside what placement predicted."""
    return {"batches": list(service.facts)[-last:]}


@router.post("/tenants", status_code=201, tags=["service"])
def add_tenant(new: NewTenant, service: CurrentService, tenant: CurrentAdmin) -> dict[str, Any]:
    """Add a tenant. Its token is shown only here."""
    return {"name": new.name, "token": service.add_tenant(new.name, admin=new.admin)}


@router.get("/status", tags=["service"])
def status(service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Show the service at a glance."""
    return {**service.status(), "your_queries": service.count_queries(tenant)}


@router.get("/health", tags=["service"])
async def health() -> dict[str, Any]:
    """Answer while the process is alive."""
    return {"ok": True, "at": time.time()}


@router.get("/ready", tags=["service"])
def ready(service: CurrentService) -> JSONResponse:
    """Say whether batches run, and if not, why; how far they are behind; and which queries have failed."""
    is_ready = service.running and service.failure is None
    queries, count = service.quarantined()
    lag = {name: value for name, value in service.lag().items() if name != "streams"}  # totals tell no names
    failed = {"count": count, "latest": queries}
    body = {"ready": is_ready, "why": service.failure or "", "lag": lag, "failed": failed}
    return JSONResponse(body, status_code=200 if is_ready else 503)


@router.get("/metrics", response_class=PlainTextResponse, tags=["service"])
def metrics(service: CurrentService) -> PlainTextResponse:
    """Show the metrics that Prometheus reads."""
    return PlainTextResponse(metrics_text(service), media_type="text/plain; version=0.0.4")
