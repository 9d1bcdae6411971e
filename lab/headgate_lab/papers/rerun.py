"""What every reproduction does: go through the figures, measure their claims, draw
them, and report progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from headgate_lab.papers.claims import Claim

Progress = Callable[[str, float], None]
"""Called with the present step and the fraction of the whole that is done."""


class Lab(Protocol):
    """Runs a paper's experiments and caches the results."""

    def tell(self, what: str, part: float) -> None:
        """Report the present step and the fraction of the whole that is done."""


_Lab = TypeVar("_Lab", bound=Lab)
_Made = TypeVar("_Made", bound=Lab, covariant=True)


class MakeLab(Protocol[_Made]):
    """Makes the lab of a paper, small or in full."""

    def __call__(self, *, quick: bool, progress: Progress | None) -> _Made:
        """A lab that has not run anything yet."""


@dataclass(frozen=True)
class Reproduction(Generic[_Lab]):
    """A paper's claims by figure, how its figures are drawn, and the lab that both look at."""

    rows: Mapping[str, Callable[[_Lab], list[Claim]]]
    draw: Callable[[str, _Lab, Path], object]
    lab: MakeLab[_Lab]

    def __call__(
        self,
        figure: str | None = None,
        *,
        quick: bool = False,
        out: Path | None = None,
        progress: Progress | None = None,
        each: Callable[[str, list[Claim]], object] | None = None,
    ) -> list[Claim]:
        """Measure the claims of one figure, or of all of them in order, and draw into ``out`` if given.
        ``each`` gets every figure and its claims as soon as they are measured.

        Random choices are seeded, so all but measured times come out the same each time.
        """
        if figure is not None and figure not in self.rows:
            raise ValueError(f"figure is one of {', '.join(self.rows)}; got {figure!r}")
        chosen = tuple(self.rows) if figure is None else (figure,)
        lab = self.lab(quick=quick, progress=progress)
        claims: list[Claim] = []
        for number, name in enumerate(chosen):
            lab.tell(name, number / len(chosen))
            found = self.rows[name](lab)
            claims += found
            if each is not None:
                each(name, found)
            if out is not None:
                self.draw(name, lab, Path(out))
        lab.tell("done", 1.0)
        return claims
