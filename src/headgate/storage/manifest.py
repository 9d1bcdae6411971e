"""The manifest: what a batch commits, namely its input, state, routing, event
time and output. A value; no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from headgate.flow.backlog import Backlog
from headgate.flow.flow_state import FlowState
from headgate.flow.row_ranges import RowRange
from headgate.operators.event_time import COMPLETE, Clock
from headgate.routing.table import Table
from headgate.storage.state_index import StateIndex


@dataclass(frozen=True)
class Written:
    """One output file, described when it was written: the published file must have the same bytes."""

    name: str
    size: int
    checksum: str

    def to_json(self) -> list[Any]:
        """Values that JSON can hold."""
        return [self.name, self.size, self.checksum]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """Which rows of the source a batch took, and the rest of the source's own batch."""

    number: int
    """The number of the source's batch."""
    origin: str | None = None
    """Who delivers: the id of Spark's streaming query, or the previous stage of a
    pipeline; None for a direct call.
    """
    columns: str = ""
    """The schema of the source's rows as text (`Engine.describe`)."""
    rows: int = 0
    """The number of rows of the source's batch so far. If it is delivered again, it must have as many."""
    rows_at_gate: int | None = None
    """The number of all rows of the source's batch before they expand, if a gate cuts it into waves."""
    rest: tuple[RowRange, ...] = ()
    """The rest of the source's batch after this wave."""
    rest_in: str = ""
    """The folder that holds the rest."""
    offsets: Any = None
    """The offsets of a direct stream's sources after the batch, as values that JSON can hold."""
    extra: bool = False
    """Whether the stage added the batch itself, after all rows of the source's batch (`Stage.drain`)."""

    def is_of(self, origin: str | None, number: int) -> bool:
        """Whether these rows belong to that batch of the source."""
        return (self.origin, self.number) == (origin, number)

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        rest = [list(astuple(piece)) for piece in self.rest]
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "rest": rest}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Delivery:
        """Read what `to_json` wrote."""
        return cls(**{**data, "rest": tuple(RowRange(*piece) for piece in data["rest"])})


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that batch `batch` committed."""

    batch: int
    run: str
    """The part of file names that identifies the driver."""
    channels: int
    """The number of channels in the user's code when this batch ran (after a
    rescale the table may have another).
    """
    delivery: Delivery
    table: Table
    """The routing that the batch ran under."""
    state: StateIndex = field(default_factory=StateIndex)
    clock: Clock = field(default_factory=Clock)
    """Event time before the next batch."""
    held_clock: Clock | None = None
    """Event time before the source's batch, while a rest of it is left."""
    backlog: Backlog = field(default_factory=Backlog)
    flow: FlowState = field(default_factory=FlowState)
    loop: Mapping[str, Any] = field(default_factory=dict)
    """The control loop's own snapshot."""
    refreshed: int | None = None
    """For a join: the number of the last refresh of the build side that is in the state."""
    output: tuple[Written, ...] = ()
    aside: tuple[Written, ...] = ()
    """Files with rows that could not be used, for the sink `aside`."""
    completed: tuple[int, ...] = ()
    """The source's batches of which the last rows were processed in this batch (`stage.completion`)."""
    unfinished: tuple[tuple[int, int], ...] = ()
    """The source's batches that were taken whole, but of which rows may wait: each with the batch that took
    the last of its rows.
    """
    journal: str = ""

    @property
    def folder(self) -> str:
        """The folder of its output files, within the store that the sink names for staging."""
        return staging_folder(self.batch, self.run)

    @property
    def complete(self) -> bool:
        """Whether the input was declared complete."""
        return self.clock.watermark == COMPLETE

    def unsettled(self) -> tuple[int, int]:
        """The work left for a batch without rows: the number of waiting rows, and of bins with
        work that the watermark makes due.
        """
        due = sum(time <= self.clock.watermark for time in self.state.due.values())
        return sum(self.backlog.rows.values()), due

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        return {
            "batch": self.batch,
            "run": self.run,
            "channels": self.channels,
            "delivery": self.delivery.to_json(),
            "table": self.table.to_json(),
            "state": self.state.to_json(),
            "clock": self.clock.to_json(),
            "held_clock": None if self.held_clock is None else self.held_clock.to_json(),
            "backlog": self.backlog.to_json(),
            "flow": self.flow.to_json(),
            "loop": self.loop,
            "refreshed": self.refreshed,
            "output": [file.to_json() for file in self.output],
            "aside": [file.to_json() for file in self.aside],
            "completed": list(self.completed),
            "unfinished": [list(one) for one in self.unfinished],
            "journal": self.journal,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Manifest:
        """Read what `to_json` wrote."""
        held = body["held_clock"]
        return cls(
            **{
                **body,
                "delivery": Delivery.from_json(body["delivery"]),
                "table": Table.from_json(body["table"]),
                "state": StateIndex.from_json(body["state"]),
                "clock": Clock.from_json(body["clock"]),
                "held_clock": None if held is None else Clock.from_json(held),
                "backlog": Backlog.from_json(body["backlog"]),
                "flow": FlowState.from_json(body["flow"]),
                "output": tuple(Written(*file) for file in body["output"]),
                "aside": tuple(Written(*file) for file in body["aside"]),
                "completed": tuple(body.get("completed", ())),
                "unfinished": tuple((number, last) for number, last in body.get("unfinished", ())),
            }
        )


def staging_folder(batch: int, run: str) -> str:
    """The folder for the output of a batch until it is published. It contains the driver's
    run, so no two drivers share it.
    """
    return f"{batch:012d}-{run}"
