"""Where a command's words go: results to stdout; with `--json` stdout holds the JSON alone and all else goes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from headgate.errors import ConfigError

Tick = Callable[[str, float], None]
"""What is being done, and how much of the whole is (0 to 1)."""


class Talk:
    """A command's two voices: `words` for people while it works, `result` at its end.

    Law: with `as_json`, stdout gets exactly what `result` prints, in one go.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        # No markup anywhere, table cells and titles included: SQL, paths and "headgate[spark]" hold brackets.
        self.words = Console(stderr=as_json, highlight=False, markup=False)

    def say(self, text: str, *, style: str = "") -> None:
        """One line for people."""
        self.words.print(text, style=style or None, soft_wrap=True)

    def result(self, shown: RenderableType, data: Any) -> None:
        """The answer: a table for people, or the same as JSON."""
        if self.as_json:
            sys.stdout.write(json.dumps(data, indent=1, allow_nan=False) + "\n")
            sys.stdout.flush()
        else:
            self.words.print(shown, soft_wrap=isinstance(shown, Text) and bool(shown.no_wrap))

    @contextmanager
    def progress(self, title: str) -> Iterator[Tick]:
        """A bar with the present step beside it; where there is no terminal, one line for each new step.

        A step's name ends at the first ": "; what follows it may change often.
        """
        if not self.words.is_terminal:
            yield self._lines(title)
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.fields[title]}", markup=False),
            BarColumn(bar_width=28),
            TimeElapsedColumn(),
            TextColumn("{task.description}", style="dim", markup=False),
        )
        with Progress(*columns, console=self.words, transient=True) as bar:
            task = bar.add_task("", total=1.0, title=title)
            yield lambda what, part: bar.update(task, description=what, completed=part)

    def _lines(self, title: str) -> Tick:
        said: list[str] = []

        def tick(what: str, part: float) -> None:
            step = what.split(": ")[0]
            if said[-1:] != [step]:
                said.append(step)
                self.say(f"{title}: {100 * part:3.0f}% {what}")

        return tick


def unknown(kind: str, name: str, known: tuple[str, ...] | list[str]) -> ConfigError:
    """The error for a name that is none of these."""
    close = get_close_matches(name.lower(), known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return ConfigError(f"unknown {kind} {name!r}: there is {', '.join(known) or 'none yet'}{hint}")
