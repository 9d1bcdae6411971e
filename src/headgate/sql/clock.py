"""Event time: how far each source has come, and what that closes. A clock that is years ahead closes nothing: see `far_ahead`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.far_ahead import newest_and_far_ahead, spans_of
from headgate.sql.template import Mode, Template

Times = NDArray[np.int64]
NEVER = -(1 << 60)
"""The latest time of a source that has had no row."""
EARLIEST_US, LATEST_US = -30_610_224_000 * 1_000_000, 221_845_392_000 * 1_000_000
"""The years 1000 to 9000. With times beyond them no engine computes."""
AHEAD_US = 86_400 * 1_000_000
"""If a gap in the times of a source is wider than this and few rows lie beyond it, their clock is wrong."""


@dataclass(frozen=True)
class Clock:
    """The watermark of every source (its latest time less its delay) before and after a
    batch, by its number.
    """

    old: Times
    new: Times

    @classmethod
    def over(cls, latest: Times, delay: Times, rows: pa.Table) -> Clock:
        """The clock of a batch, given the latest time of each source before it."""
        return cls(latest - delay, after(latest, rows) - delay)


def times_of(rows: pa.Table) -> Times:
    """The event times of rows, in microseconds."""
    return np.asarray(rows.column("time").cast(pa.int64()).to_numpy())


def possible(rows: pa.Table) -> NDArray[np.bool_]:
    """Which rows have a time that can be computed with."""
    times = rows.column("time")
    numbers = times.cast(pa.int64()).fill_null(LATEST_US).to_numpy()
    return np.asarray((numbers >= EARLIEST_US) & (numbers < LATEST_US))


def after(latest: Times, rows: pa.Table) -> Times:
    """The latest time of each source after these rows; times that look like a wrong clock are ignored."""
    source, time = rows.column("source").to_numpy(), times_of(rows)
    near = time <= latest[source] + AHEAD_US
    found = latest.copy()
    np.maximum.at(found, source[near], time[near])
    for one in np.unique(source[~near]).tolist():
        spans = spans_of(time[source == one], int(latest[one]), AHEAD_US)
        found[one] = newest_and_far_ahead(int(latest[one]), spans, AHEAD_US)[0]
    return found


def far_ahead(latest: Times, rows: pa.Table) -> dict[int, int]:
    """By source: how many rows are beyond what is believed, given how far the sources have come with them."""
    source = rows.column("source").to_numpy()
    sources, counts = np.unique(source[times_of(rows) > latest[source]], return_counts=True)
    return dict(zip(sources.tolist(), counts.tolist(), strict=True))


def marked(template: Template, constants: pa.Table, marks: Times) -> Times:
    """The watermark of each computation, given those of the sources.

    For a join it is the time up to which all pairs are known: the least of the first source's
    watermark and of each other source's watermark, less the time by which its rows may follow
    those of the first. For a FULL JOIN, the first source's watermark is less the time by which its
    rows may follow, too. For a UNION ALL it is the least watermark of its sources.
    """
    of = [marks[constants.column(f"s{i}").to_numpy()] for i in range(template.sources)]
    if template.arms:
        return np.asarray(np.minimum.reduce(of))
    mark = of[0] - max(template.bounds[0][0], 0) if template.full else of[0]
    if template.mode is Mode.panes or template.outer_on:
        for other, (_, later) in zip(of[1:], template.bounds, strict=True):
            mark = np.minimum(mark, other - max(later, 0))
    return np.asarray(mark)


def timed(template: Template, constants: pa.Table, clock: Clock) -> pa.Table:
    """Constants with the watermark of each computation before and after the batch."""
    for name, marks in (("old", clock.old), ("new", clock.new)):
        constants = constants.append_column(name, pa.array(marked(template, constants, marks)))
    return constants
