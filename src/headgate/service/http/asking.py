"""What every route asks first: which service, whose token; and errors as JSON."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from headgate import errors
from headgate.service.service import Service
from headgate.service.tenants import Tenant

bearer = HTTPBearer(auto_error=False)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Serves = Annotated[Service, Depends(_service)]


def _whose(service: Serves, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> Tenant:
    return service.tenants.of(given.credentials if given else None)


Whose = Annotated[Tenant, Depends(_whose)]


def _admin(tenant: Whose) -> Tenant:
    if not tenant.admin:
        raise errors.AccessDenied("only an admin may do this")
    return tenant


Admin = Annotated[Tenant, Depends(_admin)]


def problem(error: errors.HeadgateError) -> dict[str, Any]:
    """An error as JSON."""
    found: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, errors.QueryRefused):
        found |= {"error": error.reason, "line": error.line, "column": error.column}
    return found
