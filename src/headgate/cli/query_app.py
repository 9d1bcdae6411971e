"""`headgate query`: the client of a running service."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli.group import AsJson, Commands

query_app = typer.Typer(cls=Commands, no_args_is_help=True, help="Standing queries of a service that runs.")
Url = Annotated[str, typer.Option(envvar="HEADGATE_URL", help="The service's address.")]
Token = Annotated[
    str,
    typer.Option(envvar="HEADGATE_TOKEN", help="Your token; that of a service in this folder if not given."),
]
Number = Annotated[int, typer.Argument(help="The query's number, as `query list` shows it.")]
HERE = "http://127.0.0.1:8620"


@query_app.command("add")
def add(
    sql: Annotated[str, typer.Argument(help="SELECT ... FROM source ...")],
    name: Annotated[str, typer.Option(help="What to call it.")] = "",
    url: Url = HERE,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Register a query."""
    from headgate.cli import query
    from headgate.cli.console import Talk

    with query.client(url, token) as one:
        query.add(one, sql, name, Talk(as_json=as_json))


@query_app.command("list")
def show(url: Url = HERE, token: Token = "", as_json: AsJson = False) -> None:
    """List your queries."""
    from headgate.cli import query
    from headgate.cli.console import Talk

    with query.client(url, token) as one:
        query.show(one, Talk(as_json=as_json))


@query_app.command("tail")
def tail(
    number: Number,
    rows: Annotated[int | None, typer.Option(help="End after so many results.")] = None,
    url: Url = HERE,
    token: Token = "",
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON for each result.")] = False,
) -> None:
    """Show a query's results as they come."""
    from headgate.cli import query

    with query.client(url, token) as one:
        query.tail(one, number, rows, as_json=as_json)


@query_app.command("explain")
def explain(number: Number, url: Url = HERE, token: Token = "", as_json: AsJson = False) -> None:
    """Say what a query became, where it lives, and with how many it shares."""
    from headgate.cli import query
    from headgate.cli.console import Talk

    with query.client(url, token) as one:
        query.explain(one, number, Talk(as_json=as_json))


@query_app.command("rm")
def rm(number: Number, url: Url = HERE, token: Token = "", as_json: AsJson = False) -> None:
    """Forget a query."""
    from headgate.cli import query
    from headgate.cli.console import Talk

    with query.client(url, token) as one:
        one.remove(number)
    Talk(as_json=as_json).result(f"query {number} is gone", {"removed": number})


@query_app.command("pause")
def pause(number: Number, url: Url = HERE, token: Token = "", as_json: AsJson = False) -> None:
    """Let a query rest: it costs nothing until it is resumed."""
    from headgate.cli import query
    from headgate.cli.console import Talk

    with query.client(url, token) as one:
        one.pause(number)
    Talk(as_json=as_json).result(f"query {number} rests", {"paused": number})


@query_app.command("resume")
def resume(number: Number, url: Url = HERE, token: Token = "", as_json: AsJson = False) -> None:
    """Let a query that rests or failed begin anew, from the next batch on."""
    from headgate.cli import query
    from headgate.cli.console import Talk

    with query.client(url, token) as one:
        one.resume(number)
    Talk(as_json=as_json).result(f"query {number} begins anew", {"resumed": number})
