"""The answer of a channel's task: where it put state and output, and what it measured.
One value per channel and batch.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.flow.backlog import Backlog
from headgate.storage.manifest import Written

HOT_ROWS = 2
"""A key with fewer rows in a batch does not matter for balance."""


@dataclass(frozen=True, slots=True)
class TouchedBin:
    """A bin that the task opened, as the task left it."""

    bin: int
    rows: int
    """Rows of this batch that were applied to it."""
    state_bytes: int
    keys: int
    due: int
    """Nothing in the bin is due before this time."""


@dataclass(frozen=True, slots=True)
class KeyCount:
    """A frequent key: its hash, its rows in this batch, and its name."""

    hash: int
    rows: int
    label: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The report of one channel's task. Until the driver commits the files
    that it names, they are rubbish.
    """

    channel: int
    executor: str
    came: int
    """Rows that were sent to the channel."""
    rows: int
    """Rows that the channel processed, including rows that had waited."""
    out_rows: int
    busy_ms: float
    idle_ms: float
    """Time spent waiting for input."""
    read_ms: float
    """Time spent reading state back."""
    rebuilt_bins: int
    ahead_bins: int = 0
    """Bins whose state was read before it is needed here."""
    ahead_ms: float = 0.0
    """Time spent on that, which is not part of the busy time."""
    state_file: str = ""
    """The state file that the task wrote; empty if nothing changed."""
    changed: tuple[int, ...] = ()
    """The bins in the state file."""
    snapshots: tuple[int, ...] = ()
    """The bins that are in the state file as a whole, not as a delta."""
    state_bytes: int = 0
    """The size of the state file."""
    delta_bytes: int = 0
    output: Written | None = None
    aside: Written | None = None
    seen: Mapping[str, Any] = field(default_factory=dict)
    """The event times of the rows that arrived, and counts of rows that could not
    be used (`operators.arrival`).
    """
    taken: Backlog = field(default_factory=Backlog)
    """Rows that had waited and were processed in this batch."""
    waiting: Backlog = field(default_factory=Backlog)
    """Rows that arrived in this batch and now wait."""
    arrived: Mapping[int, int] = field(default_factory=dict)
    """The number of rows that arrived, by bin."""
    touched: tuple[TouchedBin, ...] = ()
    pieces: bytes = b""
    """What the channel made of the rows of split keys (`stage.split_rows`)."""
    frequent: tuple[KeyCount, ...] = ()
    requests: int = 0
    """Requests that the task sent to an object store."""

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        return plain | {
            "output": None if self.output is None else self.output.to_json(),
            "aside": None if self.aside is None else self.aside.to_json(),
            "taken": self.taken.to_json(),
            "waiting": self.waiting.to_json(),
            "arrived": [list(self.arrived), list(self.arrived.values())],
            "touched": [[t.bin, t.rows, t.state_bytes, t.keys, t.due] for t in self.touched],
            "pieces": base64.b64encode(self.pieces).decode(),
            "frequent": [[k.hash, k.rows, k.label] for k in self.frequent],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Answer:
        """Read what `to_json` wrote."""
        return cls(
            **{
                **data,
                "changed": tuple(data["changed"]),
                "snapshots": tuple(data["snapshots"]),
                "output": None if data["output"] is None else Written(*data["output"]),
                "aside": None if data["aside"] is None else Written(*data["aside"]),
                "taken": Backlog.from_json(data["taken"]),
                "waiting": Backlog.from_json(data["waiting"]),
                "arrived": dict(zip(*data["arrived"], strict=True)),
                "touched": tuple(TouchedBin(*t) for t in data["touched"]),
                "pieces": base64.b64decode(data["pieces"]),
                "frequent": tuple(KeyCount(*k) for k in data["frequent"]),
            }
        )


_CODED = {"output", "aside", "taken", "waiting", "arrived", "touched", "pieces", "frequent"}
_PLAIN = tuple(name for name in Answer.__dataclass_fields__ if name not in _CODED)
