"""A history in plain sentences, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from headgate_lab.chaos.faults import KINDS
from headgate_lab.chaos.history import History, Settings, Step
from headgate_lab.chaos.play import Outcome

VERBS = {"write": "writes", "create": "creates", "copy": "copies to", "remove": "removes", "append": "appends to",
         "link": "links", "replace": "replaces", "rename": "renames to", "make folder": "makes the folder",
         "sync": "syncs", "sync folder": "syncs the folder"}  # fmt: skip
"""Operations that are told; those that only look are not."""


def story(outcome: Outcome) -> Iterator[str]:
    """What was set up, what happened, and what was wrong."""
    history = outcome.history
    yield f"History {history.seed}: {_setting(history.settings)}."
    for number, step in enumerate(history.past):
        yield f"Past, batch {number + 1}: {_step(step)}."
    for number, step in enumerate(history.steps):
        yield f"Step {number + 1}: {_step(step)}."
        for fault in step.faults:
            yield f"  Fault: {fault} ({KINDS[fault.kind]})."
    yield "What happened:"
    told = [entry for entry in outcome.told if not entry[2] or entry[2] in VERBS or _is_fault(entry[4])]
    for process, group in groupby(told, key=lambda entry: entry[1]):
        yield from _sentences(process, list(group))
    if outcome.failed:
        yield f"WRONG: {outcome.problems[0]}"
    else:
        yield "All laws held: the last driver finished, and the output is what it must be."


def _is_fault(remark: str) -> bool:
    return bool(remark) and not remark.startswith("fails")


def _sentences(process: str, group: list[tuple[int, str, str, str, str]]) -> Iterator[str]:
    for change, _, what, path, remark in group:
        if not what:
            yield f"  -- {remark}"
            continue
        verb = VERBS.get(what, what)
        mark = f"   <== {remark}" if remark else ""
        yield f"  {change:4d} {process} {verb} {_short(path)}{mark}"


def _short(path: str) -> str:
    """A path without its root, and with short runs."""
    parts = path.split("/")
    return "/".join(part for part in parts if part not in ("", "disk", "store"))


def _setting(settings: Settings) -> str:
    where = "an object store" if settings.profile == "objects" else "a local disk"
    if settings.way == "service":
        kept = f"results of {settings.kept or 'all'} batches kept"
        return f"a service with {settings.operator} on {where}, {settings.channels} servers, {kept}"
    way = "Spark's batches" if settings.way == "stage" else f"a direct stream of {settings.source}"
    extras = [
        f"{name} {value}"
        for name, value in (("gate", settings.gate), ("memory", settings.memory),
                            ("arrivals", settings.arrivals), ("buffer", settings.buffer))
        if value
    ]  # fmt: skip
    limits = f", with {', '.join(extras)}" if extras else ""
    return (
        f"{settings.operator} over {way} on {where}, {settings.bins} bins, {settings.channels} channels, "
        f"{settings.executors} executors, sink {settings.sink}{limits}"
    )


def _step(step: Step) -> str:
    parts = [f"rows of the keys {', '.join(map(str, step.rows))}" if step.rows else "no rows"]
    if step.restart == "new":
        parts.append("a new driver" + (f" with {step.channels} channels" if step.channels else ""))
    if step.route is not None:
        parts.append(f"{step.route[0]} wished for")
    if step.drain:
        parts.append("then the stage is drained")
    return ", ".join(parts)


def command(history: History) -> str:
    """The command that plays it again."""
    return f"headgate chaos --seed {history.seed}"
