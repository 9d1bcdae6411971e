"""Makes a failing history smaller, as long as it fails: steps, faults, rows and settings are left out in turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from headgate_lab.chaos.faults import Fault
from headgate_lab.chaos.history import History, Settings, Step

TRIES = 400
_NAMED = re.compile(r"\S*[\d/\[\](){}'\"]\S*")
SIMPLE = Settings(bins=2, channels=1, executors=1)


def shrunk(history: History, fails: Callable[[History], bool], *, tries: int = TRIES) -> History:
    """The smallest failing history that leaving things out leads to."""
    left = tries
    going = True
    while going:
        going = False
        for smaller in _smaller(history):
            left -= 1
            if left < 0:
                return history
            if fails(smaller):
                history, going = smaller, True
                break
    return history


def same_problem(one: str, other: str) -> bool:
    """Whether two problems are the same but for numbers, paths and values."""
    return _NAMED.sub("", one).split()[:8] == _NAMED.sub("", other).split()[:8]


def _smaller(history: History) -> Iterator[History]:
    """Histories with less in them, those with much less first."""
    past, steps = history.past, history.steps
    for at in range(0, len(past), 2):
        yield replace(history, past=past[:at])
    for at in range(len(past)):
        yield replace(history, past=(*past[:at], *past[at + 1 :]))
    for at in range(len(steps)):
        if len(steps) > 1:
            yield replace(history, steps=(*steps[:at], *steps[at + 1 :]))
    for name in Settings.__dataclass_fields__:
        simple = getattr(SIMPLE, name)
        if getattr(history.settings, name) != simple and name not in ("profile", "way", "operator", "source"):
            yield replace(history, settings=replace(history.settings, **{name: simple}))
    for at, step in enumerate(past):
        for smaller in _smaller_steps(step):
            yield replace(history, past=(*past[:at], smaller, *past[at + 1 :]))
    for at, step in enumerate(steps):
        for smaller in _smaller_steps(step):
            yield replace(history, steps=(*steps[:at], smaller, *steps[at + 1 :]))


def _smaller_steps(step: Step) -> Iterator[Step]:
    for at in range(len(step.faults)):
        yield replace(step, faults=(*step.faults[:at], *step.faults[at + 1 :]))
    if step.route is not None:
        yield replace(step, route=None)
    if step.restart:
        yield replace(step, restart="", channels=0)
    if step.drain:
        yield replace(step, drain=False)
    if len(step.rows) > 2:
        yield replace(step, rows=step.rows[: len(step.rows) // 2])
    for at in range(len(step.rows)):
        yield replace(step, rows=(*step.rows[:at], *step.rows[at + 1 :]))
    for at, key in enumerate(step.rows):
        if key:
            yield replace(step, rows=(*step.rows[:at], 0, *step.rows[at + 1 :]))
    for at, fault in enumerate(step.faults):
        for simpler in _simpler(fault):
            yield replace(step, faults=(*step.faults[:at], simpler, *step.faults[at + 1 :]))


def _simpler(fault: Fault) -> Iterator[Fault]:
    if fault.until:
        yield replace(fault, until="")
    if fault.later > 1 and fault.later != 10_000:
        yield replace(fault, later=1)
        yield replace(fault, later=10_000)
