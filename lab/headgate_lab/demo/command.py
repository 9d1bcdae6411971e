"""`headgate demo`: run both stages, show them live, draw the picture and print the result."""

from __future__ import annotations

from dataclasses import replace

from headgate.cli.console import Output
from headgate_lab.demo.picture import draw
from headgate_lab.demo.result import DemoResult, pacing
from headgate_lab.demo.run import Settings, run
from headgate_lab.demo.view import View


def demo(settings: Settings, output: Output) -> DemoResult:
    """Run the demonstration and print its result."""
    skew = settings.skew
    output.say(
        f"{skew.batches} batches of {skew.rows_per_batch:,} rows; {skew.hot_share:.0%} of them belong to {skew.hot_keys} hot keys, "
        f"which change every {skew.shift_every} batches. The same stream runs through hash routing and through {settings.policy}."
    )
    output.say(pacing(settings.pace_us, settings.channels), style="dim")
    with View(output.console, settings) as view:
        outcome = run(settings, say=view.say, watch=view.watch)
        view.say("drawing")
        picture = draw(outcome, settings.out / "demo.png")
    outcome = replace(outcome, picture=str(picture))
    output.result(outcome.as_table(), outcome.as_json())
    if outcome.equal:
        output.say(f"Both gave the same {outcome.fixed.rows:,} rows, bit for bit.")
    else:
        output.say(
            f"The answers differ, first in batch {outcome.differing}: this is a bug.", style="bold red"
        )
    output.say(f"Picture: {picture}   (all of it in {outcome.seconds:.0f} s)")
    return outcome
