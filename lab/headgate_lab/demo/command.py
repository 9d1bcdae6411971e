"""`headgate demo`, put together: run, watch, draw, tell."""

from __future__ import annotations

from dataclasses import replace

from headgate.cli.console import Talk
from headgate_lab.demo.outcome import Outcome, pacing
from headgate_lab.demo.picture import draw
from headgate_lab.demo.run import Settings, run
from headgate_lab.demo.view import View


def demo(settings: Settings, talk: Talk) -> Outcome:
    """Run the demonstration and tell what came of it."""
    skew = settings.skew
    talk.say(
        f"{skew.batches} batches of {skew.rows_per_batch:,} rows; {skew.hot_share:.0%} of them belong to {skew.hot_keys} hot keys, "
        f"which change every {skew.shift_every} batches. The same stream runs through hash routing and through {settings.policy}."
    )
    talk.say(pacing(settings.pace_us, settings.channels), style="dim")
    with View(talk.words, settings) as view:
        outcome = run(settings, say=view.say, watch=view.watch)
        view.say("drawing")
        picture = draw(outcome, settings.out / "demo.png")
    outcome = replace(outcome, picture=str(picture))
    talk.result(outcome.as_table(), outcome.as_json())
    if outcome.equal:
        talk.say(f"Both gave the same {outcome.fixed.rows:,} rows, bit for bit.")
    else:
        talk.say(f"The answers differ, first in batch {outcome.differing}: this is a bug.", style="bold red")
    talk.say(f"Picture: {picture}   (all of it in {outcome.seconds:.0f} s)")
    return outcome
