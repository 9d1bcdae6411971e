"""Loggers whose records say which query and which batch they are about: `record.query`, `record.stage`, `record.batch`.

The names are those of Python's `logging`: `headgate.stream`, `headgate.stage`, `headgate.service`, and so on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class About:
    """What a record is about; empty or None where that is not known."""

    query: str = ""
    stage: int | None = None
    batch: int | None = None


_about: ContextVar[About] = ContextVar("about", default=About())  # noqa: B039 - it is frozen


class _Naming(logging.Filter):
    """Adds to a record what it is about. Fields that a caller gave as `extra` stay as they are."""

    def filter(self, record: logging.LogRecord) -> bool:
        about = _about.get()
        for name in About.__dataclass_fields__:
            if not hasattr(record, name):
                setattr(record, name, getattr(about, name))
        return True


_NAMING = _Naming()


def logger(name: str) -> logging.Logger:
    """The logger of that name."""
    found = logging.getLogger(name)
    found.addFilter(_NAMING)  # once: a filter that is there already is not added again
    return found


def current() -> About:
    """What this thread works on."""
    return _about.get()


@contextmanager
def about(*, query: str | None = None, stage: int | None = None, batch: int | None = None) -> Iterator[None]:
    """Records of this thread are about this query, stage and batch until the end of the block."""
    given = {"query": query, "stage": stage, "batch": batch}
    token = _about.set(replace(_about.get(), **{n: v for n, v in given.items() if v is not None}))  # type: ignore[arg-type]
    try:
        yield
    finally:
        _about.reset(token)
