"""A policy that proposes what the history asks for, from the table and the load at that moment."""

from __future__ import annotations

from headgate.control.plan import Plan
from headgate.control.policy import Policy
from headgate.control.view import LoadView
from headgate.routing.table import Move, Pin, Table
from headgate_lab.chaos.history import Route


class Scripted(Policy):
    """Carries out one wish at a time; without a wish, or if it cannot be, it proposes nothing."""

    def __init__(self) -> None:
        self.wish: Route | None = None

    @property
    def name(self) -> str:
        """`scripted`."""
        return "scripted"

    def propose(self, view: LoadView, table: Table) -> Plan | None:
        """The plan for the wish."""
        if self.wish is None:
            return None
        (kind, first, second), self.wish = self.wish, None
        moves, pins, unpins = (), (), ()  # type: tuple[Move, ...], tuple[Pin, ...], tuple[int, ...]
        other = (second + 1) % table.channels
        if kind == "move":
            b = table.bins[first % len(table.bins)]
            pieces = {pin.bin for pieces in table.splits.values() for pin in pieces}
            if table.channel_of[b] != other and b not in pieces:
                moves = (Move(b, table.channel_of[b], other),)
        elif kind == "unpin" and table.pins:
            key = table.pins[first % len(table.pins)].hash
            unpins = tuple(pin.bin for pin in table.pins if pin.hash == key)
        elif kind in ("pin", "split"):
            hot = [key for key in view.hot_keys if key.hash not in table.pinned]
            if hot:
                key = hot[first % len(hot)].hash
                home = table.channel_of[table.home_bin(key)]
                number = 2 if kind == "split" and table.channels > 1 else 1
                pins = tuple(Pin(key, b, "hot") for b in table.free_bins(number))
                target = other if other != home else (home + 1) % table.channels
                if target != home:
                    moves = (Move(pins[-1].bin, home, target),)
        if not (moves or pins or unpins):
            return None
        return Plan(
            policy=self.name, from_version=table.version, moves=moves, pins=pins, unpins=unpins, gain=0.5
        )
