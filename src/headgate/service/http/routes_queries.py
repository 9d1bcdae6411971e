"""The routes for queries and their results."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi import Query as Parameter
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import AfterValidator, BaseModel, Field

from headgate.errors import HeadgateError
from headgate.service.http import numbers  # noqa: F401 - paths name its convertor
from headgate.service.http.dependencies import Bulk, CurrentNote, CurrentService, CurrentTenant, OpenTails
from headgate.service.http.errors import ERRORS, also_json, error_json
from headgate.service.queries import ACTIVE, Query
from headgate.service.sources import is_text

STREAM_ROWS = 500
"""How many results one server-sent event carries at most."""
CURSOR: dict[str, Any] = {"pattern": r"^[0-9]{1,18}(\.[0-9]{1,18})?$"}
router = APIRouter(responses=ERRORS)


def _storable(text: str) -> str:
    if not is_text(text):
        raise ValueError("the text has half of a character (a lone surrogate): send whole ones")
    return text


Text = Annotated[str, AfterValidator(_storable)]


class NewQuery(BaseModel, strict=True):
    """A query to register."""

    sql: Text = Field(
        examples=["SELECT city, avg(temp) FROM weather GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')"]
    )
    name: Text = Field("", max_length=200)


Cursor = Annotated[
    str | None,
    Parameter(description="Where to go on: `cursor` of an earlier answer.", json_schema_extra=CURSOR),
]


Listed = Bulk("queries", NewQuery, most=100_000)


@router.post("/queries", status_code=201, tags=["queries"])
def register(
    new: NewQuery, service: CurrentService, tenant: CurrentTenant, note: CurrentNote
) -> dict[str, Any]:
    """Register a query. It is durable when this answers, and it sees rows from the next batch on."""
    (answer,) = service.register(tenant, [(new.sql, new.name)])
    if isinstance(answer, HeadgateError):
        raise answer
    note.about(f"query {answer.id}")
    return answer.to_json()


@router.post(
    "/queries/bulk", tags=["queries"], openapi_extra=Listed.description, response_model=dict[str, Any]
)
def register_many(
    new: Annotated[bytes, Listed.body], service: CurrentService, tenant: CurrentTenant, note: CurrentNote
) -> JSONResponse:
    """Register many queries; for each, in order, the answer is an id or an error."""
    answers = service.register(tenant, [(query.sql, query.name) for query in Listed.read(new)])
    added = [a.id for a in answers if isinstance(a, Query)]
    if added:
        note.about(f"{len(added)} queries from {added[0]} to {added[-1]}")
    bodies = [{"id": a.id} if isinstance(a, Query) else error_json(a) for a in answers]
    # As a response, because FastAPI would look at every one of the bodies again, on the event loop.
    return JSONResponse({"results": bodies, "registered": len(added)})


@router.get("/queries", tags=["queries"])
def list_queries(
    service: CurrentService,
    tenant: CurrentTenant,
    after: int = -1,
    limit: Annotated[int, Parameter(ge=1, le=10_000)] = 100,
) -> dict[str, Any]:
    """List your queries in the order of their registration; for the next page, set `after` to the last id."""
    queries, count = service.list_queries(tenant, after, limit)
    return {"queries": [query.to_json() for query in queries], "count": count}


@router.get("/queries/{number:number}", tags=["queries"])
def get_query(number: int, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Show one of your queries."""
    return service.get_query(tenant, number).to_json()


@router.get("/queries/{number:number}/explain", tags=["queries"])
def explain_query(number: int, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Explain what a query became, where it runs, and how many others share its work."""
    return service.explain_query(tenant, number)


@router.post("/explain", tags=["queries"])
def explain(new: NewQuery, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Explain what a query would become, without registering it."""
    return service.explain(tenant, new.sql)


@router.post("/queries/{number:number}/pause", tags=["queries"])
def pause(number: int, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Pause a query: it costs nothing, and its results so far can no longer be read."""
    return service.pause(tenant, number).to_json()


@router.post("/queries/{number:number}/resume", tags=["queries"])
def resume(number: int, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Start a paused or failed query afresh from the next batch on."""
    return service.resume(tenant, number).to_json()


@router.delete("/queries/{number:number}", status_code=204, tags=["queries"])
def remove(number: int, service: CurrentService, tenant: CurrentTenant) -> None:
    """Remove a query; its results can no longer be read."""
    service.remove(tenant, number)


@router.get("/queries/{number:number}/results", tags=["results"])
def results(
    number: int,
    service: CurrentService,
    tenant: CurrentTenant,
    cursor: Cursor = None,
    limit: Annotated[int, Parameter(ge=1, le=10_000)] = 1000,
) -> dict[str, Any]:
    """Read results from a cursor on. Continue with the cursor in the answer: no result is lost or repeated."""
    rows, following = service.read(tenant, number, cursor, limit)
    return {"results": rows, "cursor": following}


@router.get(
    "/queries/{number:number}/stream",
    response_class=EventSourceResponse,
    responses=also_json(ERRORS),
    tags=["results"],
)
async def stream(
    number: int, tails: OpenTails, tenant: CurrentTenant, cursor: Cursor = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> AsyncIterator[ServerSentEvent]:  # fmt: skip
    """Stream results as they come: server-sent events, each with the next cursor as its id. When the query is
    paused or fails, the last event is `stopped`, and says why. When the service is about to stop, it is `ended`.
    """
    at, seen = last_event_id or cursor, -2
    while True:
        ending = tails.ending
        seen = await tails.batch_after(seen)
        more = not tails.refusal(tenant)
        while more:
            rows, at = await tails.read(tenant, number, at, STREAM_ROWS)
            more = len(rows) == STREAM_ROWS
            if rows:
                yield ServerSentEvent(data={"results": rows, "cursor": at}, event="results", id=at)
        if refusal := tails.refusal(tenant):
            yield ServerSentEvent(data={"state": "refused", "why": refusal}, event="stopped")
            return
        query = await tails.query(tenant, number)
        if query.state != ACTIVE:
            yield ServerSentEvent(data={"state": query.state, "why": query.why}, event="stopped")
            return
        if ending:  # all that is committed was sent after that
            yield ServerSentEvent(data={"results": [], "cursor": at}, event="ended", id=at)
            return
