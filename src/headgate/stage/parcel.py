"""Rows on their way to a channel, and what is known about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.flow.backlog import BacklogEntry


@dataclass(frozen=True)
class Parcel:
    """Some rows for one channel.

    Where a map task has judged the rows (`seen` is given), they have arrived: late rows are gone,
    and each row has the time up to which state was closed. Otherwise the channel judges them.
    """

    rows: pa.RecordBatch
    came: int
    """How many rows of the source they stand for, with those that are put aside."""
    seen: Mapping[str, Any] | None = None
    """What `Arrival.seen` says about them."""
    aside: pa.RecordBatch | None = None
    """Rows that could not be used."""
    number: int = 0
    """The number of their range in the batch, if they come from one."""
    waiting: tuple[BacklogEntry, ...] = ()
    """Rows of the channel that the map task holds back: they are in the backlog already."""

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Parcel:
        """Rows that nobody has judged yet."""
        return cls(rows, rows.num_rows)
