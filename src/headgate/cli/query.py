"""`headgate query`: the client of a running service."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from headgate.cli.console import Output
from headgate.cli.group import AsJson, Commands
from headgate.errors import ConfigError, HeadgateError

if TYPE_CHECKING:
    from headgate.service.http.client import Client

DEFAULT_URL = "http://127.0.0.1:8620"
TOKEN_FILE = Path("headgate-service") / "token"
"""Where `headgate serve` leaves the token of a service that it started in this folder."""

query_app = typer.Typer(cls=Commands, no_args_is_help=True, help="Standing queries of a running service.")
Url = Annotated[str, typer.Option(envvar="HEADGATE_URL", help="The service's address, or several: a,b.")]
Token = Annotated[
    str,
    typer.Option(envvar="HEADGATE_TOKEN", help="Your token; by default that of the service in this folder."),
]
Cacert = Annotated[
    Path | None,
    typer.Option(
        envvar="HEADGATE_CACERT",
        help="Certificates to trust, if the service's is signed by none that is known.",
    ),
]
Number = Annotated[int, typer.Argument(help="The query's number, as `query list` shows it.")]


def connect(url: str, token: str, cacert: Path | None = None) -> Client:
    """A client with the given token, or with that of the service in this folder."""
    from headgate.service.http.client import Client

    if not token and TOKEN_FILE.exists():
        token = TOKEN_FILE.read_text(encoding="utf-8").strip()
    if not token:
        raise ConfigError("a token is needed: --token or HEADGATE_TOKEN, as `headgate serve` printed it")
    return Client(url, token, cacert=str(cacert or ""))


def as_table(queries: Sequence[Mapping[str, Any]]) -> Grid:
    """The queries for a terminal."""
    grid = Grid(title=f"{len(queries)} queries", title_justify="left")
    for head in ("id", "name", "state", "sql"):
        grid.add_column(head, overflow="fold")
    for query in queries:
        state = query["state"] if not query["why"] else f"{query['state']}: {query['why']}"
        grid.add_row(str(query["id"]), query["name"], state, query["sql"])
    return grid


@query_app.command("add")
def add(
    sql: Annotated[str, typer.Argument(help="SELECT ... FROM source ...")],
    name: Annotated[str, typer.Option(help="A name for the query.")] = "",
    url: Url = DEFAULT_URL,
    token: Token = "",
    cacert: Cacert = None,
    as_json: AsJson = False,
) -> None:
    """Register a query."""
    with connect(url, token, cacert) as client:
        number = client.register(sql, name)
    text = f"query {number} is registered; see it with: headgate query tail {number}"
    Output(as_json=as_json).result(text, {"id": number})


@query_app.command("list")
def show(url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False) -> None:
    """List your queries."""
    with connect(url, token, cacert) as client:
        queries = client.queries()
    Output(as_json=as_json).result(as_table(queries), {"queries": queries})


@query_app.command("tail")
def tail(
    number: Number,
    rows: Annotated[int | None, typer.Option(help="Stop after so many results.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = "",
    cacert: Cacert = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON for each result.")] = False,
) -> None:
    """Print a query's results as they come, until stopped."""
    console = Console(highlight=False, markup=False)
    with connect(url, token, cacert) as client:
        if rows is not None and rows < 1:
            raise ConfigError(f"--rows {rows}: at least 1")
        state = client.query(number)["state"]
        if state != "active":
            raise HeadgateError(f"query {number} is {state}, so no results will come")
        for count, row in enumerate(client.tail(number), start=1):
            if as_json:
                typer.echo(json.dumps(row))
            else:
                when = row["window"]["start"] if "window" in row else row["time"]
                values = "  ".join(f"{name}={value}" for name, value in row["values"].items())
                console.print(f"batch {row['batch']}  {when}  ", style="dim", end="")
                console.print(values, soft_wrap=True)
                if "cut" in row:
                    omitted = f"{row['cut']:,} more rows of batch {row['batch']} were omitted: over the limit"
                    console.print(omitted, style="yellow")
            if count == rows:
                return


@query_app.command("explain")
def explain(
    number: Number, url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False
) -> None:
    """Show what a query became, which server runs it, and how many queries share its work."""
    with connect(url, token, cacert) as client:
        explained = client.explain(number)
    lines = [f"{name}: {value}" for name, value in explained.items() if name != "placement"]
    if "placement" in explained:
        lines += ["placement of a query like it now:", *explained["placement"]]
    Output(as_json=as_json).result("\n".join(lines), explained)


@query_app.command("rm")
def rm(
    number: Number, url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False
) -> None:
    """Remove a query."""
    with connect(url, token, cacert) as client:
        client.remove(number)
    Output(as_json=as_json).result(f"query {number} is removed", {"removed": number})


@query_app.command("pause")
def pause(
    number: Number, url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False
) -> None:
    """Pause a query: it costs nothing until it is resumed."""
    with connect(url, token, cacert) as client:
        client.pause(number)
    Output(as_json=as_json).result(f"query {number} is paused", {"paused": number})


@query_app.command("resume")
def resume(
    number: Number, url: Url = DEFAULT_URL, token: Token = "", cacert: Cacert = None, as_json: AsJson = False
) -> None:
    """Resume a query that is paused or has failed, from the next batch on."""
    with connect(url, token, cacert) as client:
        client.resume(number)
    Output(as_json=as_json).result(f"query {number} runs again", {"resumed": number})


@query_app.command("publish")
def publish(
    number: Number,
    name: Annotated[str, typer.Argument(help="The name of the new source.")],
    delay: Annotated[float | None, typer.Option(help="How late its rows may arrive, in seconds.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Make the results of a query a source, which other queries can read."""
    with connect(url, token) as client:
        source = client.publish(number, name, delay_s=delay)
    columns = ", ".join(f"{column} {kind}" for column, kind in source["columns"].items())
    Output(as_json=as_json).result(f"source {name} has the results of query {number}: {columns}", source)
