"""What routes ask FastAPI for: the service, the tenant whose token the request carries, an admin, a large body."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import anyio.to_thread
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, TypeAdapter, ValidationError

from headgate.errors import AccessDenied, BadToken, ConfigError
from headgate.service.http.bulk import listed
from headgate.service.http.tails import Tails
from headgate.service.service import Service
from headgate.service.tenants import Tenant

T = TypeVar("T", bound=BaseModel)
bearer = HTTPBearer(auto_error=False)
CHECKED_AT_ONCE = 500
"""How many objects of a body are checked before other threads may run."""


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


CurrentService = Annotated[Service, Depends(_service)]


async def _known_tenant(request: Request) -> Tenant | None:
    """The tenant that the edge found."""
    tenant: Tenant | None = getattr(request.state, "tenant", None)
    return tenant


KnownTenant = Annotated[Tenant | None, Depends(_known_tenant)]


async def _tenant(
    tenant: KnownTenant, described: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Tenant:
    if tenant is None:  # a route that needs no token asks for one
        raise BadToken("a valid token is needed: send the header Authorization: Bearer TOKEN")
    return tenant


CurrentTenant = Annotated[Tenant, Depends(_tenant)]


async def _admin(tenant: CurrentTenant) -> Tenant:
    if not tenant.admin:
        raise AccessDenied(f"your token has the role {tenant.role}, and only an admin may do this")
    return tenant


CurrentAdmin = Annotated[Tenant, Depends(_admin)]


class Note:
    """What a request was about, for the audit log, where its path does not say so."""

    def __init__(self, request: Request) -> None:
        self._state = request.state

    def about(self, what: str) -> None:
        """Set it."""
        self._state.object = what


CurrentNote = Annotated[Note, Depends(Note)]


async def _tails(
    request: Request, number: int, service: CurrentService, tenant: CurrentTenant
) -> AsyncIterator[Tails]:
    # It raises before the stream begins, if there is no such query. Few streams are opened at once (`turns`).
    await anyio.to_thread.run_sync(service.get_query, tenant, number)
    tails: Tails = request.app.state.tails
    with tails.place(tenant):
        yield tails


OpenTails = Annotated[Tails, Depends(_tails)]


async def _body(request: Request) -> bytes:
    return await request.body()


@dataclass(frozen=True)
class Bulk(Generic[T]):
    """A body that lists many objects. FastAPI would read it on the event loop; `read` is called in a thread."""

    name: str
    model: type[T]
    most: int
    body: ClassVar[Any] = Depends(_body)

    def objects(self, body: bytes) -> list[dict[str, Any]]:
        """The objects of a body as they are."""
        return listed(body, self.name, self.most)

    def read(self, body: bytes) -> list[T]:
        """The objects of a body, checked; ConfigError names the one that is wrong."""
        objects, found = self.objects(body), list[T]()
        for begin in range(0, len(objects), CHECKED_AT_ONCE):
            try:
                found += self._many.validate_python(objects[begin : begin + CHECKED_AT_ONCE])
            except ValidationError as error:
                first = error.errors()[0]
                number, *rest = first["loc"]
                where = ".".join(str(part) for part in (self.name, begin + int(number), *rest))
                raise ConfigError(f"{where}: {first['msg']}") from error
        return found

    @cached_property
    def _many(self) -> TypeAdapter[list[T]]:
        return TypeAdapter(list[self.model])  # type: ignore[name-defined]

    @property
    def description(self) -> dict[str, Any]:
        """The body as OpenAPI describes it."""
        items = {"type": "array", "items": self.model.model_json_schema(), "maxItems": self.most}
        schema = {"type": "object", "properties": {self.name: items}, "required": [self.name]}
        return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
