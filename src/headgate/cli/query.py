"""`headgate query`: the client of a running service."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from headgate.cli.group import Commands
from headgate.cli.remote import Asked, asking
from headgate.errors import ConfigError, HeadgateError

query_app = typer.Typer(cls=Commands, no_args_is_help=True, help="Standing queries of a running service.")
Number = Annotated[int, typer.Argument(help="The query's number, as `query list` shows it.")]


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
@asking
def add(
    asked: Asked,
    sql: Annotated[str, typer.Argument(help="SELECT ... FROM source ...")],
    name: Annotated[str, typer.Option(help="A name for the query.")] = "",
) -> None:
    """Register a query."""
    number = asked.client.register(sql, name)
    text = f"query {number} is registered; see it with: headgate query tail {number}"
    asked.answer(text, {"id": number})


@query_app.command("list")
@asking
def show(asked: Asked) -> None:
    """List your queries."""
    queries = asked.client.queries()
    asked.answer(as_table(queries), {"queries": queries})


@query_app.command("tail")
@asking
def tail(
    asked: Asked,
    number: Number,
    rows: Annotated[int | None, typer.Option(help="Stop after so many results.")] = None,
) -> None:
    """Print a query's results as they come, until stopped."""
    console = Console(highlight=False, markup=False)
    if rows is not None and rows < 1:
        raise ConfigError(f"--rows {rows}: at least 1")
    state = asked.client.query(number)["state"]
    if state != "active":
        raise HeadgateError(f"query {number} is {state}, so no results will come")
    for count, row in enumerate(asked.client.tail(number), start=1):
        if asked.as_json:
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
@asking
def explain(asked: Asked, number: Number) -> None:
    """Show what a query became, which server runs it, and how many queries share its work."""
    explained = asked.client.explain(number)
    lines = [f"{name}: {value}" for name, value in explained.items() if name != "placement"]
    if "placement" in explained:
        lines += ["placement of a query like it now:", *explained["placement"]]
    asked.answer("\n".join(lines), explained)


@query_app.command("rm")
@asking
def rm(asked: Asked, number: Number) -> None:
    """Remove a query."""
    asked.client.remove(number)
    asked.answer(f"query {number} is removed", {"removed": number})


@query_app.command("pause")
@asking
def pause(asked: Asked, number: Number) -> None:
    """Pause a query: it costs nothing until it is resumed."""
    asked.client.pause(number)
    asked.answer(f"query {number} is paused", {"paused": number})


@query_app.command("resume")
@asking
def resume(asked: Asked, number: Number) -> None:
    """Resume a query that is paused or has failed, from the next batch on."""
    asked.client.resume(number)
    asked.answer(f"query {number} runs again", {"resumed": number})


@query_app.command("publish")
@asking
def publish(
    asked: Asked,
    number: Number,
    name: Annotated[str, typer.Argument(help="The name of the new source.")],
    delay: Annotated[float | None, typer.Option(help="How late its rows may arrive, in seconds.")] = None,
) -> None:
    """Make the results of a query a source, which other queries can read."""
    source = asked.client.publish(number, name, delay_s=delay)
    columns = ", ".join(f"{column} {kind}" for column, kind in source["columns"].items())
    asked.answer(f"source {name} has the results of query {number}: {columns}", source)
