"""The table that every reproduction ends in: one row a claim, the paper beside what was measured.

``ok`` is True or False where there is something to check, None where the text gives nothing. A claim that
can't be reproduced stays in the table with ``ok=False`` and the reason in its note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

Value = float | str | Mapping[str, float]


@dataclass(frozen=True)
class Claim:
    """One row: what the paper says, what we measured, and whether it is within the digest's tolerance.

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

    @property
    def verdict(self) -> str:
        """The word for ``ok``: yes, no, or a dash."""
        return "-" if self.ok is None else ("yes" if self.ok else "no")

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain data."""
        row = asdict(self)
        for name in ("paper", "measured"):
            value = row[name]
            row[name] = {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else _plain(value)
        return row


def as_json(paper: str, claims: Iterable[Claim]) -> dict[str, Any]:
    """Return ``{"paper", "claims"}`` as `headgate reproduce --json` prints it."""
    return {"paper": paper, "claims": [claim.as_json() for claim in claims]}


def as_table(paper: str, claims: Iterable[Claim]) -> Table:
    """Return the rows as a table for a terminal."""
    table = Table(title=f"{paper}: claims and measurements", show_lines=False)
    for name in ("id", "setup", "paper", "measured", "tolerance", "ok", "note"):
        table.add_column(name, overflow="fold", no_wrap=name in ("id", "ok"))
    colours = {"yes": "green", "no": "red", "-": "dim"}
    for claim in claims:
        table.add_row(
            claim.id,
            claim.setup,
            as_text(claim.paper),
            as_text(claim.measured),
            claim.tolerance,
            Text(claim.verdict, style=colours[claim.verdict]),
            claim.note,
        )
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
