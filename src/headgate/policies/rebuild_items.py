"""What the rebuild policy places (hash bins, pinned keys and hot keys), where, and the plan that gets there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.control.plan import Plan, apply
from headgate.control.view import LoadView
from headgate.ids import Bin, Channel
from headgate.routing.balance import Floats, Ints, ResourceFunction
from headgate.routing.builders.problem import Objective, Problem
from headgate.routing.table import Move, Pin, Table

Places = list[list[tuple[Channel, float]]]
"""For each key the channel and work of each of its pieces."""


@dataclass(frozen=True)
class Targets:
    """The wanted placement: pinned keys on one channel, split keys on several, every hash bin on one."""

    pins: Mapping[int, Channel]
    splits: Mapping[int, tuple[Channel, ...]]
    bin_channel: Ints

    def channels_of(self, key: int) -> tuple[Channel, ...]:
        """The wanted channels of the bins of a pinned or split key; empty if it should have no pin."""
        return self.splits.get(key) or ((self.pins[key],) if key in self.pins else ())


@dataclass(frozen=True)
class Items:
    """What can be placed: every hash bin, and every key that is pinned or hot, with its work and channel."""

    view: LoadView
    labels: Mapping[int, str]
    keys: Ints
    key_work: Floats
    home: Ints
    pinned_to: Ints  # of a split key, its first piece
    bin_work: Floats  # not counting keys that are pinned now
    bin_rest: Floats  # not counting any hot key
    bin_channel: Ints
    bin_keys: Floats | None

    @classmethod
    def from_view(cls, view: LoadView, table: Table) -> Items:
        """Read the items from a view that was made `under` this table."""
        labels = {pin.hash: pin.label for pin in table.pins} | {key.hash: key.label for key in view.hot_keys}
        rows = {key.hash: key.rows for key in view.hot_keys if key.hash not in table.pinned}
        new = sorted(rows, key=lambda key: (-rows[key], key))
        pins = tuple(Pin(key, bin) for key, bin in zip(new, table.free_bins(len(new)), strict=True))
        trial = apply(Plan(policy="", from_version=table.version, pins=pins), table, table.from_batch)
        split = view.under(trial)  # each hot key's work, within its bin's
        keys = [*table.pinned, *new]
        work = [sum(max(split.bin_work.get(pin.bin, 0.0), 0.0) for pin in trial.pinned[key]) for key in keys]
        on = [table.channel_of[table.pinned[key][0].bin] if key in table.pinned else -1 for key in keys]
        bins = range(table.hash_bins)
        known = any(view.bin_keys.get(bin, 0) for bin in bins)
        return cls(
            view=view,
            labels=labels,
            keys=np.array(keys, dtype=np.int64),
            key_work=np.array(work, dtype=np.float64),
            home=np.array([table.home_bin(key) for key in keys], dtype=np.int64),
            pinned_to=np.array(on, dtype=np.int64),
            bin_work=np.array([max(view.bin_work.get(bin, 0.0), 0.0) for bin in bins], dtype=np.float64),
            bin_rest=np.array([max(split.bin_work.get(bin, 0.0), 0.0) for bin in bins], dtype=np.float64),
            bin_channel=np.array(table.assignment[: table.hash_bins], dtype=np.int64),
            bin_keys=np.array([view.bin_keys.get(bin, 0) for bin in bins], np.float64) if known else None,
        )

    @property
    def total(self) -> float:
        """All the work."""
        return float(self.key_work.sum() + self.bin_rest.sum())

    def pieces_on(self, table: Table) -> list[list[Channel]]:
        """The current channels of each key's pinned bins."""
        return [
            [table.channel_of[pin.bin] for pin in table.pinned.get(key, ())] for key in self.keys.tolist()
        ]

    def present(self, table: Table) -> tuple[Places, Ints]:
        """The current placement, each piece with the work measured there."""
        places: Places = []
        for key, work, home in self.each():
            pins = table.pinned.get(key)
            if pins is None:
                places.append([(int(self.bin_channel[home]), work)])
            else:
                places.append([(table.channel_of[p.bin], self.view.bin_work.get(p.bin, 0.0)) for p in pins])
        return places, self.bin_channel

    def under(self, targets: Targets) -> tuple[Places, Ints]:
        """The placement under the targets; a key without a pin is where its hash bin is."""
        places: Places = []
        for key, work, home in self.each():
            on = targets.channels_of(key) or (int(targets.bin_channel[home]),)
            places.append([(channel, work / len(on)) for channel in on])
        return places, targets.bin_channel

    def problem(
        self, where: tuple[Places, Ints], goal: Objective, channels: int, speeds: Floats | None
    ) -> Problem:
        """The problem of all items that have work, in this placement."""
        places, bin_channel = where
        spots = [spot for pieces in places for spot in pieces]
        on = np.concatenate([np.array([c for c, _ in spots], dtype=np.int64), bin_channel])
        work = np.concatenate([np.array([w for _, w in spots], dtype=np.float64), self.bin_rest])
        loaded = work > 0
        counts = np.ones_like(work)
        if self.bin_keys is not None:
            counts[len(spots) :] = np.maximum(self.bin_keys, 1.0)
        share, count = work[loaded] / self.total, counts[loaded]
        loads = goal.resources.loads(share / count) * count
        return Problem(share, on[loaded], channels, goal, loads=loads, speeds=speeds)

    def each(self) -> list[tuple[int, float, int]]:
        """Key, work and home bin of each key."""
        return list(zip(self.keys.tolist(), self.key_work.tolist(), self.home.tolist(), strict=True))


