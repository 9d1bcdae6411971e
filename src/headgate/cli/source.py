"""`headgate source`: the sources of a running service, and who may read them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table as Grid

from headgate.cli.group import Commands
from headgate.cli.remote import Asked, asking

source_app = typer.Typer(cls=Commands, no_args_is_help=True, help="Sources of a running service.")
Name = Annotated[str, typer.Argument(help="The source's name, as `source list` shows it.")]
Reader = Annotated[str, typer.Argument(help="A tenant's name, or * for everyone.")]


@source_app.command("list")
@asking
def show(asked: Asked) -> None:
    """List the sources that your queries can read."""
    sources = asked.client.sources()
    grid = Grid(title=f"{len(sources)} sources", title_justify="left")
    for head in ("name", "owner", "columns"):
        grid.add_column(head, overflow="fold")
    for source in sources:
        columns = ", ".join(f"{name} {kind}" for name, kind in source["columns"].items())
        grid.add_row(source["name"], source["owner"], columns)
    asked.answer(grid, {"sources": sources})


@source_app.command("grants")
@asking
def grants(asked: Asked, name: Name) -> None:
    """List the tenants that may read your source."""
    found = asked.client.grants(name)
    text = "\n".join(found) or f"source {name} is read by its owner only"
    asked.answer(text, {"source": name, "grants": found})


@source_app.command("grant")
@asking
def grant(asked: Asked, name: Name, to: Reader) -> None:
    """Let another tenant, or everyone, read your source."""
    asked.client.grant(name, to)
    asked.answer(f"{to} may read source {name}", {"source": name, "granted": to})


@source_app.command("revoke")
@asking
def revoke(asked: Asked, name: Name, of: Reader) -> None:
    """Take a grant back. Queries that may no longer read the source stop."""
    asked.client.revoke(name, of)
    asked.answer(f"the grant of source {name} to {of} is gone", {"source": name, "revoked": of})
