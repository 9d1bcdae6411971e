"""`headgate chaos`: many histories of faults, or the story of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table as Grid
from rich.text import Text

from headgate.cli.console import Output
from headgate.errors import ConfigError
from headgate_lab.chaos.faults import KINDS
from headgate_lab.chaos.history import history
from headgate_lab.chaos.plant import LIMIT, Plantation, hunt_all, mutants
from headgate_lab.chaos.plant import as_table as as_list
from headgate_lab.chaos.play import Outcome, play
from headgate_lab.chaos.report import Report, run_all
from headgate_lab.chaos.shrink import shrunk
from headgate_lab.chaos.story import command, story
from headgate_lab.chaos.trace import page


@dataclass(frozen=True)
class ChaosOptions:
    """The options of the command line."""

    histories: int = 2000
    first: int = 0
    jobs: int = 2
    seed: int | None = None
    trace: Path | None = None
    plant: bool = False
    only: str = ""
    limit: int = LIMIT


def chaos(options: ChaosOptions, output: Output) -> bool:
    """Run the command; returns whether every history held, or, with `plant`, whether enough bugs were caught."""
    if options.plant:
        return _plant(options, output)
    if options.only:
        raise ConfigError("--only chooses among the bugs that --plant plants")
    if options.seed is not None:
        outcome = told(options.seed)
        if options.trace is not None:
            options.trace.write_text(page(outcome), encoding="utf-8")
        lines = [*story(outcome), f"Again: {command(outcome.history)}"]
        output.result(Text("\n".join(lines), no_wrap=True), {**_facts(outcome), "story": lines})
        return not outcome.failed
    if options.trace is not None:
        raise ConfigError("--trace shows one history: name it with --seed")
    if options.histories < 1 or options.jobs < 1:
        raise ConfigError(f"--histories={options.histories}, --jobs={options.jobs}: at least one of each")
    with output.progress("chaos") as tick:

        def progress(report: Report) -> None:
            part = report.histories / options.histories
            tick(f"histories: {report.histories:,}, {report.failed} failed", part)

        report = run_all(options.histories, options.first, options.jobs, progress)
    output.result(as_table(report), report.as_json())
    return not report.failed


def _plant(options: ChaosOptions, output: Output) -> bool:
    chosen = mutants(options.only)
    if options.limit < 1 or options.jobs < 1:
        raise ConfigError(f"--limit={options.limit}, --jobs={options.jobs}: at least one of each")
    with output.progress("plant") as tick:

        def progress(so_far: Plantation) -> None:
            done = len(so_far.hunts)
            tick(f"bugs: {done} of {len(chosen)}, {len(so_far.missed)} missed", done / len(chosen))

        plantation = hunt_all(chosen, options.limit, options.jobs, progress)
    output.result(as_list(plantation), plantation.as_json())
    return plantation.enough


def told(seed: int) -> Outcome:
    """One history with its story; a failing one is made as small as possible first."""
    chosen = history(seed)
    if play(chosen).failed:
        chosen = shrunk(chosen, lambda smaller: play(smaller).failed)
    return play(chosen, tell=True)


def _facts(outcome: Outcome) -> dict[str, Any]:
    return {
        "seed": outcome.history.seed,
        "failed": outcome.failed,
        "problems": outcome.problems,
        "faults": dict(outcome.struck),
    }


def as_table(report: Report) -> Grid:
    """The figures for a terminal."""
    speed = report.histories / report.seconds if report.seconds else 0.0
    grid = Grid(
        title=f"{report.histories:,} histories in {report.seconds:.0f} s ({speed:.0f} a second): {report.failed} failed",
        title_justify="left",
    )
    grid.add_column("fault")
    grid.add_column("struck", justify="right")
    grid.add_column("what it is")
    for kind, words in KINDS.items():
        grid.add_row(kind, f"{report.struck[kind]:,}", words)
    for seed, problem in report.failures:
        grid.add_row("FAILED", str(seed), f"{problem} (headgate chaos --seed {seed})", style="red")
    return grid
