"""Routes of sources, servers, tenants and the service itself."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi import Query as Parameter
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field

from headgate.service.http.asking import Admin, Serves, Whose
from headgate.service.metrics import metrics_text

router = APIRouter()


class NewSource(BaseModel):
    """A source that takes pushed events."""

    name: str
    columns: dict[str, str] = Field(examples=[{"temp": "double", "city": "varchar"}])
    delay_s: float = Field(5.0, description="How late its rows may come.")
    rate: float = Field(1.0, description="Its traffic, as placement counts it.")


class NewSources(BaseModel):
    """Many sources."""

    sources: list[NewSource] = Field(max_length=100_000)


class NewTenant(BaseModel):
    """A tenant to make."""

    name: str
    admin: bool = False


class Events(BaseModel):
    """Events of a source: its time and columns."""

    events: list[dict[str, Any]] = Field(max_length=200_000)


@router.get("/sources", tags=["sources"])
def list_sources(
    service: Serves, tenant: Whose, after: str = "", limit: Annotated[int, Parameter(ge=1, le=10_000)] = 1000
) -> dict[str, Any]:
    """The sources that queries can read."""
    names = [name for name in sorted(service.sources.by_name) if name > after][:limit]
    return {
        "sources": [service.sources.by_name[name].to_json() for name in names],
        "count": len(service.sources),
    }


@router.post("/sources", status_code=201, tags=["sources"])
def add_source(new: NewSource, service: Serves, tenant: Whose) -> dict[str, Any]:
    """Declare a source that takes pushed events."""
    return service.add_sources(tenant, [new.model_dump()])[0].to_json()


@router.post("/sources/bulk", status_code=201, tags=["sources"])
def add_sources(new: NewSources, service: Serves, tenant: Whose) -> dict[str, Any]:
    """Declare many, all or none."""
    return {"declared": len(service.add_sources(tenant, [one.model_dump() for one in new.sources]))}


@router.post("/sources/{name}/events", status_code=202, tags=["sources"])
def push(name: str, new: Events, service: Serves, tenant: Whose) -> dict[str, Any]:
    """Push events. They are durable when this answers."""
    return {"accepted": service.push_events(tenant, name, new.events)}


@router.get("/servers", tags=["servers"])
def list_servers(service: Serves, tenant: Whose) -> dict[str, Any]:
    """Servers with load and sources."""
    return {"servers": service.servers()}


@router.post("/servers", status_code=201, tags=["servers"])
def add_server(service: Serves, tenant: Admin) -> dict[str, Any]:
    """Add a server, from the next batch on."""
    return {"server": service.add_server()}


@router.delete("/servers/{number}", tags=["servers"])
def lose_server(number: int, service: Serves, tenant: Admin) -> dict[str, Any]:
    """Take a server away; its queries go elsewhere and keep their windows."""
    return {"moved": len(service.lose_server(number))}


@router.get("/traffic", tags=["servers"])
def traffic(
    service: Serves, tenant: Whose, last: Annotated[int, Parameter(ge=1, le=1000)] = 100
) -> dict[str, Any]:
    """What the last batches carried, beside what placement predicted."""
    return {"batches": list(service.facts)[-last:]}


@router.post("/tenants", status_code=201, tags=["service"])
def add_tenant(new: NewTenant, service: Serves, tenant: Admin) -> dict[str, Any]:
    """Make a tenant. Its token is shown once."""
    with service.lock:
        return {"name": new.name, "token": service.tenants.add(new.name, admin=new.admin)}


@router.get("/status", tags=["service"])
def status(service: Serves, tenant: Whose) -> dict[str, Any]:
    """The service at a glance."""
    return {**service.status(), "your_queries": service.queries.count(tenant.name)}


@router.get("/health", tags=["service"])
def health() -> dict[str, Any]:
    """Whether the process answers."""
    return {"ok": True, "at": time.time()}


@router.get("/ready", tags=["service"])
def ready(service: Serves) -> JSONResponse:
    """Whether batches run."""
    fine = service.running and service.failure is None
    return JSONResponse({"ready": fine, "why": service.failure or ""}, status_code=200 if fine else 503)


@router.get("/metrics", response_class=PlainTextResponse, tags=["service"])
def metrics(service: Serves) -> PlainTextResponse:
    """For Prometheus."""
    return PlainTextResponse(metrics_text(service), media_type="text/plain; version=0.0.4")
