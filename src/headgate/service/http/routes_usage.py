"""The routes for what tenants use, and for their limits."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from headgate.service.http.dependencies import CurrentAdmin, CurrentService, CurrentTenant
from headgate.service.http.errors import ERRORS
from headgate.service.usage_view import usage_of, usage_of_all

router = APIRouter(responses=ERRORS)


MOST_WHOLE = 1 << 53
"""The largest bound that JSON readers which use doubles read exactly."""


class TenantLimits(BaseModel, extra="forbid"):
    """Limits of one tenant. What is left out stays as it is; null takes a limit back."""

    queries: int | None = Field(None, gt=0, le=MOST_WHOLE)
    templates: int | None = Field(None, gt=0, le=MOST_WHOLE)
    sources: int | None = Field(None, gt=0, le=MOST_WHOLE)
    rows_s: float | None = Field(
        None, gt=0, lt=1e12, description="Rows that it pushes in a second, for long."
    )
    tenant_seconds: float | None = Field(None, gt=0, lt=1e9, description="Of a batch, on each server.")
    batch_part: float | None = Field(None, gt=0, lt=1e9, description="By which it may lengthen a batch.")
    state_bytes: int | None = Field(None, gt=0, le=MOST_WHOLE)
    result_bytes: int | None = Field(None, gt=0, le=MOST_WHOLE)


@router.get("/usage", tags=["service"])
def usage(service: CurrentService, tenant: CurrentTenant) -> dict[str, Any]:
    """Show what you use, and your limits; to an admin also what every tenant uses."""
    own = usage_of(service, tenant.name)
    return {**own, "tenants": usage_of_all(service)} if tenant.admin else own


@router.put("/tenants/{name}/limits", tags=["service"])
def set_limits(
    name: str, new: TenantLimits, service: CurrentService, tenant: CurrentAdmin
) -> dict[str, float]:
    """Set limits of one tenant. Answers with those in force."""
    return service.set_limits(name, {field: getattr(new, field) for field in new.model_fields_set})
