"""What every reproduction does: go through the figures, measure their claims, draw them, tell how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from headgate.papers.claims import Claim


class Lab(Protocol):
    """Runs a paper's experiments and remembers them."""

    def tell(self, what: str, part: float) -> None:
        """Pass on what is being done, and which part of the whole is behind us."""


_Lab = TypeVar("_Lab", bound=Lab)


def rerun(
    rows: Mapping[str, Callable[[_Lab], list[Claim]]],
    draw: Callable[[str, _Lab, Path], object],
    lab: _Lab,
    *,
    figure: str | None,
    out: Path | None,
) -> list[Claim]:
    """The claims of one figure, or of all, in the order of `rows`; pictures go to ``out`` if given."""
    if figure is not None and figure not in rows:
        raise ValueError(f"figure is one of {', '.join(rows)}; got {figure!r}")
    chosen = tuple(rows) if figure is None else (figure,)
    claims: list[Claim] = []
    for number, name in enumerate(chosen):
        lab.tell(name, number / len(chosen))
        claims += rows[name](lab)
        if out is not None:
            draw(name, lab, Path(out))
    lab.tell("done", 1.0)
    return claims
