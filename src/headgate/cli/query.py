"""`headgate query`: a running service from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table as Grid

from headgate.cli.console import Talk
from headgate.errors import ConfigError, HeadgateError
from headgate.service.http.client import Client

HERE = Path("headgate-service") / "token"
"""Where `headgate serve` leaves the token of a service in this folder."""


def client(url: str, token: str) -> Client:
    """A client with the token that is given, or that of the service in this folder."""
    if not token and HERE.exists():
        token = HERE.read_text(encoding="utf-8").strip()
    if not token:
        raise ConfigError("a token is needed: --token or HEADGATE_TOKEN, as `headgate serve` printed it")
    return Client(url, token)


def add(one: Client, sql: str, name: str, talk: Talk) -> None:
    """Register a query and say what to do next."""
    number = one.register(sql, name)
    talk.result(f"query {number} is registered; see it with: headgate query tail {number}", {"id": number})


def show(one: Client, talk: Talk) -> None:
    """List the queries."""
    found = one.queries()
    grid = Grid(title=f"{len(found)} queries", title_justify="left")
    for head in ("id", "name", "state", "sql"):
        grid.add_column(head, overflow="fold")
    for query in found:
        state = query["state"] if not query["why"] else f"{query['state']}: {query['why']}"
        grid.add_row(str(query["id"]), query["name"], state, query["sql"])
    talk.result(grid, {"queries": found})


def explain(one: Client, number: int, talk: Talk) -> None:
    """Say what a query became."""
    found = one.explain(number)
    placement = found.pop("placement")
    lines = [f"{name}: {value}" for name, value in found.items()]
    talk.result(
        "\n".join([*lines, "placement of a query like it now:", *placement]),
        {**found, "placement": placement},
    )


def tail(one: Client, number: int, rows: int | None, *, as_json: bool) -> None:
    """Print results as they come, until stopped."""
    words = Console(highlight=False, markup=False)
    if rows is not None and rows < 1:
        raise ConfigError(f"--rows {rows}: at least 1")
    state = one.query(number)["state"]
    if state != "active":
        raise HeadgateError(f"query {number} is {state}, so there is nothing to come")
    for seen, row in enumerate(one.tail(number), start=1):
        if as_json:
            typer.echo(json.dumps(row))
        else:
            when = row["window"]["start"] if "window" in row else row["time"]
            values = "  ".join(f"{name}={value}" for name, value in row["values"].items())
            words.print(f"batch {row['batch']}  {when}  ", style="dim", end="")
            words.print(values, soft_wrap=True)
            if "cut" in row:
                words.print(
                    f"{row['cut']:,} more rows of batch {row['batch']} were cut off at the limit",
                    style="yellow",
                )
        if seen == rows:
            return
