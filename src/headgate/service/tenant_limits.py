"""The limits of each tenant: those of the configuration, and what an admin has set for one tenant instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from headgate.errors import ConfigError
from headgate.service.registry import Registry
from headgate.service.tenant_use import number_of
from headgate.sql.limits import Limits

SETTABLE = (
    "queries",
    "templates",
    "sources",
    "rows_s",
    "tenant_seconds",
    "batch_part",
    "state_bytes",
    "result_bytes",
)
"""The limits that a tenant can have of its own."""
_FRACTIONS = ("rows_s", "tenant_seconds", "batch_part")
_SET = "INSERT INTO tenant_limits VALUES (?, ?, ?) ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value"
_UNSET = "DELETE FROM tenant_limits WHERE tenant = ? AND name = ?"


class TenantLimits:
    """The limits of all tenants. Every change is durable when its method returns."""

    def __init__(self, registry: Registry, defaults: Limits) -> None:
        self._registry, self.defaults = registry, defaults
        self._own: dict[str, dict[str, float]] = {}
        self._of: dict[str, Limits] = {}
        for tenant, name, value in registry.read("SELECT tenant, name, value FROM tenant_limits"):
            self._own.setdefault(tenant, {})[name] = value
        for tenant in self._own:
            self._of[tenant] = self._made(tenant)

    def of(self, tenant: str) -> Limits:
        """The limits of a tenant."""
        return self._of.get(tenant, self.defaults)

    def shown(self, tenant: str) -> dict[str, float]:
        """The limits of a tenant that it can have of its own."""
        every = asdict(self.of(tenant))
        return {name: every[name] for name in SETTABLE}

    def set(self, tenant: str, values: Mapping[str, float | None]) -> None:
        """Set limits of a tenant; None takes one back, so that the configuration's is in force again."""
        for name in values:
            if name not in SETTABLE:
                raise ConfigError(f"limit {name!r} is not one of a tenant: they are {', '.join(SETTABLE)}")
        own = {**self._own.get(tenant, {}), **{name: v for name, v in values.items() if v is not None}}
        own = {name: value for name, value in own.items() if values.get(name, value) is not None}
        made = self._made(tenant, own)  # raises if one is not above 0
        set_now = [(tenant, name, float(value)) for name, value in values.items() if value is not None]
        taken_back = [(tenant, name) for name, value in values.items() if value is None]
        self._registry.write((_SET, set_now), (_UNSET, taken_back))
        self._own[tenant], self._of[tenant] = own, made

    def _made(self, tenant: str, own: Mapping[str, float] | None = None) -> Limits:
        values = self._own[tenant] if own is None else own
        whole = {name: v if name in _FRACTIONS else int(v) for name, v in values.items() if name in SETTABLE}
        return replace(self.defaults, **whole)  # type: ignore[arg-type]

    def budgets(self) -> dict[int, float]:
        """By the number of a tenant that has its own: its seconds of a batch."""
        return self._numbered("tenant_seconds")

    def parts(self) -> dict[int, float]:
        """By the number of a tenant that has its own: by which part it may lengthen a batch."""
        return self._numbered("batch_part")

    def _numbered(self, name: str) -> dict[int, float]:
        return {number_of(tenant): own[name] for tenant, own in list(self._own.items()) if name in own}
