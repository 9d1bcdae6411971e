"""Rebuild (Gedik's partitioning function as a policy): hot keys pinned, pins and bins balanced together.

It acts when the number of channels changes (`resize`) and when a balance bound is broken:

    max level - min level > theta * fair level        for a resource that is not constant (Eq. 15)

where a level is a channel's load of that resource over the channel's speed. Within the bound it is silent, so
pins that went cold stay until the next change. Beyond it, `place` decides on pins and bins, and the plan is
what differs from the table in force; a placement that does not relieve the busiest channel is no plan.

What differs from the paper: the tail is measured by bin, and moved too (`tail="ignore"` is the paper); a key's
rows are the report's exact counts, not a lossy counter's. A bin counts as one key in quadratic resources,
since a report does not say how many keys it has. Not here: whether a plan is worth its cost (`guard`), and
splitting a key that no channel can hold: the reason names it, with the number of channels that it would need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headgate.errors import ConfigError
from headgate.ids import Bin, Channel
from headgate.plans.plan import Plan, apply
from headgate.reports.load_view import LoadView
from headgate.routing.balance import Floats, Ints, ResourceFunction, alphas, theta
from headgate.routing.builders.placement import Bins, Hot, Placement, Tail, place
from headgate.routing.builders.problem import Objective, Problem
from headgate.routing.builders.rebuild import builder
from headgate.routing.table import Move, Pin, Table, rescale

UNDECLARED = "CLL"
"""The resource functions where no operator declared any."""

_NAMES = ("state", "computation", "communication")
_LEAST_GAIN = 1e-6  # a plan must beat rounding errors, or equal placements would take turns for ever


@dataclass(frozen=True)
class Rebuild:
    """Pins the hot keys and places them with the bins so that every resource is within `alpha`.

    `algorithm` is `redist`, `readj` or `scan`; `utility` weighs balance against migration (A, APM, APLM, ATM,
    ATLM). `alpha` is the tolerated ratio of the fullest to the emptiest channel, `sigma` the part of it left
    to keys without a pin. `resources` are three letters for state, computation and communication (C, L or Q
    in a key's frequency); None takes what the operator declares. `tail` says what becomes of the hash bins:
    `ignore`, `see` or `move`. A pin is let go below `unpin_below` times the share that earns one. With
    `speeds` the channels' measured cost of a row counts: a slow channel gets less.
    """

    algorithm: str = "redist"
    utility: str = "APM"
    alpha: float | tuple[float, float, float] = 1.1
    sigma: float = 0.1
    resources: str | None = None
    tail: Tail = "move"
    unpin_below: float = 0.5
    speeds: bool = False

    def __post_init__(self) -> None:
        """Check the settings."""
        try:
            self._goal()
            builder(self.algorithm)
        except ValueError as error:
            raise ConfigError(f"rebuild: {error}") from error
        if self.tail not in ("ignore", "see", "move"):
            raise ConfigError(f"rebuild: tail is 'ignore', 'see' or 'move', got {self.tail!r}")
        if not 0 <= self.unpin_below <= 1:
            raise ConfigError(f"rebuild: unpin_below={self.unpin_below} is outside [0, 1]")

    @property
    def name(self) -> str:
        """`rebuild`."""
        return "rebuild"

    def fitted(self, resources: str) -> Rebuild:
        """This policy for an operator with these resource functions; settings made by hand stay.

        >>> Rebuild().fitted("LQL").resources, Rebuild(resources="CCL").fitted("LQL").resources
        ('LQL', 'CCL')
        """
        return replace(self, resources=resources) if self.resources is None else self

    def initial(self, bins: int, channels: int) -> Table:
        """Deal the bins round robin."""
        return Table.uniform(bins, channels)

    def propose(self, view: LoadView, table: Table) -> Plan | None:
        """Pins, unpins and moves that mend a broken bound; None when none is broken or nothing helps.

        Law: the busiest channel's load, of the resource whose bound was broken worst, falls. Cost: one
        `place`, which grows with the keys tracked and the bins; within tolerance one pass over them.
        """
        goal, speeds = self._goal(), self._speeds(view, table.channels)
        items = _Items.of(view.under(table), table)
        if table.channels == 1 or items.total <= 0:
            return None
        problem = items.problem(goal, table.channels, speeds)
        before = problem.levels(problem.old)
        worst = _worst(problem, goal, before)
        if worst is None:
            return None
        found = self._place(items, table, table.channels, goal, speeds)
        plan = _plan(self.name, items, found, table, table.channels)
        after = problem.levels(items.under(found))
        gain = 1 - float(after[worst].max() / before[worst].max())
        if plan.is_empty or not gain > _LEAST_GAIN:
            return None
        if goal.resources.functions[worst] is not ResourceFunction.QUADRATIC:
            # a released key may let its bin's hot key weigh more than was seen: judge the table itself too
            now, then = (
                _busiest(items.view, one, speeds) for one in (table, apply(plan, table, table.from_batch))
            )
            if then > now:
                return None
        fair = float(problem.fair()[worst])
        allowed = theta(alphas(goal.alpha)[worst], table.channels)
        spread = float(before[worst].max() - before[worst].min()) / fair
        broken = (
            f"{_NAMES[worst]}: the channels differ by {spread:.3f} of the mean, {allowed:.3f} is tolerated"
        )
        reason = f"{broken}; {_outlook(found, items.labels)}"
        return replace(plan, gain=gain, reason=reason)

    def resize(self, view: LoadView, table: Table, channels: int) -> Plan:
        """The plan for another number of channels: every bin of a removed channel moves, added ones fill up.

        Without load to go by, the hash bins are evened by count and the pins stay. With the present number of
        channels it is what `propose` finds, or an empty plan.
        """
        if not 1 <= channels <= table.hash_bins:
            raise ConfigError(
                f"{channels} channels for {table.hash_bins} bins: ask for 1 to {table.hash_bins}"
            )
        empty = Plan(policy=self.name, from_version=table.version, reason="within tolerance")
        if channels == table.channels:
            return self.propose(view, table) or empty
        items = _Items.of(view.under(table), table)
        if items.total <= 0:
            moves = rescale(table, channels)
            cost = float(sum(items.view.bin_bytes.get(move.bin, 0) for move in moves))
            reason = "no load was seen: the bins are dealt by count"
            return replace(empty, moves=moves, channels=channels, cost=cost, reason=reason)
        found = self._place(items, table, channels, self._goal(), self._speeds(view, channels))
        plan = _plan(self.name, items, found, table, channels)
        return replace(plan, reason=_outlook(found, items.labels))

    def _goal(self) -> Objective:
        letters = UNDECLARED if self.resources is None else self.resources
        return Objective(resources=letters, alpha=self.alpha, sigma=self.sigma, utility=self.utility)

    def _speeds(self, view: LoadView, channels: int) -> Floats | None:
        if not self.speeds:
            return None
        speeds = 1 / np.array([max(view.row_cost_ms(channel), 1e-9) for channel in range(channels)])
        return np.asarray(speeds / speeds.mean(), dtype=np.float64)

    def _place(
        self, items: _Items, table: Table, channels: int, goal: Objective, speeds: Floats | None
    ) -> Placement:
        bin_channel = items.bin_channel
        if self.tail != "move" and channels != table.channels:
            # the builder leaves bins alone, so an added channel would get none: the paper's ring shares them
            bin_channel = bin_channel.copy()
            for move in rescale(table, channels, items.view.bin_loads(table)):
                if move.bin < table.hash_bins:
                    bin_channel[move.bin] = move.target
        return place(
            Hot(items.keys, items.key_work, items.home, items.pinned_to),
            Bins(items.bin_work, bin_channel),
            channels,
            objective=goal,
            algorithm=self.algorithm,
            tail=self.tail,
            speeds=speeds,
            unpin_below=self.unpin_below,
        )


@dataclass(frozen=True)
class _Items:
    """What can be placed: every hash bin, and every key that is pinned or hot, with its work and channel."""

    view: LoadView
    labels: Mapping[int, str]
    keys: Ints
    key_work: Floats
    home: Ints
    pinned_to: Ints
    bin_work: Floats  # not counting keys that are pinned now
    bin_rest: Floats  # not counting any hot key
    bin_channel: Ints

    @classmethod
    def of(cls, view: LoadView, table: Table) -> _Items:
        """Read a view that was made `under` this table."""
        pinned = {pin.hash: pin.bin for pin in table.pins}
        labels = {pin.hash: pin.label for pin in table.pins} | {key.hash: key.label for key in view.hot_keys}
        rows = {key.hash: key.rows for key in view.hot_keys if key.hash not in pinned}
        new = sorted(rows, key=lambda key: (-rows[key], key))
        ids = dict(zip(new, table.free_bins(len(new)), strict=True))
        trial = Plan(
            policy="", from_version=table.version, pins=tuple(Pin(key, bin) for key, bin in ids.items())
        )
        split = view.under(apply(trial, table, table.from_batch))  # each hot key's work, within its bin's
        bin_of = pinned | ids
        keys = [*pinned, *new]
        work = [max(view.bin_work.get(bin, 0.0), 0.0) for bin in range(table.hash_bins)]
        rest = [max(split.bin_work.get(bin, 0.0), 0.0) for bin in range(table.hash_bins)]
        return cls(
            view=view,
            labels=labels,
            keys=np.array(keys, dtype=np.int64),
            key_work=np.array([max(split.bin_work.get(bin_of[key], 0.0), 0.0) for key in keys], np.float64),
            home=np.array([table.home_bin(key) for key in keys], dtype=np.int64),
            pinned_to=np.array([table.channel_of.get(pinned.get(key, -1), -1) for key in keys], np.int64),
            bin_work=np.array(work, dtype=np.float64),
            bin_rest=np.array(rest, dtype=np.float64),
            bin_channel=np.array(table.assignment[: table.hash_bins], dtype=np.int64),
        )

    @property
    def total(self) -> float:
        """All the work."""
        return float(self.key_work.sum() + self.bin_rest.sum())

    @property
    def _some(self) -> Ints:
        """Which of the keys, then bins, have work at all."""
        return np.flatnonzero(np.concatenate([self.key_work, self.bin_rest]) > 0)

    def problem(self, goal: Objective, channels: int, speeds: Floats | None) -> Problem:
        """All items with work, where they are now."""
        volume = np.concatenate([self.key_work, self.bin_rest]) / self.total
        now = np.where(self.pinned_to >= 0, self.pinned_to, self.bin_channel[self.home])
        old = np.concatenate([now, self.bin_channel])
        return Problem(volume[self._some], old[self._some], channels, goal, speeds=speeds)

    def under(self, found: Placement) -> Ints:
        """The channel of every item with work under a placement; keys without a pin are where their bin is."""
        keys = [
            found.pins.get(key, int(found.bin_channel[home]))
            for key, home in zip(self.keys.tolist(), self.home.tolist(), strict=True)
        ]
        return np.concatenate([np.array(keys, dtype=np.int64), found.bin_channel])[self._some]


def _worst(problem: Problem, goal: Objective, levels: Floats) -> int | None:
    """The resource whose bound is broken worst; None when every one is within tolerance."""
    fair = problem.fair()
    worst, most = None, 1.0
    for k in goal.resources.balanced:
        allowed = theta(alphas(goal.alpha)[k], problem.channels) * float(fair[k])
        spread = float(levels[k].max() - levels[k].min())
        if allowed > 0 and spread / allowed > most:
            worst, most = k, spread / allowed
    return worst


def _busiest(view: LoadView, table: Table, speeds: Floats | None) -> float:
    work = np.zeros(table.channels)
    seen = view.under(table).bin_work
    for bin, channel in table.items():
        work[channel] += seen.get(bin, 0.0)
    return float((work if speeds is None else work / speeds).max())


def _plan(policy: str, items: _Items, found: Placement, table: Table, channels: int) -> Plan:
    """What differs between the table and a placement, moves from the fullest to the emptiest channel first.

    The cost of a new pin that moves is its part of its bin's bytes by work: too much where state is constant.
    """
    view = items.view
    key_work = dict(zip(items.keys.tolist(), items.key_work.tolist(), strict=True))
    pinned = {pin.hash: pin.bin for pin in table.pins}
    new = [key for key in items.keys.tolist() if key in found.pins and key not in pinned]
    ids = dict(zip(new, table.free_bins(len(new)), strict=True))
    target: dict[Bin, Channel] = dict(enumerate(found.bin_channel.tolist()))
    work: dict[Bin, float] = dict(enumerate(items.bin_rest.tolist()))
    source: dict[Bin, Channel] = dict(enumerate(items.bin_channel.tolist()))
    cost = 0.0
    for key, channel in found.pins.items():
        bin, home = pinned[key] if key in pinned else ids[key], table.home_bin(key)
        target[bin], work[bin] = channel, key_work[key]
        source[bin] = table.channel_of[bin if key in pinned else home]
        if key in ids and channel != source[bin] and view.bin_work.get(home, 0.0) > 0:
            cost += view.bin_bytes.get(home, 0) * key_work[key] / view.bin_work[home]
    moves = [Move(bin, source[bin], to) for bin, to in target.items() if to != source[bin]]
    load = view.channel_load
    moves.sort(key=lambda m: (load[m.target] if m.target < len(load) else 0.0) - load[m.source])
    cost += sum(view.bin_bytes.get(move.bin, 0) for move in moves)
    for key in found.unpinned:
        if target[table.home_bin(key)] != table.channel_of[pinned[key]]:
            cost += view.bin_bytes.get(pinned[key], 0)
    return Plan(
        policy=policy,
        from_version=table.version,
        moves=tuple(moves),
        pins=tuple(Pin(key, bin, items.labels.get(key, "")) for key, bin in ids.items()),
        unpins=tuple(sorted(pinned[key] for key in found.unpinned)),
        channels=None if channels == table.channels else channels,
        cost=cost,
    )


def _outlook(found: Placement, labels: Mapping[int, str]) -> str:
    """Busiest over mean before and after, what no placement beats, and the keys that no channel can hold."""
    text = (
        f"busiest over mean {found.busiest_before:.2f}, then {found.busiest_after:.2f}, "
        f"at best {found.busiest_bound:.2f}"
    )
    hot = [f"{labels.get(k.key) or k.key} ({k.share:.0%}, needs {k.ways} channels)" for k in found.too_hot]
    return f"{text}; too hot for one channel: {', '.join(hot)}" if hot else text
