"""What routes ask FastAPI for: the service, the tenant whose token the request carries, and an admin."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from headgate.errors import AccessDenied
from headgate.service.service import Service
from headgate.service.tenants import Tenant

bearer = HTTPBearer(auto_error=False)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


CurrentService = Annotated[Service, Depends(_service)]


def _tenant(
    service: CurrentService, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Tenant:
    return service.authenticate(credentials.credentials if credentials else None)


CurrentTenant = Annotated[Tenant, Depends(_tenant)]


def _admin(tenant: CurrentTenant) -> Tenant:
    if not tenant.admin:
        raise AccessDenied("only an admin may do this")
    return tenant


CurrentAdmin = Annotated[Tenant, Depends(_admin)]