def difference(
    policy: str, items: Items, targets: Targets, table: Table, channels: int, goal: Objective
) -> Plan:
    """The plan from the table to the targets; moves from the fullest to the emptiest channel come first.

    Bins of a key that are already on a wanted channel stay; the others move to wanted channels that
    have none. Then bins are added or removed.
    """
    view, load = items.view, items.view.channel_load
    moves = [
        Move(bin, int(source), int(target))
        for bin, (source, target) in enumerate(zip(items.bin_channel, targets.bin_channel, strict=True))
        if source != target
    ]
    wanted: list[tuple[int, Channel]] = []
    unpins: list[Bin] = []
    cost = 0.0
    for key, _, home in items.each():
        lacking = list(targets.channels_of(key))
        misplaced: list[Bin] = []
        for pin in table.pinned.get(key, ()):
            if table.channel_of[pin.bin] in lacking:
                lacking.remove(table.channel_of[pin.bin])
            else:
                misplaced.append(pin.bin)
        for bin in misplaced:
            if lacking:
                moves.append(Move(bin, table.channel_of[bin], lacking.pop(0)))
            else:
                unpins.append(bin)
                heir = (*targets.channels_of(key), int(targets.bin_channel[home]))[0]
                cost += view.bin_bytes.get(bin, 0) if heir != table.channel_of[bin] else 0
        wanted += [(key, channel) for channel in lacking]
    pins: list[Pin] = []
    for (key, channel), bin in zip(wanted, table.free_bins(len(wanted)), strict=True):
        home = table.home_bin(key)
        if channel != table.channel_of[home]:
            moves.append(Move(bin, table.channel_of[home], channel))
            first = key not in table.pinned and all(pin.hash != key for pin in pins)
            cost += _key_bytes(items, key, home, goal) if first else 0.0
        pins.append(Pin(key, bin, items.labels.get(key, "")))
    moves.sort(key=lambda m: (load[m.target] if m.target < len(load) else 0.0) - load[m.source])
    cost += sum(view.bin_bytes.get(move.bin, 0) for move in moves)
    return Plan(
        policy=policy,
        from_version=table.version,
        moves=tuple(moves),
        pins=tuple(pins),
        unpins=tuple(sorted(unpins)),
        channels=None if channels == table.channels else channels,
        cost=cost,
    )


def _key_bytes(items: Items, key: int, home: Bin, goal: Objective) -> float:
    """The bytes of a key's state in its hash bin: an equal part, or by work if state grows with it."""
    size, work = items.view.bin_bytes.get(home, 0), items.view.bin_work.get(home, 0.0)
    if goal.resources.functions[0] is ResourceFunction.CONSTANT and items.bin_keys is not None:
        return size / max(float(items.bin_keys[home]), 1.0)
    mine = float(items.key_work[items.keys.tolist().index(key)])
    return size * mine / work if work > 0 else 0.0
