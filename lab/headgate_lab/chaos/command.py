"""`headgate chaos`: many histories of faults, or the story of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
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
from headgate_lab.chaos.shrink import same_problem, shrunk
from headgate_lab.chaos.story import command, story
from headgate_lab.chaos.trace import page

HISTORIES, JOBS = 2000, 2


@dataclass(frozen=True)
class ChaosOptions:
    """The options of the command line; None where none was given."""

    histories: int | None = None
    first: int | None = None
    jobs: int | None = None
    seed: int | None = None
    trace: bool = False
    to: Path | None = None
    plant: bool = False
    only: str | None = None
    limit: int | None = None

    def check(self) -> None:
        """Refuse options that have no effect, or no meaning."""
        self._only_with(self.plant, "--plant", only=self.only, limit=self.limit)
        self._only_with(self.seed is not None and not self.plant, "--seed", trace=self.trace or None)
        self._only_with(self.trace, "--trace", to=self.to)
        many = not self.plant and self.seed is None
        self._only_with(many, "many histories", histories=self.histories, first=self.first)
        self._only_with(many or self.plant, "many histories and --plant", jobs=self.jobs)
        self._only_with(
            not self.plant, "histories of the product as it is, and not with --plant", seed=self.seed
        )
        for name, least in {"histories": 1, "jobs": 1, "limit": 1, "first": 0, "seed": 0}.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"--{name} {value}: at least {least} is possible")

    def _only_with(self, holds: bool, what: str, **options: object) -> None:
        for name, value in options.items():
            if value is not None and not holds:
                raise ConfigError(f"--{name} is for {what}; leave it out")


def chaos(options: ChaosOptions, output: Output) -> bool:
    """Run the command; returns whether every history held, or, with `plant`, whether enough bugs were caught."""
    options.check()
    if options.plant:
        return _plant(options, output)
    if options.seed is not None:
        return _tell(options.seed, _page_of(options), output)
    number = options.histories or HISTORIES
    with output.progress("chaos") as tick:

        def progress(report: Report) -> None:
            tick(f"histories: {report.histories:,}, {report.failed} failed", report.histories / number)

        report = run_all(number, options.first or 0, options.jobs or JOBS, progress)
    shown: RenderableType = as_table(report)
    facts = report.as_json()
    if report.failures:
        facts["story"] = _lines(told(report.failures[0][0]))
        shown = Group(
            shown, Text("The first of them, made as small as possible:"), Text("\n".join(facts["story"]))
        )
    output.result(shown, facts)
    return not report.failed


def _page_of(options: ChaosOptions) -> Path | None:
    """Where the page of a history goes."""
    return (options.to or Path(f"history-{options.seed}.html")) if options.trace else None


def _tell(seed: int, file: Path | None, output: Output) -> bool:
    outcome = told(seed)
    lines = _lines(outcome)
    if file is not None:
        try:
            file.write_text(page(outcome), encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{file} cannot be written: {error.strerror}; name another file with --to"
            ) from error
        lines.append(f"As a page: {file}")
    output.result(Text("\n".join(lines), no_wrap=True), {**_facts(outcome), "story": lines})
    return not outcome.failed


def _lines(outcome: Outcome) -> list[str]:
    return [*story(outcome), f"Again: {command(outcome.history)}"]


def _plant(options: ChaosOptions, output: Output) -> bool:
    chosen = mutants(options.only or "")
    with output.progress("plant") as tick:

        def progress(so_far: Plantation) -> None:
            done = len(so_far.hunts)
            tick(f"bugs: {done} of {len(chosen)}, {len(so_far.missed)} missed", done / len(chosen))

        plantation = hunt_all(chosen, options.limit or LIMIT, options.jobs or JOBS, progress)
    output.result(as_list(plantation), plantation.as_json())
    return plantation.enough


def told(seed: int) -> Outcome:
    """One history with its story; a failing one is made as small as possible first."""
    chosen = history(seed)
    problems = play(chosen).problems
    if problems:
        chosen = shrunk(
            chosen, lambda smaller: any(same_problem(problems[0], p) for p in play(smaller).problems)
        )
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
