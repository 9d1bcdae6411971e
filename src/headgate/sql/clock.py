"""Event time: how far each source has come, and what that closes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.sql.template import Mode, Template

Times = NDArray[np.int64]
NEVER = -(1 << 60)
"""The latest time of a source that has had no row."""


@dataclass(frozen=True)
class Clock:
    """The watermark of every source (its latest time less its delay) before and after a batch, by its number."""

    old: Times
    new: Times

    @classmethod
    def over(cls, latest: Times, delay: Times, rows: pa.Table) -> Clock:
        """The clock of a batch, given how far the sources had come before it."""
        return cls(latest - delay, after(latest, rows) - delay)


def times_of(rows: pa.Table) -> Times:
    """The event times of rows, in microseconds."""
    return np.asarray(rows.column("time").cast(pa.int64()).to_numpy())


def after(latest: Times, rows: pa.Table) -> Times:
    """How far the sources have come with these rows."""
    found = latest.copy()
    np.maximum.at(found, rows.column("source").to_numpy(), times_of(rows))
    return found


def timed(template: Template, constants: pa.Table, clock: Clock) -> pa.Table:
    """Constants with the watermark of each computation before and after the batch.

    Of a join it is the time up to which every pair is there: that of the first source, and of the others less what they may lie after it.
    """
    found = constants
    for name, marks in (("old", clock.old), ("new", clock.new)):
        mark = marks[constants.column("s0").to_numpy()]
        if template.mode is Mode.panes:
            for i, (_, later) in enumerate(template.bounds, start=1):
                mark = np.minimum(mark, marks[constants.column(f"s{i}").to_numpy()] - max(later, 0))
        found = found.append_column(name, pa.array(mark))
    return found
