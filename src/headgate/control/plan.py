"""A plan: what should change, the table version it was made from, its gain and cost, and the reason.

Not here: whether it is carried out (`guard`, `loop`), and the transfer of state. That is the drivers'
work: they compare the new table with the old one and move the bins whose channel changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.errors import ConfigError, StaleTable
from headgate.ids import BatchId, Bin, Version
from headgate.routing.table import Move, Pin, Table

__all__ = ["Move", "Pin", "Plan", "apply"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A proposed change of the table of version `from_version`.

    `gain` is the share of the busiest channel's load that it removes (0.2: the batch ends a fifth
    sooner); `cost` is the number of bytes of state that it moves. `unpins` are bins. `channels` is the
    new number of channels, None to keep the present one. The best moves come first, so that any prefix
    of them is a smaller plan of the same kind.
    """

    policy: str
    from_version: Version
    moves: tuple[Move, ...] = ()
    pins: tuple[Pin, ...] = ()
    unpins: tuple[Bin, ...] = ()
    channels: int | None = None
    gain: float = 0.0
    cost: float = 0.0
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse numbers that the guard cannot judge and the journal cannot hold."""
        if not (math.isfinite(self.gain) and math.isfinite(self.cost)):
            raise ConfigError(f"plan of {self.policy}: gain={self.gain} and cost={self.cost} must be finite")

    @property
    def is_empty(self) -> bool:
        """True when carrying it out would change nothing."""
        return not (self.moves or self.pins or self.unpins) and self.channels is None

    def to_json(self) -> dict[str, Any]:
        """JSON-native values in a stable order."""
        return {
            "policy": self.policy,
            "from_version": int(self.from_version),
            "moves": [[int(move.bin), int(move.source), int(move.target)] for move in self.moves],
            "pins": [[int(pin.hash), int(pin.bin), pin.label] for pin in self.pins],
            "unpins": [int(bin) for bin in self.unpins],
            "channels": None if self.channels is None else int(self.channels),
            "gain": float(self.gain),
            "cost": float(self.cost),
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Read what `to_json` wrote."""
        return cls(
            policy=data["policy"],
            from_version=data["from_version"],
            moves=tuple(Move(*move) for move in data["moves"]),
            pins=tuple(Pin(*pin) for pin in data["pins"]),
            unpins=tuple(data["unpins"]),
            channels=data["channels"],
            gain=data["gain"],
            cost=data["cost"],
            reason=data["reason"],
        )


def apply(plan: Plan, table: Table, from_batch: BatchId) -> Table:
    """The next version of the table, in force from `from_batch`.

    Unpins are applied first (the keys return to their home bins), then pins (a new bin starts on the
    channel of its key's home bin), then moves. A bin moves at most once, from the channel that it is on;
    each bin of a removed channel must move. A bin id that this plan frees is not reused by it, so that a
    bin never holds the state of two keys.
    """
    if plan.from_version != table.version:
        raise StaleTable(
            f"plan of {plan.policy} was made from table version {plan.from_version}, but version "
            f"{table.version} is in force: propose again from the current table"
        )
    if from_batch < table.from_batch:
        raise ConfigError(f"from_batch={from_batch} is before the table's own from_batch={table.from_batch}")
    channels = table.channels if plan.channels is None else int(plan.channels)
    pins = {pin.bin: pin for pin in table.pins}
    place = dict(table.items())
    for bin in plan.unpins:
        if pins.pop(bin, None) is None:
            raise ConfigError(
                f"cannot unpin bin {bin}: the pinned bins are {[pin.bin for pin in table.pins]}"
            )
        del place[bin]
    for pin in plan.pins:
        if pin.bin in place or pin.bin in plan.unpins:
            raise ConfigError(
                f"cannot pin {pin.label or pin.hash} to bin {pin.bin}: in use; see table.free_bins"
            )
        pins[pin.bin] = Pin(int(pin.hash), int(pin.bin), pin.label)
        place[int(pin.bin)] = place[table.home_bin(pin.hash)]
    moved: set[Bin] = set()
    for move in plan.moves:
        if move.bin in moved:
            raise ConfigError(f"bin {move.bin} moves twice in one plan: keep the last target only")
        if place.get(move.bin) != move.source:
            raise ConfigError(f"bin {move.bin} is on channel {place.get(move.bin)}, not on {move.source}")
        moved.add(move.bin)
        place[move.bin] = int(move.target)
    return Table(
        version=table.version + 1,
        from_batch=from_batch,
        channels=channels,
        hash_bins=table.hash_bins,
        assignment=tuple(place[bin] for bin in sorted(place)),
        pins=tuple(pins[bin] for bin in sorted(pins)),
    )
