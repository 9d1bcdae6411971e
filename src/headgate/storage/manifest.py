"""The commit record of a batch: which rows it took, its state, routing, event time and output. A value; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.flow.backlog import Backlog
from headgate.flow.flow_state import FlowState
from headgate.flow.row_ranges import RowRange
from headgate.operators.event_time import COMPLETE, Clock
from headgate.routing.table import Table
from headgate.storage.state_index import StateIndex


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
class Delivery:
    """Which rows of the source a batch took, and what is left of the source's own batch."""

    number: int
    """The number that the source knows its batch by."""
    origin: str | None = None
    """What delivers: the id of Spark's streaming query, or the stage before in a pipeline; None: a call by hand."""
    columns: str = ""
    """The schema of the source's rows, as the engine writes it."""
    rows: int = 0
    """Rows of the source's batch so far: as many must come if it is delivered again."""
    rows_at_gate: int | None = None
    """All rows of the source's batch before they expand, where a gate cuts it into waves."""
    rest: tuple[RowRange, ...] = ()
    """What is left of the source's batch after this wave."""
    rest_in: str = ""
    """The folder of what is left."""
    extra: bool = False
    """Whether the stage added the batch itself, after all rows of the source's batch (`Stage.drain`)."""

    def is_of(self, origin: str | None, number: int) -> bool:
        """Whether these rows are of that batch of the source."""
        return (self.origin, self.number) == (origin, number)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        rest = [[some.file, some.start, some.stop] for some in self.rest]
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "rest": rest}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Delivery:
        """Read what `to_json` wrote."""
        return cls(**{**data, "rest": tuple(RowRange(*some) for some in data["rest"])})


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that batch `batch` committed."""

    batch: int
    run: str
    """The driver, as it stands in the names of its files."""
    channels: int
    """Channels that the user's code asked for when this batch ran (the table may have others after a rescale)."""
    delivery: Delivery
    table: Table
    """The routing that the batch ran under."""
    state: StateIndex = field(default_factory=StateIndex)
    clock: Clock = field(default_factory=Clock)
    """Event time before the next batch."""
    held_clock: Clock | None = None
    """Event time before the source's batch, while some of it is left."""
    backlog: Backlog = field(default_factory=Backlog)
    flow: FlowState = field(default_factory=FlowState)
    loop: Mapping[str, Any] = field(default_factory=dict)
    """The control loop's own snapshot."""
    refreshed: int | None = None
    """The last refresh of the build side that the state holds, for a join."""
    output: tuple[Written, ...] = ()
    aside: tuple[Written, ...] = ()
    """Files of rows that could not be used, for the sink that is asked to keep them."""
    journal: str = ""

    @property
    def folder(self) -> str:
        """Where its output files are staged, below what the sink names for it."""
        return staging_folder(self.batch, self.run)

    @property
    def complete(self) -> bool:
        """Whether the input was said to be complete."""
        return self.clock.watermark == COMPLETE

    def unsettled(self) -> tuple[int, int]:
        """What a batch without rows would still have to do: rows that wait, and bins with work that is due by the watermark."""
        due = sum(time <= self.clock.watermark for time in self.state.due.values())
        return sum(self.backlog.rows.values()), due

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
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
            }
        )


def staging_folder(batch: int, run: str) -> str:
    """Where tasks put the output of a batch until it is published; the driver's name is in it, so no two share one."""
    return f"{batch:012d}-{run}"
