"""The client's calls for tenants, tokens and the audit log."""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import quote


class _Requests(Protocol):
    def _request(self, method: str, path: str, **options: Any) -> Any: ...


class TenantCalls:
    """What a client can do with tenants. A tenant manages its own tokens, and an admin those of everyone."""

    def me(self: _Requests) -> dict[str, Any]:
        """Show who you are: tenant, role, and the id of your token."""
        answer: dict[str, Any] = self._request("GET", "/me")
        return answer

    def add_tenant(self: _Requests, name: str, *, admin: bool = False, role: str | None = None) -> str:
        """Add a tenant; only an admin may. Returns its token."""
        body = {"name": name, "role": role or ("admin" if admin else "writer")}
        return str(self._request("POST", "/tenants", json=body)["token"])

    def tenants(self: _Requests) -> list[dict[str, Any]]:
        """List all tenants, if you are an admin; else only yourself."""
        listed = list[dict[str, Any]]()
        while True:
            params = {"after": listed[-1]["name"] if listed else "", "limit": 10_000}
            page = self._request("GET", "/tenants", params=params)["tenants"]
            listed += page
            if not page:
                return listed

    def disable_tenant(self: _Requests, name: str) -> None:
        """Refuse a tenant's tokens until it is enabled, and pause its queries; only an admin may."""
        self._request("POST", f"/tenants/{quote(name, '')}/disable")

    def enable_tenant(self: _Requests, name: str) -> None:
        """Accept a tenant's tokens again; only an admin may."""
        self._request("POST", f"/tenants/{quote(name, '')}/enable")

    def remove_tenant(self: _Requests, name: str) -> None:
        """Remove a tenant with its tokens and queries; only an admin may. Queries of others over its sources stop."""
        self._request("DELETE", f"/tenants/{quote(name, '')}")

    def tokens(self: _Requests, tenant: str) -> list[dict[str, Any]]:
        """List what is known of a tenant's tokens; the tokens themselves are not kept."""
        listed: list[dict[str, Any]] = self._request("GET", f"/tenants/{quote(tenant, '')}/tokens")["tokens"]
        return listed

    def create_token(
        self: _Requests,
        tenant: str,
        *,
        role: str | None = None,
        label: str = "",
        expires_s: float | None = None,
    ) -> dict[str, Any]:
        """Create a token; the answer's `token` is shown only now, and its `id` is what names it later."""
        body = {"role": role, "label": label, "expires_s": expires_s}
        answer: dict[str, Any] = self._request("POST", f"/tenants/{quote(tenant, '')}/tokens", json=body)
        return answer

    def rotate_token(self: _Requests, tenant: str, token: str, *, grace_s: float = 0.0) -> dict[str, Any]:
        """Create a token in the place of another, given by its id, which stays valid for the grace period."""
        path = f"/tenants/{quote(tenant, '')}/tokens/{quote(token, '')}/rotate"
        answer: dict[str, Any] = self._request("POST", path, json={"grace_s": grace_s})
        return answer

    def revoke_token(self: _Requests, tenant: str, token: str) -> None:
        """End a token, given by its id, at once."""
        self._request("DELETE", f"/tenants/{quote(tenant, '')}/tokens/{quote(token, '')}")

    def audit(
        self: _Requests, *, of: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Show who did what, the newest first; for more, set `before` to the last `n`."""
        params = {"of": of, "before": before, "limit": limit}
        given = {name: value for name, value in params.items() if value is not None}
        listed: list[dict[str, Any]] = self._request("GET", "/audit", params=given)["entries"]
        return listed
