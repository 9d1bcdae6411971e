"""The commit record of a batch: which state files are live, under which table, with which output. A value; no
I/O.

The state of bin b is the sections of b in the live files of batch `bases[b]` and later, applied in order.
`head(b)` is the last of them: its name is the version of the bin. Moving a bin changes nothing here: it is a
change of reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from headgate.flow.backlog import Backlog
from headgate.flow.row_ranges import RowRange as Range
from headgate.operators.event_time import COMPLETE

NEVER = 1 << 62
"""The base of a bin that is no more (an unpinned one): no file is needed for it."""


@dataclass(frozen=True)
class StateFile:
    """One file in the state folder, and the bins that it holds."""

    name: str
    batch: int
    bins: frozenset[int]

    def to_json(self) -> list[Any]:
        """Compact: the bins as one hexadecimal bit set."""
        return [self.name, self.batch, format(sum(1 << b for b in self.bins), "x")]

    @classmethod
    def from_json(cls, data: list[Any]) -> StateFile:
        """The reverse."""
        bits = int(data[2], 16)
        return cls(data[0], data[1], frozenset(b for b in range(bits.bit_length()) if bits >> b & 1))


@dataclass(frozen=True)
class Written:
    """One file of output, as it was when it was written: what is published must be the same bytes."""

    name: str
    size: int
    checksum: str

    def to_json(self) -> list[Any]:
        """Plain data."""
        return [self.name, self.size, self.checksum]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that batch `batch` committed."""

    batch: int
    run: str
    channels: int
    """Channels that the user's code asked for when this batch ran (the table may have others after a
    rescale)."""
    files: tuple[StateFile, ...] = ()
    bases: Mapping[int, int] = field(default_factory=dict)
    state_bytes: Mapping[int, int] = field(default_factory=dict)
    state_keys: Mapping[int, int] = field(default_factory=dict)
    backlog: Backlog = field(default_factory=Backlog)
    flow: Mapping[str, Any] = field(default_factory=dict)
    due: Mapping[int, int] = field(default_factory=dict)
    """Bin to a time before which nothing in it is due, for the bins that hold anything with a time."""
    clock: Mapping[str, Any] | None = None
    """Event time before the next batch, for an operator that goes by it."""
    aside: tuple[Written, ...] = ()
    """Files of rows that could not be used, for the sink that is asked to keep them."""
    origin: str | None = None
    """What delivered the batch: the id of Spark's streaming query, or the stage before in a pipeline; None: a call by hand."""
    source: int | None = None
    """The batch of the source that these rows are from; None: the same number as this one's."""
    rest: tuple[Range, ...] = ()
    """What is left of the source's batch, where a gate cuts it into waves."""
    rest_in: str = ""
    """The folder where it waits."""
    rows_in: int = 0
    """Rows of the source's batch: Spark must deliver as many if it delivers the batch again."""
    rest_rows: int | None = None
    """The same for a batch that goes through a gate, before a step that expands it."""
    extra: bool = False
    """Whether the batch was added by the stage itself, after all rows of the source's batch (`Stage.drain`)."""
    columns: str = ""
    """The schema of the source's rows, as Spark writes it."""
    held_clock: Mapping[str, Any] | None = None
    """Event time before the source's batch, while some of it is left."""
    refreshed: int | None = None
    """The last of the build side's refreshes that the state holds, for a join."""
    credit: int = 0
    earned: int = 0
    """Bytes of deltas that this batch wrote: what it added to the credit for snapshots."""
    table: Mapping[str, Any] = field(default_factory=dict)
    loop: Mapping[str, Any] = field(default_factory=dict)
    output: tuple[Written, ...] = ()
    journal: str = ""

    @property
    def folder(self) -> str:
        """Where its output files are staged, below what the sink names for it."""
        return staging_folder(self.batch, self.run)

    @property
    def of(self) -> int:
        """The number that Spark knows these rows by."""
        return self.batch if self.source is None else self.source

    @property
    def complete(self) -> bool:
        """Whether the input was said to be complete."""
        return self.clock is not None and self.clock["watermark"] == COMPLETE

    def unsettled(self) -> tuple[int, int]:
        """What a batch without rows would still have to do: rows that wait, and bins with work that is due by the watermark."""
        reached = self.clock["watermark"] if self.clock else -NEVER
        return sum(self.backlog.rows.values()), sum(time <= reached for time in self.due.values())

    @cached_property
    def heads(self) -> dict[int, str]:
        """Bin to the name of the last live file that holds it."""
        return {b: f.name for f in self.files for b in f.bins if f.batch >= self.bases.get(b, NEVER)}

    def chain(self, b: int) -> list[StateFile]:
        """The files that make up bin b, oldest first."""
        base = self.bases.get(b)
        return [] if base is None else [f for f in self.files if f.batch >= base and b in f.bins]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "batch": self.batch,
            "run": self.run,
            "channels": self.channels,
            "files": [f.to_json() for f in self.files],
            "bases": _columns(self.bases),
            "state_bytes": _columns(self.state_bytes),
            "state_keys": _columns(self.state_keys),
            "backlog": self.backlog.to_json(),
            "flow": self.flow,
            "due": _columns(self.due),
            "clock": self.clock,
            "aside": [one.to_json() for one in self.aside],
            "origin": self.origin,
            "source": self.source,
            "rest": [[some.file, some.start, some.stop] for some in self.rest],
            "rest_in": self.rest_in,
            "rows_in": self.rows_in,
            "rest_rows": self.rest_rows,
            "extra": self.extra,
            "columns": self.columns,
            "held_clock": self.held_clock,
            "refreshed": self.refreshed,
            "credit": self.credit,
            "earned": self.earned,
            "table": self.table,
            "loop": self.loop,
            "output": [one.to_json() for one in self.output],
            "journal": self.journal,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Manifest:
        """Read what `to_json` gave."""
        return cls(
            **{
                **body,
                "files": tuple(StateFile.from_json(f) for f in body["files"]),
                "bases": dict(zip(*body["bases"], strict=True)),
                "state_bytes": dict(zip(*body["state_bytes"], strict=True)),
                "state_keys": dict(zip(*body["state_keys"], strict=True)),
                "backlog": Backlog.from_json(body["backlog"]),
                "output": tuple(Written(*one) for one in body["output"]),
                "due": dict(zip(*body["due"], strict=True)),
                "aside": tuple(Written(*one) for one in body["aside"]),
                "rest": tuple(Range(*some) for some in body["rest"]),
            }
        )


def _columns(mapping: Mapping[int, int]) -> list[list[int]]:
    return [list(mapping), list(mapping.values())]


def staging_folder(batch: int, run: str) -> str:
    """Where tasks put the output of a batch until it is published; the driver's name is in it, so no two share one."""
    return f"{batch:012d}-{run}"


def live_files(files: tuple[StateFile, ...], bases: Mapping[int, int]) -> tuple[StateFile, ...]:
    """The files that some bin's chain still needs."""
    return tuple(f for f in files if any(f.batch >= bases.get(b, NEVER) for b in f.bins))
