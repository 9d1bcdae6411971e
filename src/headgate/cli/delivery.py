"""`headgate delivery`: where a running service sends the results of your queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from headgate.cli.group import Commands
from headgate.cli.remote import Asked, asking
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
@asking
def targets(asked: Asked) -> None:
    """List the targets that you may name."""
    found = asked.client.targets()
    text = "\n".join(f"{one['name']} ({one['kind']})" for one in found) or "there are no targets for you"
    asked.answer(text, {"targets": found})


@delivery_app.command("add")
@asking
def add(
    asked: Asked,
    target: Annotated[str, typer.Argument(help="A target of `delivery targets`, or webhook.")],
    queries: Annotated[list[int], typer.Argument(help="The queries' numbers.")],
    option: Annotated[
        list[str] | None, typer.Option(help="url=https://..., table=NAME or key=COLUMN.")
    ] = None,
    start: Annotated[
        str, typer.Option(help="Begin with the results that are kept, or with new ones.")
    ] = "kept",
) -> None:
    """Have the results of queries sent to a target. The secret of a webhook is shown only now."""
    options = {}
    for one in option or []:
        name, equals, value = one.partition("=")
        if not equals:
            raise ConfigError(f"--option {one}: write NAME=VALUE")
        options[name] = value
    answer = asked.client.deliver(queries, target, options, start=start)
    numbers = ", ".join(str(one["id"]) for one in answer["deliveries"])
    text = f"ordered: delivery {numbers}"
    if "secret" in answer:
        text += f"\nthe secret that signs it, shown only now: {answer['secret']}"
    asked.answer(text, answer)


@delivery_app.command("list")
@asking
def show_all(asked: Asked) -> None:
    """List your deliveries."""
    found = asked.client.deliveries()
    asked.answer(as_table(found), {"deliveries": found})


@delivery_app.command("show")
@asking
def show(asked: Asked, number: Number) -> None:
    """Show how far a delivery has come, and why it is stopped if it is."""
    found = asked.client.delivery(number)
    asked.answer("\n".join(f"{name}: {value}" for name, value in found.items()), found)


@delivery_app.command("pause")
@asking
def pause(asked: Asked, number: Number) -> None:
    """Send nothing more until the delivery is resumed."""
    asked.client.pause_delivery(number)
    asked.answer(f"delivery {number} is paused", {"paused": number})


@delivery_app.command("resume")
@asking
def resume(
    asked: Asked,
    number: Number,
    skip: Annotated[bool, typer.Option("--skip", help="Do not send what can no longer be read.")] = False,
) -> None:
    """Go on from where the delivery stood."""
    asked.client.resume_delivery(number, skip=skip)
    asked.answer(f"delivery {number} goes on", {"resumed": number})


@delivery_app.command("rotate")
@asking
def rotate(asked: Asked, number: Number, grace: Grace = "1h") -> None:
    """Sign a webhook with a new secret, and print it; it is not shown again. Until the grace period ends, the old one
    signs it, too.
    """
    grace_s = seconds(grace, "--grace") or 0.0
    made = asked.client.rotate_secret(number, grace_s=grace_s)
    text = f"the secret that signs delivery {number}, shown only now: {made['secret']}"
    asked.answer(f"{text}\nthe old one ends in {grace_s:g} s", made)


@delivery_app.command("rm")
@asking
def rm(asked: Asked, number: Number) -> None:
    """Remove a delivery. What was sent stays where it is."""
    asked.client.remove_delivery(number)
    asked.answer(f"delivery {number} is removed", {"removed": number})
