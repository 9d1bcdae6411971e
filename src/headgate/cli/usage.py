"""`headgate usage`: what tenants of a running service use, and their limits."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from headgate.cli.remote import Asked, asking
from headgate.errors import ConfigError

LimitedTenant = Annotated[str, typer.Option("--tenant", help="Whose limits to set; only an admin may.")]
NewLimits = Annotated[
    list[str] | None,
    typer.Option("--limit", help="NAME=VALUE, or NAME= to take it back. Can be given several times."),
]
SHOWN = ("queries", "templates", "sources", "rows_s", "state_bytes", "result_bytes")


@asking
def usage(asked: Asked, tenant: LimitedTenant = "", limit: NewLimits = None) -> None:
    """Show what tenants use, and their limits; with --tenant and --limit, set them."""
    if limit:
        if not tenant:
            raise ConfigError("--limit needs --tenant NAME: whose limits are to be set")
        in_force = asked.client.set_limits(tenant, **dict(map(_read, limit)))
        text = "\n".join(f"{name}: {value:g}" for name, value in in_force.items())
        asked.answer(text, {"tenant": tenant, "limits": in_force})
        return
    found = asked.client.usage()
    listed = found.get("tenants", [found])
    if tenant:
        listed = [one for one in listed if one["tenant"] == tenant]
    grid = Grid(title=f"the last {found['batches']} batches", title_justify="left")
    for head in ("tenant", "cpu s", "rows", "results", "waiting", *SHOWN):
        grid.add_column(head, overflow="fold")
    for one in listed:
        numbers = [one["cpu_s"], one["rows"], one["results"], one["waiting_rows"]]
        grid.add_row(
            one["tenant"] or "(shared)", *map(str, numbers), *(_against(one, name) for name in SHOWN)
        )
    asked.answer(grid, {"usage": listed})


def _against(one: dict[str, Any], name: str) -> str:
    return f"{one[name]} of {one['limits'][name]:g}" if "limits" in one else ""


def _read(text: str) -> tuple[str, float | None]:
    name, separator, value = text.partition("=")
    try:
        if not separator:
            raise ValueError
        return name, float(value) if value else None
    except ValueError:
        raise ConfigError(f"--limit {text!r}: write NAME=VALUE, such as state_bytes=100000000") from None
