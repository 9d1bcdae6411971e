"""`headgate delivery`: where a running service sends the results of your queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from headgate.cli.console import Output
from headgate.cli.group import AsJson, Commands
from headgate.cli.query import DEFAULT_URL, Token, Url, connect
from headgate.cli.tenant import Grace, seconds
from headgate.errors import ConfigError

delivery_app = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Results of a running service, sent to where you want them."
)
Number = Annotated[int, typer.Argument(help="The delivery's number, as `delivery list` shows it.")]


def as_table(deliveries: Sequence[Mapping[str, Any]]) -> Grid:
    """The deliveries for a terminal."""
    grid = Grid(title=f"{len(deliveries)} deliveries", title_justify="left")
    for head in ("id", "query", "target", "state", "cursor", "options"):
        grid.add_column(head, overflow="fold")
    for one in deliveries:
        state = one["state"] if not one["why"] else f"{one['state']}: {one['why']}"
        options = " ".join(f"{name}={value}" for name, value in one["options"].items())
        grid.add_row(str(one["id"]), str(one["query"]), one["target"], state, one["cursor"], options)
    return grid


@delivery_app.command("targets")
def targets(url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List the targets that you may name."""
    with connect(url, token) as client:
        found = client.targets()
    text = "\n".join(f"{one['name']} ({one['kind']})" for one in found) or "there are no targets for you"
    Output(as_json=as_json).result(text, {"targets": found})


@delivery_app.command("add")
def add(
    target: Annotated[str, typer.Argument(help="A target of `delivery targets`, or webhook.")],
    queries: Annotated[list[int], typer.Argument(help="The queries' numbers.")],
    option: Annotated[
        list[str] | None, typer.Option(help="url=https://..., table=NAME or key=COLUMN.")
    ] = None,
    start: Annotated[
        str, typer.Option(help="Begin with the results that are kept, or with new ones.")
    ] = "kept",
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Have the results of queries sent to a target. The secret of a webhook is shown only now."""
    options = {}
    for one in option or []:
        name, equals, value = one.partition("=")
        if not equals:
            raise ConfigError(f"--option {one}: write NAME=VALUE")
        options[name] = value
    with connect(url, token) as client:
        answer = client.deliver(queries, target, options, start=start)
    numbers = ", ".join(str(one["id"]) for one in answer["deliveries"])
    text = f"ordered: delivery {numbers}"
    if "secret" in answer:
        text += f"\nthe secret that signs it, shown only now: {answer['secret']}"
    Output(as_json=as_json).result(text, answer)


@delivery_app.command("list")
def show_all(url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List your deliveries."""
    with connect(url, token) as client:
        found = client.deliveries()
    Output(as_json=as_json).result(as_table(found), {"deliveries": found})


@delivery_app.command("show")
def show(number: Number, url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """Show how far a delivery has come, and why it is stopped if it is."""
    with connect(url, token) as client:
        found = client.delivery(number)
    Output(as_json=as_json).result("\n".join(f"{name}: {value}" for name, value in found.items()), found)


@delivery_app.command("pause")
def pause(number: Number, url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """Send nothing more until the delivery is resumed."""
    with connect(url, token) as client:
        client.pause_delivery(number)
    Output(as_json=as_json).result(f"delivery {number} is paused", {"paused": number})


@delivery_app.command("resume")
def resume(
    number: Number,
    skip: Annotated[bool, typer.Option("--skip", help="Do not send what can no longer be read.")] = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Go on from where the delivery stood."""
    with connect(url, token) as client:
        client.resume_delivery(number, skip=skip)
    Output(as_json=as_json).result(f"delivery {number} goes on", {"resumed": number})


@delivery_app.command("rotate")
def rotate(
    number: Number,
    grace: Grace = "1h",
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Sign a webhook with a new secret, and print it; it is not shown again. Until the grace period ends, the old one
    signs it, too.
    """
    grace_s = seconds(grace, "--grace") or 0.0
    with connect(url, token) as client:
        made = client.rotate_secret(number, grace_s=grace_s)
    text = f"the secret that signs delivery {number}, shown only now: {made['secret']}"
    Output(as_json=as_json).result(f"{text}\nthe old one ends in {grace_s:g} s", made)


@delivery_app.command("rm")
def rm(number: Number, url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """Remove a delivery. What was sent stays where it is."""
    with connect(url, token) as client:
        client.remove_delivery(number)
    Output(as_json=as_json).result(f"delivery {number} is removed", {"removed": number})
