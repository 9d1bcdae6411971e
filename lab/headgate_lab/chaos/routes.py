"""A policy that proposes what the history asks for, from the table at that moment."""

from __future__ import annotations

from headgate.control.plan import Plan
from headgate.control.policy import Policy
from headgate.control.view import LoadView
from headgate.routing.key_hash import hash_ints
from headgate.routing.table import Move, Pin, Table
from headgate_lab.chaos.history import KEYS, Route

HASHES: tuple[int, ...] = tuple(hash_ints(range(KEYS)).tolist())
"""The hashes of all keys."""


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
            everything = second % 3 == 0
            unpins = tuple(pin.bin for pin in table.pins if everything or pin.hash == key)
        elif kind in ("pin", "split"):
            free = [key for key in HASHES if key not in table.pinned]
            if free:
                # The first keys have most of the rows.
                key = free[0 if kind == "split" else first * second // 8 % len(free)]
                home = table.channel_of[table.home_bin(key)]
                number = 2 if kind == "split" and table.channels > 1 else 1
                pins = tuple(Pin(key, b, "hot") for b in table.free_bins(number))
                target = other if other != home else (home + 1) % table.channels
                if target != home:
                    moves = (Move(pins[-1].bin, home, target),)
                near = [h for h in free if h != key and table.home_bin(h) == table.home_bin(key)]
                if kind == "pin" and second % 2 and near:  # two keys of a bin at once
                    pins = (*pins, Pin(near[0], table.free_bins(2)[-1], "hot"))
        if not (moves or pins or unpins):
            return None
        return Plan(
            policy=self.name, from_version=table.version, moves=moves, pins=pins, unpins=unpins, gain=0.5
        )
