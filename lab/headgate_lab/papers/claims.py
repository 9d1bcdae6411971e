"""The table at the end of every reproduction: one row for each claim, the
paper beside the measurement.

`ok` is True or False where there is something to check, and None where the paper gives
nothing to check. A claim that cannot be reproduced stays in the table with `ok=False` and the
reason in its note.

A row counts as a claim of the paper if its id is one of the digest's, such as `PX-32`. Rows beside it
with another reading have a word more (`PX-32 counted`), and rows of our own have another name
(`HG-2`, `FLUX-F1`); neither is counted, nor are those that compare us with the digest's own runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

Value = float | str | Mapping[str, float]

RUN_BY_THE_DIGEST = frozenset({"CX-9", "CX-10", "CX-11", "CX-12"})
"""Rows whose expected values are the digest's own computation, not the paper's."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, what we measured, and whether the two agree within the tolerance.

    >>> Claim("PX-4", "alpha from utilization 0.9", 1.11, 1.1111, "0.01", ok=True).verdict
    'yes'
    """

    id: str
    setup: str
    paper: Value
    measured: Value
    tolerance: str
    ok: bool | None
    note: str = ""

    def __post_init__(self) -> None:
        """Make a verdict of numpy a plain one."""
        object.__setattr__(self, "ok", None if self.ok is None else bool(self.ok))

    @property
    def verdict(self) -> str:
        """`ok` as a word: yes, no, or a dash."""
        return "-" if self.ok is None else ("yes" if self.ok else "no")

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain data."""
        row = asdict(self)
        for name in ("paper", "measured"):
            value = row[name]
            row[name] = {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else _plain(value)
        return row


def of_the_paper(claim: Claim) -> bool:
    """Tell whether a row is a claim of its paper, and not another reading of one or a row of our own.

    >>> from dataclasses import replace
    >>> row = Claim("PX-32", "", "", "", "", ok=True)
    >>> [of_the_paper(replace(row, id=id)) for id in ("PX-32", "PX-32 counted", "FX-1d", "HG-2", "CX-9")]
    [True, False, False, False, False]
    """
    return (
        re.fullmatch(r"(FX|FC|MX|CX|PX)-[0-9]+", claim.id) is not None and claim.id not in RUN_BY_THE_DIGEST
    )


def as_json(paper: str, claims: Iterable[Claim]) -> dict[str, Any]:
    """Return `{"paper", "claims"}` as `headgate reproduce --json` prints it."""
    return {"paper": paper, "claims": [claim.as_json() for claim in claims]}


def as_table(paper: str, claims: Iterable[Claim]) -> Table:
    """Return the rows as a table for a terminal; text wraps between words, at any usual width."""
    table = Table(title=f"{paper}: claims and measurements", title_justify="left", show_lines=True)
    table.add_column("id", no_wrap=True)
    table.add_column("ok", no_wrap=True)
    table.add_column("claim", overflow="fold")
    colours = {"yes": "green", "no": "red", "-": "dim"}
    for claim in claims:
        lines = [
            claim.setup,
            f"paper: {as_text(claim.paper)}",
            f"measured: {as_text(claim.measured)}"
            + (f" (tolerance: {claim.tolerance})" if claim.tolerance else ""),
        ]
        text = Text("\n".join(lines))
        if claim.note:
            text.append(f"\n{claim.note}", style="dim")
        table.add_row(claim.id, Text(claim.verdict, style=colours[claim.verdict]), text)
    return table


def as_text(value: Value) -> str:
    """Return a value as a person would write it.

    >>> as_text({"scan": 1.3333, "redist": 1.25})
    'scan 1.333, redist 1.25'
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {as_text(v)}" for name, v in value.items())
    return f"{value:.4g}"


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
