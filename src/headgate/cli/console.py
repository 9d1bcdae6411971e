"""Where the output of a command goes.

Results go to stdout and progress to stderr. With `--json` stdout holds the JSON alone, and everything
else goes to stderr.
"""

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
from headgate.stage.shown import numbers_grid as numbers_grid

WIDE = 240
"""Columns of a table that is asked for with `--wide`."""
Tick = Callable[[str, float], None]
"""Called with the present step and the fraction of the whole that is done (0 to 1)."""


class Output:
    """What a command prints: `say` and `progress` while it works, `result` at its end.

    Law: with `as_json`, stdout gets exactly what `result` prints, in one write.
    """

    def __init__(self, *, as_json: bool, wide: bool = False) -> None:
        """With `wide`, lines may be longer than the terminal is."""
        self.as_json = as_json
        # No markup, also in the cells and titles of tables: SQL, paths and "headgate[spark]"
        # contain brackets.
        self.console = Console(stderr=as_json, highlight=False, markup=False)
        self.progress_console = Console(stderr=True, highlight=False, markup=False)
        if wide:
            self.console.width = max(WIDE, self.console.width)

    def say(self, text: str, *, style: str = "") -> None:
        """Print one line for people."""
        self.console.print(text, style=style or None, soft_wrap=True)

    def result(self, shown: RenderableType, data: Any) -> None:
        """Print the answer: a table for people, or the same as JSON."""
        if self.as_json:
            sys.stdout.write(json.dumps(data, indent=1, allow_nan=False) + "\n")
            sys.stdout.flush()
        else:
            self.console.print(shown, soft_wrap=isinstance(shown, Text) and bool(shown.no_wrap))

    @contextmanager
    def progress(self, title: str) -> Iterator[Tick]:
        """Show a bar with the present step beside it, or without a terminal one line
        for each new step and each tenth of the work.

        The name of a step ends at the first ": "; the text after it may change often.
        """
        if not self.progress_console.is_terminal:
            yield self._lines(title)
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.fields[title]}", markup=False),
            BarColumn(bar_width=28),
            TimeElapsedColumn(),
            TextColumn("{task.description}", style="dim", markup=False),
        )
        with Progress(*columns, console=self.progress_console, transient=True) as bar:
            task = bar.add_task("", total=1.0, title=title)
            yield lambda step, part: bar.update(task, description=step, completed=part)

    def _lines(self, title: str) -> Tick:
        last: tuple[str, int] | None = None

        def tick(text: str, part: float) -> None:
            nonlocal last
            now = text.split(": ")[0], int(10 * part)
            if now != last:
                last = now
                self.progress_console.print(f"{title}: {100 * part:3.0f}% {text}", soft_wrap=True)

        return tick


def unknown(kind: str, name: str, known: tuple[str, ...] | list[str]) -> ConfigError:
    """The error for a name that is not among the known ones."""
    close = get_close_matches(name.lower(), known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return ConfigError(f"unknown {kind} {name!r}: known are {', '.join(known) or 'none yet'}{hint}")
