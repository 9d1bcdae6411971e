"""One table over all papers: which claims hold, which do not and why, and where there is nothing to check.

Only claims of the papers are counted (`claims.of_the_paper`): neither rows of our own nor other readings
that stand beside a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from headgate_lab.papers.claims import Claim, as_json, as_text, of_the_paper


@dataclass(frozen=True)
class Tally:
    """The claims of one paper, by verdict."""

    paper: str
    held: tuple[Claim, ...]
    not_held: tuple[Claim, ...]
    nothing_to_check: tuple[Claim, ...]

    @classmethod
    def of(cls, paper: str, rows: Iterable[Claim]) -> Tally:
        """Sort the rows of a paper that are its claims."""
        claims = [row for row in rows if of_the_paper(row)]
        by = {ok: tuple(claim for claim in claims if claim.ok is ok) for ok in (True, False, None)}
        return cls(paper, by[True], by[False], by[None])

    @property
    def claims(self) -> int:
        """All of them."""
        return len(self.held) + len(self.not_held) + len(self.nothing_to_check)


def reason(claim: Claim) -> str:
    """Why a claim does not hold: its note, or the figures themselves."""
    return claim.note or f"{as_text(claim.measured)}, where {claim.tolerance} was asked"


def tallies(rows: Mapping[str, Sequence[Claim]]) -> list[Tally]:
    """One for each paper."""
    return [Tally.of(paper, claims) for paper, claims in rows.items()]


NUMBERS = {1: "one paper", 2: "two papers", 3: "three papers", 4: "four papers", 5: "five papers"}


def headline(counted: Sequence[Tally]) -> str:
    """Return the sentence for the README.

    >>> headline([Tally("x", held=(), not_held=(), nothing_to_check=())])
    'one paper, 0 claims, 0 hold, 0 do not, each with its reason, and 0 have nothing to check'
    """
    held, lost, open_ = (
        sum(len(getattr(t, what)) for t in counted) for what in ("held", "not_held", "nothing_to_check")
    )
    return (
        f"{NUMBERS[len(counted)]}, {sum(t.claims for t in counted)} claims, {held} hold, {lost} do not, each with its reason, "
        f"and {open_} have nothing to check"
    )


def as_table(counted: Sequence[Tally]) -> Table:
    """Return the table at the end of `headgate reproduce`."""
    table = Table(title=headline(counted), title_justify="left", show_lines=True)
    table.add_column("paper", no_wrap=True)
    table.add_column("held", overflow="fold", ratio=2)
    table.add_column("not held, and why", overflow="fold", ratio=5)
    table.add_column("nothing to check", overflow="fold", ratio=1)
    for tally in counted:
        why = Text("\n").join(
            Text.assemble((claim.id, "red"), f" {reason(claim)}") for claim in tally.not_held
        )
        held = Text(f"{len(tally.held)} of {tally.claims}: ", style="green")
        table.add_row(tally.paper, held.append(_ids(tally.held)), why, _ids(tally.nothing_to_check))
    return table


def totals(counted: Sequence[Tally]) -> dict[str, Any]:
    """Return the counts as plain data: over all papers, and by paper."""

    def counts(some: Sequence[Tally]) -> dict[str, int]:
        return {
            "claims": sum(t.claims for t in some),
            "held": sum(len(t.held) for t in some),
            "not_held": sum(len(t.not_held) for t in some),
            "nothing_to_check": sum(len(t.nothing_to_check) for t in some),
        }

    return {**counts(counted), "by_paper": {t.paper: counts([t]) for t in counted}}


def all_as_json(rows: Mapping[str, Sequence[Claim]]) -> dict[str, Any]:
    """Return what `headgate reproduce --json` prints without a paper."""
    return {
        "papers": [as_json(paper, claims) for paper, claims in rows.items()],
        "totals": totals(tallies(rows)),
    }


def _ids(claims: Sequence[Claim]) -> str:
    return " ".join(claim.id for claim in claims) or "-"
