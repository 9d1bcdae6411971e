"""`headgate tenant`, `headgate token` and `headgate audit`: who may use a running service, and who did what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from headgate.cli.console import Output
from headgate.cli.group import AsJson, Commands
from headgate.cli.query import DEFAULT_URL, Cacert, Token, Url, connect
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
def add(
    name: Name,
    role: Role = "writer",
    url: Url = DEFAULT_URL,
    token: Token = "",
    cacert: Cacert = None,
    as_json: AsJson = False,
) -> None:
    """Add a tenant, and print its token, which is not shown again."""
    with connect(url, token, cacert) as client:
        made = client.add_tenant(name, role=role)
    text = f"tenant {name} is added as {role}; its token, which is not shown again, is\n{made}"
    Output(as_json=as_json).result(text, {"tenant": name, "role": role, "token": made})


@tenant_app.command("list")
def show(url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False) -> None:
    """List the tenants."""
    with connect(url, token, cacert) as client:
        tenants = client.tenants()
    names = ("name", "role", "state", "queries", "sources", "created")
    Output(as_json=as_json).result(as_table(f"{len(tenants)} tenants", tenants, names), {"tenants": tenants})


@tenant_app.command("rm")
def rm(
    name: Name, url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False
) -> None:
    """Remove a tenant with its tokens and queries. Queries of others over its sources stop."""
    with connect(url, token, cacert) as client:
        client.remove_tenant(name)
    Output(as_json=as_json).result(f"tenant {name} is removed", {"removed": name})


@tenant_app.command("disable")
def disable(
    name: Name, url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False
) -> None:
    """Refuse a tenant's tokens until it is enabled, and pause its queries."""
    with connect(url, token, cacert) as client:
        client.disable_tenant(name)
    Output(as_json=as_json).result(f"tenant {name} is disabled", {"disabled": name})


@tenant_app.command("enable")
def enable(
    name: Name, url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False
) -> None:
    """Accept a tenant's tokens again. It resumes the queries that it still wants."""
    with connect(url, token, cacert) as client:
        client.enable_tenant(name)
    Output(as_json=as_json).result(f"tenant {name} is enabled", {"enabled": name})


@token_app.command("create")
def create(
    tenant: Of = "",
    role: Annotated[str, typer.Option(help="At most the tenant's role, which is the default.")] = "",
    label: Annotated[str, typer.Option(help="What the token is for.")] = "",
    expires: Annotated[str, typer.Option(help="After how long it expires: 90, 15m, 12h, 30d.")] = "",
    url: Url = DEFAULT_URL,
    token: Token = "",
    cacert: Cacert = None,
    as_json: AsJson = False,
) -> None:
    """Create a token, and print it; it is not shown again."""
    expires_s = seconds(expires, "--expires")
    with connect(url, token, cacert) as client:
        name = tenant or client.me()["tenant"]
        made = client.create_token(name, role=role or None, label=label, expires_s=expires_s)
    Output(as_json=as_json).result(_shown(made), made)


@token_app.command("list")
def show_tokens(
    tenant: Of = "", url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False
) -> None:
    """List the tokens of a tenant: their ids and what is known of them."""
    with connect(url, token, cacert) as client:
        name = tenant or client.me()["tenant"]
        tokens = client.tokens(name)
    names = ("id", "role", "label", "state", "created", "expires", "used")
    Output(as_json=as_json).result(
        as_table(f"{len(tokens)} tokens of {name}", tokens, names), {"tokens": tokens}
    )


@token_app.command("rotate")
def rotate(
    number: Id,
    tenant: Of = "",
    grace: Grace = "1h",
    url: Url = DEFAULT_URL,
    token: Token = "",
    cacert: Cacert = None,
    as_json: AsJson = False,
) -> None:
    """Create a token in the place of another, and print it; it is not shown again."""
    grace_s = seconds(grace, "--grace") or 0.0
    with connect(url, token, cacert) as client:
        name = tenant or client.me()["tenant"]
        made = client.rotate_token(name, number, grace_s=grace_s)
    Output(as_json=as_json).result(f"{_shown(made)}\ntoken {number} ends in {grace_s:g} s", made)


@token_app.command("revoke")
def revoke(
    number: Id,
    tenant: Of = "",
    url: Url = DEFAULT_URL,
    token: Token = "",
    cacert: Cacert = None,
    as_json: AsJson = False,
) -> None:
    """End a token at once."""
    with connect(url, token, cacert) as client:
        client.revoke_token(tenant or client.me()["tenant"], number)
    Output(as_json=as_json).result(f"token {number} is revoked", {"revoked": number})


def audit(
    of: Annotated[str, typer.Option(help="Only what this tenant did.")] = "",
    last: Annotated[int, typer.Option(min=1, max=1000, help="How many entries.")] = 100,
    before: Annotated[int | None, typer.Option(help="Only entries before this number.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = "",
    cacert: Cacert = None,
    as_json: AsJson = False,
) -> None:
    """Show who did what in a running service, the newest first."""
    with connect(url, token, cacert) as client:
        entries = client.audit(of=of or None, before=before, limit=last)
    names = ("n", "at", "tenant", "token", "action", "object", "outcome", "address", "count")
    Output(as_json=as_json).result(as_table(f"{len(entries)} entries", entries, names), {"entries": entries})


def _shown(made: Mapping[str, Any]) -> str:
    until = f", valid until {made['expires']}" if made["expires"] else ""
    return (
        f"token {made['id']} of tenant {made['tenant']}, {made['role']}{until}; it is not shown again:\n"
        f"{made['token']}"
    )
