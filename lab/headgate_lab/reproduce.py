"""`headgate reproduce`: find the module of a paper and call it. The papers are in `headgate_lab.papers`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from headgate.cli.console import Tick, unknown

Each = Callable[[str, list[Any]], object]
"""Gets a figure and its claims."""


class Paper(Protocol):
    """What the package of each paper provides."""

    FIGURES: Sequence[str]

    def reproduce(
        self, figure: str | None, *, quick: bool, out: Path | None, progress: Tick, each: Each | None
    ) -> list[Any]:
        """Rerun a figure, or all of them; return the rows of the claims table."""


def papers() -> tuple[str, ...]:
    """The names of the papers that can be rerun."""
    import headgate_lab.papers

    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(headgate_lab.papers.__path__) if module.ispkg)
    )


def load(name: str) -> Paper:
    """A paper by its name."""
    known = papers()
    if name not in known:
        raise unknown("paper", name, known)
    module: Any = importlib.import_module(f"headgate_lab.papers.{name}")
    return module  # type: ignore[no-any-return]


def figures(name: str) -> tuple[str, ...]:
    """The figures of a paper."""
    return tuple(load(name).FIGURES)


def run(
    name: str,
    figure: str | None,
    *,
    quick: bool,
    out: Path | None,
    progress: Tick,
    save: Path | None = None,
) -> list[Any]:
    """Rerun a paper, or one of its figures; the rows are `papers.claims.Claim`.

    With ``save`` each figure goes into that results file as soon as it is measured.
    """
    paper = load(name)
    if figure is not None and figure not in paper.FIGURES:
        raise unknown(f"figure of {name}", figure, tuple(paper.FIGURES))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)

    def keep(done: str, claims: list[Any]) -> None:
        from headgate_lab.papers.results import save as put

        assert save is not None
        put(save, name, {done: claims}, quick=quick, order={known: figures(known) for known in papers()})

    each = None if save is None else keep
    return paper.reproduce(figure, quick=quick, out=out, progress=progress, each=each)


def run_all(
    *, quick: bool, out: Path | None, progress: Tick, save: Path | None = None
) -> dict[str, list[Any]]:
    """Rerun all papers; the rows by paper."""
    known = papers()

    def part_of(number: int) -> Tick:
        return lambda what, part: progress(f"{known[number]}: {what}", (number + part) / len(known))

    return {
        name: run(name, None, quick=quick, out=out, progress=part_of(number), save=save)
        for number, name in enumerate(known)
    }
