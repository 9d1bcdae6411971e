"""The journal's codec: one line of JSON for each batch, with its report and its decision.

Keys are sorted, and no line mentions a clock or a machine. So the same run writes the same bytes, and
replaying a journal with the same policy, guard and mode gives the same decisions, byte for byte (Law 5).
A line holds the table before the decision, so a replay can start at any line. Reading and writing files
is the drivers' work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.control.guard import Guard
from headgate.control.loop import Decision, Loop
from headgate.control.modes import Mode
from headgate.control.policy import Policy
from headgate.control.report import BatchReport
from headgate.control.view import LoadView
from headgate.errors import CorruptState, NewerFormat, StaleTable

FORMAT = 1
_as_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


@dataclass(frozen=True)
class Entry:
    """One line, decoded. `start` is the loop's snapshot before the batch, if the writer gave one."""

    report: BatchReport
    decision: Decision
    start: Mapping[str, Any] | None = None


def encode(report: BatchReport, decision: Decision, *, start: Mapping[str, Any] | None = None) -> str:
    """One line without its newline.

    Give `start` (the snapshot before the step) with the first line of a file that does not begin at the
    first batch, because the other lines do not contain the smoothed past.
    """
    line: dict[str, Any] = {
        "format": FORMAT,
        "report": report.to_json(),
        "decision": decision.to_json(),
    }
    if start is not None:
        line["start"] = dict(start)
    return _as_json(line)


def decode(line: str) -> Entry:
    """Read one line."""
    try:
        data = json.loads(line)
        version = data["format"]
        if version > FORMAT:
            raise NewerFormat(
                f"journal line of format {version}, this headgate reads up to {FORMAT}: upgrade it"
            )
        report, decision = BatchReport.from_json(data["report"]), Decision.from_json(data["decision"])
        return Entry(report, decision, data.get("start"))
    except (ValueError, KeyError, TypeError, StaleTable) as error:
        raise CorruptState(
            f"not a journal line ({type(error).__name__}: {error}): {line[:80]!r}; "
            "an incomplete last line may be deleted"
        ) from error


def replay(
    lines: Iterable[str],
    policy: Policy,
    guard: Guard,
    mode: Mode | str,
    *,
    view: LoadView | None = None,
) -> list[Decision]:
    """Step a new loop through the reports, repeating the user's requests at the batches that answered them.

    Under another policy the decisions differ, but the reports stay those of the recorded run. What load
    the other policy would have caused is a question for the simulator.
    """
    loop: Loop | None = None
    decisions: list[Decision] = []
    for line in lines:
        entry = decode(line)
        if loop is None and entry.start is not None:
            loop = Loop.restore({**entry.start, "asked": None}, policy, guard, mode)
        elif loop is None:
            loop = Loop(policy, guard, mode, entry.decision.base, view=view)
        if entry.decision.asked is not None:
            loop.request_channels(entry.decision.asked)
        decisions.append(loop.step(entry.report))
    return decisions
