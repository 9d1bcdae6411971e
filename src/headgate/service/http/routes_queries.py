"""Routes of queries and their results."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Header, Request
from fastapi import Query as Parameter
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field

from headgate import errors
from headgate.service.http.asking import Serves, Whose, problem
from headgate.service.queries import Query

LOOK_EVERY_S = 0.1
router = APIRouter()


class NewQuery(BaseModel):
    """A query to register."""

    sql: str = Field(
        examples=["SELECT city, avg(temp) FROM weather GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')"]
    )
    name: str = Field("", max_length=200)


class NewQueries(BaseModel):
    """Many queries."""

    queries: list[NewQuery] = Field(max_length=100_000)


@router.post("/queries", status_code=201, tags=["queries"])
def register(new: NewQuery, service: Serves, tenant: Whose) -> dict[str, Any]:
    """Register a query. It is durable when this answers, and sees rows from the next batch on."""
    (answer,) = service.register(tenant, [(new.sql, new.name)])
    if isinstance(answer, errors.HeadgateError):
        raise answer
    return answer.to_json()


@router.post("/queries/bulk", tags=["queries"])
def register_many(new: NewQueries, service: Serves, tenant: Whose) -> dict[str, Any]:
    """Register many; each answer is an id or an error, in order."""
    answers = service.register(tenant, [(one.sql, one.name) for one in new.queries])
    told = [{"id": a.id} if isinstance(a, Query) else problem(a) for a in answers]
    return {"results": told, "registered": sum(isinstance(a, Query) for a in answers)}


@router.get("/queries", tags=["queries"])
def list_queries(
    service: Serves, tenant: Whose, after: int = -1, limit: Annotated[int, Parameter(ge=1, le=10_000)] = 100
) -> dict[str, Any]:
    """Your queries in the order in which they came; go on with ?after= the last id."""
    with service.lock:
        found = service.queries.of(tenant.name, after, limit)
        return {"queries": [one.to_json() for one in found], "count": service.queries.count(tenant.name)}


@router.get("/queries/{number}", tags=["queries"])
def get_query(number: int, service: Serves, tenant: Whose) -> dict[str, Any]:
    """One of your queries."""
    return service.queries.get(tenant.name, number).to_json()


@router.get("/queries/{number}/explain", tags=["queries"])
def explain_query(number: int, service: Serves, tenant: Whose) -> dict[str, Any]:
    """What a query became, where it is, and with how many it shares."""
    return service.explain_query(tenant, number)


@router.post("/explain", tags=["queries"])
def explain(new: NewQuery, service: Serves, tenant: Whose) -> dict[str, Any]:
    """The same for a query that is not registered."""
    return service.explain(new.sql)


@router.post("/queries/{number}/pause", tags=["queries"])
def pause(number: int, service: Serves, tenant: Whose) -> dict[str, Any]:
    """Let a query rest."""
    with service.lock:
        return service.queries.pause(tenant.name, number).to_json()


@router.post("/queries/{number}/resume", tags=["queries"])
def resume(number: int, service: Serves, tenant: Whose) -> dict[str, Any]:
    """Let it begin anew."""
    return service.resume(tenant, number).to_json()


@router.delete("/queries/{number}", status_code=204, tags=["queries"])
def remove(number: int, service: Serves, tenant: Whose) -> None:
    """Forget a query."""
    with service.lock:
        service.queries.remove(tenant.name, number)


@router.get("/queries/{number}/results", tags=["results"])
def results(
    number: int,
    service: Serves,
    tenant: Whose,
    cursor: str | None = None,
    limit: Annotated[int, Parameter(ge=1, le=10_000)] = 1000,
) -> dict[str, Any]:
    """Results from a cursor on. Come back with the cursor that is given: nothing is lost and nothing repeated."""
    rows, following = service.read(tenant, number, cursor, limit)
    return {"results": rows, "cursor": following}


@router.get("/queries/{number}/stream", response_class=EventSourceResponse, tags=["results"])
async def stream(
    number: int, service: Serves, tenant: Whose, request: Request, cursor: str | None = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> AsyncIterator[ServerSentEvent]:  # fmt: skip
    """Results as they come, as server-sent events whose id is the cursor to go on with."""
    at, seen = last_event_id or cursor, -2
    while not await request.is_disconnected():
        if service.last_batch != seen:
            seen = service.last_batch
            more = True
            while more:
                rows, at = await anyio.to_thread.run_sync(service.read, tenant, number, at, 500)
                more = len(rows) == 500
                if rows:
                    yield ServerSentEvent(data={"results": rows, "cursor": at}, event="results", id=at)
        await anyio.sleep(LOOK_EVERY_S)
