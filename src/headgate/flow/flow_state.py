"""What the next batch needs to know of the flow through the last one; committed with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.flow.rotation import Rotation
from headgate.ids import Bin, Channel


@dataclass(frozen=True)
class FlowState:
    """Queues of bins by channel, bins whose state is on its way, and how the last batch went.

    >>> state = FlowState(rotation={1: Rotation((3,), (4,))}, in_flight=(7,), wall_ms=12.5)
    >>> FlowState.from_json(state.to_json()) == state
    True
    """

    rotation: Mapping[Channel, Rotation] = field(default_factory=dict)
    in_flight: tuple[Bin, ...] = ()
    """Bins whose state is on its way, the longest first."""
    idle: tuple[Channel, ...] = ()
    """Channels to which no row came."""
    wall_ms: float = 0.0
    read_ms: tuple[float, ...] = ()
    """What it took to read a bin's state back, by channel."""
    executors: tuple[str, ...] = ()
    """Where each channel ran."""
    waited: Mapping[Bin, tuple[float, int]] = field(default_factory=dict)
    """How long bins have been passed over that something waits for, in ms and in batches."""

    def to_json(self) -> dict[str, Any]:
        """JSON-native values."""
        return {
            "rotation": {str(channel): rotation.to_json() for channel, rotation in self.rotation.items()},
            "in_flight": list(self.in_flight),
            "idle": list(self.idle),
            "wall_ms": self.wall_ms,
            "read_ms": list(self.read_ms),
            "executors": list(self.executors),
            "waited": {str(bin): list(how_long) for bin, how_long in self.waited.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FlowState:
        """Read what `to_json` wrote."""
        rotation = {int(channel): Rotation.from_json(saved) for channel, saved in data["rotation"].items()}
        return cls(
            rotation=rotation,
            in_flight=tuple(data["in_flight"]),
            idle=tuple(data["idle"]),
            wall_ms=data["wall_ms"],
            read_ms=tuple(data["read_ms"]),
            executors=tuple(data["executors"]),
            waited={int(bin): (ms, batches) for bin, (ms, batches) in data.get("waited", {}).items()},
        )
