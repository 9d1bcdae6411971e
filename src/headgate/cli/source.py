"""`headgate source`: the sources of a running service, and who may read them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table as Grid

from headgate.cli.console import Output
from headgate.cli.group import AsJson, Commands
from headgate.cli.query import DEFAULT_URL, Cacert, Token, Url, connect

source_app = typer.Typer(cls=Commands, no_args_is_help=True, help="Sources of a running service.")
Name = Annotated[str, typer.Argument(help="The source's name, as `source list` shows it.")]
Reader = Annotated[str, typer.Argument(help="A tenant's name, or * for everyone.")]


@source_app.command("list")
def show(url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False) -> None:
    """List the sources that your queries can read."""
    with connect(url, token, cacert) as client:
        sources = client.sources()
    grid = Grid(title=f"{len(sources)} sources", title_justify="left")
    for head in ("name", "owner", "columns"):
        grid.add_column(head, overflow="fold")
    for source in sources:
        columns = ", ".join(f"{name} {kind}" for name, kind in source["columns"].items())
        grid.add_row(source["name"], source["owner"], columns)
    Output(as_json=as_json).result(grid, {"sources": sources})


@source_app.command("grants")
def grants(
    name: Name, url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False
) -> None:
    """List the tenants that may read your source."""
    with connect(url, token, cacert) as client:
        found = client.grants(name)
    text = "\n".join(found) or f"source {name} is read by its owner only"
    Output(as_json=as_json).result(text, {"source": name, "grants": found})


@source_app.command("grant")
def grant(
    name: Name,
    to: Reader,
    url: Url = DEFAULT_URL,
    token: Token = "",
    cacert: Cacert = None,
    as_json: AsJson = False,
) -> None:
    """Let another tenant, or everyone, read your source."""
    with connect(url, token, cacert) as client:
        client.grant(name, to)
    Output(as_json=as_json).result(f"{to} may read source {name}", {"source": name, "granted": to})


@source_app.command("revoke")
def revoke(
    name: Name,
    of: Reader,
    url: Url = DEFAULT_URL,
    token: Token = "",
    cacert: Cacert = None,
    as_json: AsJson = False,
) -> None:
    """Take a grant back. Queries that may no longer read the source stop."""
    with connect(url, token, cacert) as client:
        client.revoke(name, of)
    Output(as_json=as_json).result(
        f"the grant of source {name} to {of} is gone", {"source": name, "revoked": of}
    )
