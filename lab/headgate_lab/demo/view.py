"""The demonstration while it runs: both stages side by side in a terminal, or else one
line for each batch.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from headgate_lab.demo.result import Step, pacing
from headgate_lab.demo.run import Runner, Settings

BLOCKS = " ▏▎▍▌▋▊▉█"
SPARKS = "▁▂▃▄▅▆▇█"
COLOURS = ("dark_orange", "deep_sky_blue1")
DECISIONS = 3


class View:
    """Shows a race. It is a context manager, because it may take over the terminal."""

    def __init__(self, console: Console, settings: Settings) -> None:
        self.console, self.settings = console, settings
        self.live: Live | None = None
        self._said: dict[str, int] = {}
        self._status = console.status("") if console.is_terminal else None

    def __enter__(self) -> View:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._quiet()
        if self.live is not None:
            self.live.stop()

    def _quiet(self) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        """Show the present step, before and after the race."""
        if self.live is not None:
            self.live.stop()
            self.live = None
        if self._status is None:
            self.console.print(text, markup=False)
        else:
            self._status.update(f"{text} ...")
            self._status.start()

    def watch(self, fixed: Runner, adaptive: Runner, elapsed: float) -> None:
        """Show the present state of the race."""
        if not self.console.is_terminal:
            self._lines(fixed, adaptive)
            return
        if self.live is None:
            self._quiet()
            self.live = Live(console=self.console, refresh_per_second=8)
            self.live.start()
        self.live.update(screen(self.settings, (fixed, adaptive), elapsed, self.console.width))

    def _lines(self, *runners: Runner) -> None:
        for runner in runners:
            for step in runner.steps[self._said.get(runner.name, 0) :]:
                self.console.print(
                    f"{runner.name:>14}  batch {step.report.batch:>3}  {step.ms:>6,.0f} ms  busiest/mean {step.report.imbalance:.2f}  "
                    + decided(step),
                    markup=False,
                    soft_wrap=True,
                )
            self._said[runner.name] = len(runner.steps)


def screen(settings: Settings, runners: tuple[Runner, Runner], elapsed: float, width: int) -> RenderableType:
    """Both stages at one moment, and a note on what is modelled."""
    steps = [step for runner in runners for step in runner.steps]
    slowest = max((step.ms for step in steps), default=1.0)
    busiest = max((c.busy_ms for step in steps for c in step.report.channels), default=1.0)
    grid = Grid.grid(expand=True, padding=(0, 1))
    for _ in runners:
        grid.add_column(ratio=1)
    inner = max(20, width // 2 - 6)
    grid.add_row(
        *(
            panel(runner, colour, settings, (busiest, slowest), inner)
            for runner, colour in zip(runners, COLOURS, strict=True)
        )
    )
    note = Text(
        f"{elapsed:4.0f} s   the hot keys change every {settings.skew.shift_every} batches. ", style="dim"
    )
    note.append(pacing(settings.pace_us, settings.channels))
    return Group(grid, note)


def panel(runner: Runner, colour: str, settings: Settings, scale: tuple[float, float], width: int) -> Panel:
    """One stage: busy time per channel in the last batch, batch times so far, the last decisions."""
    if not runner.steps:
        return Panel(Text("waiting for the first batch", style="dim"), title=runner.name, border_style=colour)
    step = runner.steps[-1]
    head = Text.assemble(
        (f"batch {step.report.batch + 1}/{settings.skew.batches}", "bold"),
        f"  {step.ms:,.0f} ms  busiest ",
        (f"{step.report.imbalance:.2f}x", "bold"),
        f" the mean  table {step.report.table_version}",
    )
    top = max(c.busy_ms for c in step.report.channels)
    lines = [head, Text("busy time of each channel", style="dim")]
    for channel in step.report.channels:
        label = f"{channel.busy_ms / 1e3:5.2f} s"
        line = Text(f"{channel.channel:>2} ", style="dim")
        line.append(
            bar(channel.busy_ms / scale[0], width - 12), colour if channel.busy_ms == top else "grey58"
        )
        line.append(f" {label}")
        lines.append(line)
    lines.append(Text("time of each batch", style="dim"))
    lines.append(Text(sparks([s.ms for s in runner.steps][-width:], scale[1]), style=colour))
    lines.append(Text("decisions (after which batch)", style="dim"))
    acted = [s for s in runner.steps if s.decision.changed][-DECISIONS:]
    said = [f"after {s.report.batch + 1}: {decided(s)}" for s in acted]
    if not said:
        said = ["none: hash routing never changes" if runner.policy == "static" else "none yet"]
    for text in said + [""] * (DECISIONS - len(said)):
        lines.append(Text(text, no_wrap=True, overflow="ellipsis"))
    return Panel(Group(*lines), title=runner.name, title_align="left", border_style=colour)


def decided(step: Step) -> str:
    """A short text on the decision after a batch."""
    plan = step.decision.plan
    if plan is None:
        return ""
    if not step.decision.changed:
        return f"plan refused ({step.decision.refusal.name.value})" if step.decision.refusal else ""
    return f"{step.moves} bins moved, {step.bytes_moved / 1e3:,.0f} kB; {plan.reason}"


def bar(share: float, width: int) -> str:
    """A bar of eighths of a character.

    >>> bar(0.5, 4)
    '██  '
    """
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (BLOCKS[rest] if rest else "")).ljust(width)


def sparks(values: list[float], top: float) -> str:
    """A line of small columns.

    >>> sparks([0, 1, 2], 2)
    '▁▅█'
    """
    return "".join(SPARKS[min(7, round(7 * value / top))] if top else SPARKS[0] for value in values)
