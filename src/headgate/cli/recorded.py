"""The commands that look at a recorded run: `replay`, `journal`, `explain` and `watch`. They need no Spark."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from headgate.cli.console import Output
from headgate.cli.group import AsJson, Wide

Checkpoint = Annotated[str, typer.Argument(help="The stage's checkpoint: a folder or any fsspec URL.")]


def replay(
    recorded: Annotated[
        str, typer.Argument(metavar="JOURNAL", help="A stage's checkpoint, or a file of its journal.")
    ],
    policy: Annotated[str, typer.Option(help="The policy to try on it.")],
    min_gain: Annotated[float, typer.Option(help="The guard's least gain.")] = 0.05,
    cool_down: Annotated[int, typer.Option(help="Batches between changes.")] = 2,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Show what another policy would have done with a recorded run."""
    from headgate.cli import replay as replays
    from headgate.policies import Guard

    output = Output(as_json=as_json, wide=wide)
    entries, torn = replays.entries_of(recorded)
    steps = replays.replay(entries, policy, Guard(min_gain=min_gain, cool_down_batches=cool_down))
    names = sorted({entry.decision.plan.policy for entry in entries if entry.decision.plan}) or ["no plans"]
    table = replays.as_wide_table if wide else replays.as_table
    shown = table(recorded, ", ".join(names), policy, steps)
    output.result(shown, replays.as_json(recorded, policy, steps))
    if torn:
        output.say(torn, style="yellow")


def journal(
    checkpoint: Checkpoint,
    last: Annotated[int | None, typer.Option(help="Show only this many of the last batches.")] = None,
    wide: Wide = False,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON for each batch.")] = False,
) -> None:
    """Show what a stage decided, batch by batch."""
    from headgate.cli import journal as journals

    output = Output(as_json=as_json, wide=wide)
    entries, torn = journals.read(checkpoint)
    rows = [journals.row(entry) for entry in entries][-last if last else 0 :]
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
    else:
        table = journals.as_wide_table if wide else journals.as_table
        output.console.print(table(rows, checkpoint))
    if torn:
        output.say(torn, style="yellow")


def explain(
    checkpoint: Checkpoint,
    batch: Annotated[int | None, typer.Option(help="Which batch; by default, the last.")] = None,
    as_json: AsJson = False,
) -> None:
    """Explain why a plan was made, or refused."""
    from headgate.cli import journal as journals
    from headgate.control.explain import explained

    entry = journals.entry_of(checkpoint, batch)
    text = explained(entry.report, entry.decision)
    Output(as_json=as_json).result(text, {**journals.row(entry), "explanation": text.splitlines()})


def watch(
    checkpoint: Checkpoint,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free one.")] = 8621,
    as_json: AsJson = False,
) -> None:
    """Show a query on a live page, from its checkpoint: it may run elsewhere, or have ended."""
    from headgate.cli.watch import watch as show

    show(checkpoint, host, port, Output(as_json=as_json))
