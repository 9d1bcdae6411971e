"""What a source of a direct stream is: it plans ranges on the driver, and a task reads a range.

An offset is any value that JSON can hold; it is committed with the batch, so a restarted query goes
on exactly where the last commit ended. A range is planned on the driver and read in a task, perhaps
several times: it must give the same rows in the same order each time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.storage.store import Store

CHEAP_ROWS = 1_000_000
"""How many rows may be read again (`Source.rows_read_again`) where a row takes some 0.1 us."""


@dataclass(frozen=True)
class Demand:
    """How much a batch may take."""

    rows: int
    """About this many rows. A source that cannot cut so finely may give its smallest range instead."""
    tasks: int = 1
    """How many tasks will read. A source need not make as many ranges, and may make more."""
    now: float = 0.0
    """Seconds since 1970, for sources that go by the clock."""


@dataclass(frozen=True)
class Range:
    """Rows that are read together, in order."""

    what: Any
    """What `Source.read` gets: any value that can be pickled."""
    rows: int = 0
    """About how many rows it has; 0 if that is not known."""
    parts: int = 1
    """How many files or the like are opened to read it."""


@dataclass(frozen=True)
class Ranges:
    """The input of one batch: ranges in the order of the source, and the offset after them."""

    ranges: tuple[Range, ...]
    offset: Any
    """Any value that JSON can hold."""
    more: bool = False
    """Whether the source has more rows now, which the demand left out."""

    @property
    def rows(self) -> int:
        """About how many rows there are."""
        return sum(part.rows for part in self.ranges)


class Source(ABC):
    """Where the rows of a direct stream come from. It is pickled and sent to the tasks.

    >>> import pyarrow as pa
    >>> class Numbers(Source):
    ...     def schema(self): return pa.schema([("n", pa.int64())])
    ...     def identity(self): return {"source": "numbers"}
    ...     def plan(self, offset, demand):
    ...         start = offset or 0
    ...         end = min(start + demand.rows, 10)
    ...         ranges = (Range([start, end], end - start),) if end > start else ()
    ...         return Ranges(ranges, end, more=end < 10)
    ...     def read(self, what):
    ...         yield pa.RecordBatch.from_pydict({"n": list(range(*what))}, schema=self.schema())
    >>> planned = Numbers().plan(None, Demand(rows=4))
    >>> planned.offset, planned.more, [b.num_rows for r in planned.ranges for b in Numbers().read(r.what)]
    (4, True, [4])
    """

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of every row."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What must stay the same when a query is restarted from its checkpoint: values that JSON can hold."""

    def fresh(self) -> Source:
        """The source for one query: itself, or a copy if it keeps things that belong to a single query."""
        return self

    def recall(self, store: Store) -> None:
        """Learn from the records of an earlier run, if there are any, before the schema is asked for.
        Nothing may be written here.
        """
        return None

    def check(self) -> None:
        """Raise an error if the source cannot be read at all. It is called before anything is written."""
        return None

    def open(self, store: Store) -> None:
        """Get ready to plan. It is called once on the driver, before the first plan. `store` is a
        folder in the query's checkpoint, in which the source may keep records of its own.
        """
        return None

    @abstractmethod
    def plan(self, offset: Any, demand: Demand) -> Ranges:
        """The next ranges after an offset; None is the beginning. Without new rows: no ranges, and
        the same offset.
        """

    @abstractmethod
    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a range, in order, with the columns of `schema`. It runs in a task."""

    @property
    def rows_read_again(self) -> int:
        """So many rows of a batch may be read again by other tasks. While that is enough, every channel
        reads the batch for itself, which is faster than an exchange if reading is cheap. By default no
        range is read twice, unless its task is.
        """
        return 0

    def only(self, columns: Sequence[str]) -> Source:
        """A source that may leave out all other columns. `read` may still yield them, and often must."""
        return self
