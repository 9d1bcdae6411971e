"""The routes for deliveries, and for publishing results as a source."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from headgate.service.delivery.desk import KEPT, Desk
from headgate.service.delivery.published import publish
from headgate.service.http.dependencies import CurrentService, CurrentTenant
from headgate.service.http.errors import ERRORS
from headgate.service.http.routes_tenants import Rotation

router = APIRouter(tags=["deliveries"], responses=ERRORS)


class NewDelivery(BaseModel):
    """Results that are to go to a target."""

    queries: list[int] = Field(min_length=1, max_length=100, examples=[[0]])
    target: str = Field(examples=["lake"], max_length=100)
    options: dict[str, str] = Field(default_factory=dict, max_length=10, examples=[{"table": "by_city"}])
    start: Literal["kept", "new"] = Field(
        KEPT, description="`kept`: with the results that are kept; `new`: with those that come."
    )


class NewPublication(BaseModel):
    """A source that a query's results become."""

    name: str = Field(max_length=100)
    delay_s: float | None = Field(
        None, description="How late its rows may arrive; by default, what the query needs."
    )
    rate: float = Field(1.0, description="Its traffic, in the units of placement.")


@router.post("/queries/{number}/publish", status_code=201)
def publish_results(
    number: int, new: NewPublication, service: CurrentService, tenant: CurrentTenant
) -> dict[str, Any]:
    """Make the results of your query a source of yours, which queries can read from now on."""
    return publish(service, tenant, number, new.name, delay_s=new.delay_s, rate=new.rate).to_json()


async def _desk(service: CurrentService) -> Desk:
    return Desk(service)


CurrentDesk = Annotated[Desk, Depends(_desk)]


@router.get("/targets")
def list_targets(desk: CurrentDesk, tenant: CurrentTenant) -> dict[str, Any]:
    """List the targets to which you may have results delivered."""
    return {"targets": desk.targets(tenant)}


@router.post("/deliveries", status_code=201)
def add_delivery(new: NewDelivery, desk: CurrentDesk, tenant: CurrentTenant) -> dict[str, Any]:
    """Have the results of queries delivered, each query by a delivery of its own. The secret that signs webhooks is
    shown only here.
    """
    added, secret = desk.add(tenant, new.queries, new.target, new.options, start=new.start)
    return {"deliveries": [one.to_json() for one in added], **({"secret": secret} if secret else {})}


@router.get("/deliveries")
def list_deliveries(desk: CurrentDesk, tenant: CurrentTenant, query: int | None = None) -> dict[str, Any]:
    """List your deliveries, of one query or of all."""
    return {"deliveries": desk.list(tenant, query)}


@router.get("/deliveries/{number}")
def get_delivery(number: int, desk: CurrentDesk, tenant: CurrentTenant) -> dict[str, Any]:
    """Show how far a delivery has come, and why it is stopped if it is."""
    return desk.get(tenant, number)


@router.post("/deliveries/{number}/pause")
def pause_delivery(number: int, desk: CurrentDesk, tenant: CurrentTenant) -> dict[str, Any]:
    """Send nothing more until the delivery is resumed."""
    return desk.pause(tenant, number)


@router.post("/deliveries/{number}/resume")
def resume_delivery(
    number: int, desk: CurrentDesk, tenant: CurrentTenant, skip: bool = False
) -> dict[str, Any]:
    """Go on from where the delivery stood. With `skip`, results that can no longer be read are not sent."""
    return desk.resume(tenant, number, skip=skip)


@router.post("/deliveries/{number}/rotate", status_code=201)
def rotate_secret(number: int, how: Rotation, desk: CurrentDesk, tenant: CurrentTenant) -> dict[str, Any]:
    """Sign a webhook with a new secret, which is shown only here. For the grace period the old one signs it, too: each
    request has both signatures.
    """
    made, secret = desk.rotate(tenant, number, how.grace_s)
    return {**made, "secret": secret}


@router.delete("/deliveries/{number}", status_code=204)
def remove_delivery(number: int, desk: CurrentDesk, tenant: CurrentTenant) -> None:
    """Remove a delivery. What was sent stays where it is."""
    desk.remove(tenant, number)
