"""The routes for sources, servers, tenants and the service itself."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi import Query as Parameter
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field

from headgate.service.http.dependencies import (
    Bulk,
    CurrentAdmin,
    CurrentNote,
    CurrentService,
    CurrentTenant,
    KnownTenant,
)
from headgate.service.http.errors import ERRORS, PUBLIC_ERRORS, also_json
from headgate.service.http.metrics import metrics_text
from headgate.sql.source_schema import ALIASES, NAME, TIME, TYPES

router = APIRouter(responses=ERRORS)
public = APIRouter(responses=PUBLIC_ERRORS)
"""The routes that need no token."""


NAMED: dict[str, Any] = {"pattern": f"^{NAME.pattern}$"}
COLUMNS: dict[str, Any] = {
    "minProperties": 1,
    "propertyNames": {"pattern": f"^(?!{TIME}$){NAME.pattern}$"},
    "additionalProperties": {"type": "string", "enum": [*TYPES, *ALIASES]},
}
"""What is documented; the service itself says what is wrong, in its words."""

Reader = Annotated[
    str,
    Path(
        description="A tenant, or * for everyone.", json_schema_extra={"pattern": rf"^(\*|{NAME.pattern})$"}
    ),
]


class NewSource(BaseModel, strict=True):
    """A source that takes pushed events."""

    name: str = Field(examples=["road"], json_schema_extra=NAMED)
    columns: dict[str, str] = Field(
        examples=[{"temp": "double", "city": "varchar"}], json_schema_extra=COLUMNS
    )
    delay_s: float = Field(
        5.0, description="How late its rows may arrive.", json_schema_extra={"minimum": 0, "maximum": 86_400}
    )
    rate: float = Field(
        1.0,
        description="Its traffic, in the units of placement.",
        json_schema_extra={"exclusiveMinimum": 0, "exclusiveMaximum": 1e12},
    )


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
def add_source(
    new: NewSource, service: CurrentService, tenant: CurrentTenant, note: CurrentNote
) -> dict[str, Any]:
    """Declare a source that takes pushed events."""
    note.about(f"source {new.name}")
    return service.add_sources(tenant, [new.model_dump()])[0].to_json()


@router.post("/sources/bulk", status_code=201, tags=["sources"], openapi_extra=NewSources.description)
def add_sources(
    new: Annotated[bytes, NewSources.body], service: CurrentService, tenant: CurrentTenant, note: CurrentNote
) -> dict[str, Any]:
    """Declare many sources, all or none."""
    declared = [source.model_dump() for source in NewSources.read(new)]
    note.about(f"{len(declared)} sources")
    return {"declared": len(service.add_sources(tenant, declared))}


@router.post("/sources/{name}/events", status_code=202, tags=["sources"], openapi_extra=Events.description)
def push(
    name: str, new: Annotated[bytes, Events.body], service: CurrentService, tenant: CurrentTenant
) -> dict[str, Any]:
    """Push events. They are durable when this answers."""
    service.check_push(tenant, name, len(new))
    return {"accepted": service.push_events(tenant, name, Events.objects(new))}


@router.get("/sources/{name}/grants", tags=["sources"])
def list_grants(name: str, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """List the tenants that may read your source; `*` is everyone."""
    return {"grants": service.list_grants(tenant, name)}


@router.put("/sources/{name}/grants/{reader}", status_code=204, tags=["sources"])
def grant(name: str, reader: Reader, service: CurrentService, tenant: CurrentTenant) -> None:
    """Let a tenant, or everyone (`*`), read your source."""
    service.grant(tenant, name, reader)


@router.delete("/sources/{name}/grants/{reader}", status_code=204, tags=["sources"])
def revoke(name: str, reader: Reader, service: CurrentService, tenant: CurrentTenant) -> None:
    """Take a grant back. Queries that may no longer read the source stop."""
    service.revoke(tenant, name, reader)


@router.get("/servers", tags=["servers"])
def list_servers(service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """List the servers with their load, computations and sources."""
    return {"servers": service.servers(tenant)}


@router.post("/servers", status_code=201, tags=["servers"])
def add_server(service: CurrentService, tenant: CurrentAdmin) -> dict[str, Any]:
    """Add a server, which takes part from the next batch on."""
    return {"server": service.add_server()}


@router.delete("/servers/{number:number}", tags=["servers"])
def lose_server(number: int, service: CurrentService, tenant: CurrentAdmin) -> dict[str, Any]:
    """Remove a server; its queries move to other servers and keep their windows."""
    return {"moved": len(service.lose_server(number))}


@router.get("/traffic", tags=["servers"])
def traffic(
    service: CurrentService, tenant: CurrentTenant, last: Annotated[int, Parameter(ge=1, le=1000)] = 100
) -> dict[str, Any]:
    """Show what the last batches carried, beside what placement predicted."""
    return {"batches": list(service.facts)[-last:]}


@router.get("/status", tags=["service"])
def status(service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Show the service at a glance."""
    shown = service.status()
    if not tenant.admin:
        shown["failure"] = service.failure_in_short or None
    return {**shown, "your_queries": service.count_queries(tenant)}


@public.get("/health", tags=["service"])
async def health() -> dict[str, Any]:
    """Answer while the process is alive."""
    return {"ok": True, "at": time.time()}


@public.get("/ready", tags=["service"])
def ready(service: CurrentService, tenant: KnownTenant) -> JSONResponse:
    """Say whether batches run, how far they are behind, and how many queries have failed. With an admin's token also
    why not, which streams are behind, whose rows wait, and which queries have failed and whose they are: to others that would tell
    about tenants.
    """
    is_ready = service.running and service.failure is None
    queries, count = service.quarantined()
    failed: dict[str, Any] = {"count": count}
    why, lag = service.failure_in_short, service.lag()
    if tenant is not None and tenant.admin:
        failed["latest"], why = queries, service.failure or why
    else:
        del lag["streams"], lag["waiting"]
    body = {"ready": is_ready, "why": why, "lag": lag, "failed": failed}
    return JSONResponse(body, status_code=200 if is_ready else 503)


@public.get(
    "/metrics", response_class=PlainTextResponse, responses=also_json(PUBLIC_ERRORS), tags=["service"]
)
def metrics(service: CurrentService) -> PlainTextResponse:
    """Show the metrics that Prometheus reads."""
    return PlainTextResponse(metrics_text(service), media_type="text/plain; version=0.0.4")
