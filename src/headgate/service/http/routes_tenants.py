"""The routes for tenants, their tokens, and the audit log."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi import Query as Parameter
from pydantic import BaseModel, Field

from headgate.service.http.dependencies import CurrentNote, CurrentService, CurrentTenant
from headgate.service.http.errors import ERRORS
from headgate.service.tenants import ADMIN, WRITER
from headgate.service.tokens import LABEL, LABEL_PATTERN, LONGEST_S, Token
from headgate.sql.source_schema import NAME

router = APIRouter(responses=ERRORS)
Role = Literal["reader", "writer", "admin"]


class NewTenant(BaseModel, strict=True):
    """A tenant to add."""

    name: str = Field(examples=["bob"], json_schema_extra={"pattern": f"^{NAME.pattern}$"})
    role: Role | None = Field(None, description="What the tenant may do: writer, if it does not say.")
    admin: bool = Field(False, description="The same as the role admin.")


class NewToken(BaseModel, strict=True):
    """A token to create."""

    label: str = Field("", max_length=LABEL, json_schema_extra={"pattern": LABEL_PATTERN})
    role: Role | None = Field(
        None, description="At most the tenant's role, which is what it has if it does not say."
    )
    expires_s: float | None = Field(
        None, gt=0, le=LONGEST_S, description="After so many seconds; never, without."
    )


class Rotation(BaseModel, strict=True):
    """How a token or a secret is rotated."""

    grace_s: float = Field(0.0, ge=0, le=LONGEST_S, description="How long the old one stays valid.")


@router.get("/me", tags=["tenants"])
def me(service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Show who you are: tenant, role, and the id of your token."""
    return {"tenant": tenant.name, "role": tenant.role, "token": tenant.token}


@router.get("/tenants", tags=["tenants"])
def list_tenants(
    service: CurrentService,
    tenant: CurrentTenant,
    after: str = "",
    limit: Annotated[int, Parameter(ge=1, le=10_000)] = 1000,
) -> dict[str, Any]:
    """List the tenants by name, if you are an admin; else only yourself. For the next page, set `after` to the last name."""
    tenants, count = service.accounts.listed(tenant, after, limit)
    return {"tenants": tenants, "count": count}


@router.post("/tenants", status_code=201, tags=["tenants"])
def add_tenant(
    new: NewTenant, service: CurrentService, tenant: CurrentTenant, note: CurrentNote
) -> dict[str, Any]:
    """Add a tenant; only an admin may. Its token is shown only here."""
    role = new.role or (ADMIN if new.admin else WRITER)
    token = service.accounts.add(tenant, new.name, role)
    note.about(f"tenant {new.name}")
    return {"name": new.name, "role": role, "token": token}


@router.get("/tenants/{name}", tags=["tenants"])
def get_tenant(name: str, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Show a tenant, with how many queries and sources it has."""
    return service.accounts.get(tenant, name)


@router.post("/tenants/{name}/disable", tags=["tenants"])
def disable_tenant(name: str, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Refuse a tenant's tokens until it is enabled; only an admin may. Its queries are paused."""
    return service.accounts.disable(tenant, name)


@router.post("/tenants/{name}/enable", tags=["tenants"])
def enable_tenant(name: str, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Accept a tenant's tokens again; only an admin may. The tenant resumes the queries that it still wants."""
    return service.accounts.enable(tenant, name)


@router.delete("/tenants/{name}", status_code=204, tags=["tenants"])
def remove_tenant(name: str, service: CurrentService, tenant: CurrentTenant) -> None:
    """Remove a tenant with its tokens and queries; only an admin may. Queries of others over its sources stop. Its name
    is never given again.
    """
    service.accounts.remove(tenant, name)


@router.get("/tenants/{name}/tokens", tags=["tenants"])
def list_tokens(name: str, service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """List the tokens of a tenant: their ids and what is known of them. The tokens themselves are not kept."""
    return {"tokens": [token.to_json() for token in service.accounts.tokens(tenant, name)]}


@router.post("/tenants/{name}/tokens", status_code=201, tags=["tenants"])
def create_token(
    name: str, new: NewToken, service: CurrentService, tenant: CurrentTenant, note: CurrentNote
) -> dict[str, Any]:
    """Create a token, with the tenant's role or a lower one. It is shown only here."""
    made = service.accounts.create_token(
        tenant, name, role=new.role or "", label=new.label, expires_s=new.expires_s
    )
    return _shown(made, note)


@router.post("/tenants/{name}/tokens/{token_id}/rotate", status_code=201, tags=["tenants"])
def rotate_token(
    name: str, token_id: str, how: Rotation, service: CurrentService, tenant: CurrentTenant, note: CurrentNote
) -> dict[str, Any]:
    """Create a token in the place of another, which stays valid for the grace period. The new one is shown only here."""
    made = service.accounts.rotate_token(tenant, name, token_id, how.grace_s)
    return _shown(made, note, f", for token {token_id}")


@router.delete("/tenants/{name}/tokens/{token_id}", status_code=204, tags=["tenants"])
def revoke_token(name: str, token_id: str, service: CurrentService, tenant: CurrentTenant) -> None:
    """End a token at once."""
    service.accounts.revoke_token(tenant, name, token_id)


@router.get("/audit", tags=["tenants"])
def audit(
    service: CurrentService,
    tenant: CurrentTenant,
    of: str | None = None,
    before: Annotated[int | None, Parameter(ge=0, lt=1 << 62)] = None,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Show who did what, the newest first: everyone, or the tenant `of`, if you are an admin; else only what is yours.
    For the next page, set `before` to the last `n`.
    """
    return {"entries": service.accounts.audit(tenant, of, before, limit)}


def _shown(made: tuple[Token, str], note: CurrentNote, more: str = "") -> dict[str, Any]:
    token, text = made
    note.about(f"token {token.id} of tenant {token.tenant}{more}")
    return {**token.to_json(), "token": text}
