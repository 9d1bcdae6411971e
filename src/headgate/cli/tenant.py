"""`headgate tenant`, `headgate token` and `headgate audit`: who may use a running service, and who did what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from headgate.cli.group import Commands
from headgate.cli.remote import Asked, asking
from headgate.errors import ConfigError

tenant_app = typer.Typer(cls=Commands, no_args_is_help=True, help="Tenants of a running service.")
token_app = typer.Typer(cls=Commands, no_args_is_help=True, help="Tokens of tenants of a running service.")
Name = Annotated[str, typer.Argument(help="The tenant's name.")]
Id = Annotated[str, typer.Argument(help="The token's id, as `token list` shows it.")]
Of = Annotated[str, typer.Option(help="The tenant; by default that of your token.")]
Role = Annotated[str, typer.Option(help="reader, writer or admin.")]
Grace = Annotated[str, typer.Option(help="How long the old one stays valid: 0, 15m, 12h, 30d.")]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str, option: str) -> float | None:
    """A time such as 90, 15m, 12h or 30d; None if there is none."""
    if not text:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if found is None:
        raise ConfigError(f"{option} {text}: write a time such as 90, 15m, 12h or 30d")
    return float(found[1]) * UNITS[found[2] or "s"]


def as_table(title: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Grid:
    """Rows for a terminal."""
    grid = Grid(title=title, title_justify="left")
    for name in names:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*("" if row[name] is None else str(row[name]) for name in names))
    return grid


@tenant_app.command("add")
@asking
def add(asked: Asked, name: Name, role: Role = "writer") -> None:
    """Add a tenant, and print its token, which is not shown again."""
    made = asked.client.add_tenant(name, role=role)
    text = f"tenant {name} is added as {role}; its token, which is not shown again, is\n{made}"
    asked.answer(text, {"tenant": name, "role": role, "token": made})


@tenant_app.command("list")
@asking
def show(asked: Asked) -> None:
    """List the tenants."""
    tenants = asked.client.tenants()
    names = ("name", "role", "state", "queries", "sources", "created")
    asked.answer(as_table(f"{len(tenants)} tenants", tenants, names), {"tenants": tenants})


@tenant_app.command("rm")
@asking
def rm(asked: Asked, name: Name) -> None:
    """Remove a tenant with its tokens and queries. Queries of others over its sources stop."""
    asked.client.remove_tenant(name)
    asked.answer(f"tenant {name} is removed", {"removed": name})


@tenant_app.command("disable")
@asking
def disable(asked: Asked, name: Name) -> None:
    """Refuse a tenant's tokens until it is enabled, and pause its queries."""
    asked.client.disable_tenant(name)
    asked.answer(f"tenant {name} is disabled", {"disabled": name})


@tenant_app.command("enable")
@asking
def enable(asked: Asked, name: Name) -> None:
    """Accept a tenant's tokens again. It resumes the queries that it still wants."""
    asked.client.enable_tenant(name)
    asked.answer(f"tenant {name} is enabled", {"enabled": name})


@token_app.command("create")
@asking
def create(
    asked: Asked,
    tenant: Of = "",
    role: Annotated[str, typer.Option(help="At most the tenant's role, which is the default.")] = "",
    label: Annotated[str, typer.Option(help="What the token is for.")] = "",
    expires: Annotated[str, typer.Option(help="After how long it expires: 90, 15m, 12h, 30d.")] = "",
) -> None:
    """Create a token, and print it; it is not shown again."""
    expires_s = seconds(expires, "--expires")
    name = tenant or asked.client.me()["tenant"]
    made = asked.client.create_token(name, role=role or None, label=label, expires_s=expires_s)
    asked.answer(_shown(made), made)


@token_app.command("list")
@asking
def show_tokens(asked: Asked, tenant: Of = "") -> None:
    """List the tokens of a tenant: their ids and what is known of them."""
    name = tenant or asked.client.me()["tenant"]
    tokens = asked.client.tokens(name)
    names = ("id", "role", "label", "state", "created", "expires", "used")
    asked.answer(as_table(f"{len(tokens)} tokens of {name}", tokens, names), {"tokens": tokens})


@token_app.command("rotate")
@asking
def rotate(asked: Asked, number: Id, tenant: Of = "", grace: Grace = "1h") -> None:
    """Create a token in the place of another, and print it; it is not shown again."""
    grace_s = seconds(grace, "--grace") or 0.0
    name = tenant or asked.client.me()["tenant"]
    made = asked.client.rotate_token(name, number, grace_s=grace_s)
    asked.answer(f"{_shown(made)}\ntoken {number} ends in {grace_s:g} s", made)


@token_app.command("revoke")
@asking
def revoke(asked: Asked, number: Id, tenant: Of = "") -> None:
    """End a token at once."""
    asked.client.revoke_token(tenant or asked.client.me()["tenant"], number)
    asked.answer(f"token {number} is revoked", {"revoked": number})


@asking
def audit(
    asked: Asked,
    of: Annotated[str, typer.Option(help="Only what this tenant did.")] = "",
    last: Annotated[int, typer.Option(min=1, max=1000, help="How many entries.")] = 100,
    before: Annotated[int | None, typer.Option(help="Only entries before this number.")] = None,
) -> None:
    """Show who did what in a running service, the newest first."""
    entries = asked.client.audit(of=of or None, before=before, limit=last)
    names = ("n", "at", "tenant", "token", "action", "object", "outcome", "address", "count")
    asked.answer(as_table(f"{len(entries)} entries", entries, names), {"entries": entries})


def _shown(made: Mapping[str, Any]) -> str:
    until = f", valid until {made['expires']}" if made["expires"] else ""
    return (
        f"token {made['id']} of tenant {made['tenant']}, {made['role']}{until}; it is not shown again:\n"
        f"{made['token']}"
    )
