"""Rebuild (Gedik's partitioning function as a policy): hot keys pinned, pins and bins balanced together.

It acts when the number of channels changes (`resize`) and when a balance bound is broken:

    max level - min level > theta * fair level        for a resource that is not constant (Eq. 15)

where a level is a channel's load of that resource divided by the channel's speed. Within the bound it
proposes nothing, so pins of keys that are no longer hot stay until the next change. Beyond it, `split`
spreads the keys that no channel can hold (if the operator can merge their pieces), `place` decides on
the other pins and on bins, and the plan is the difference from the current table. A placement that does
not relieve the busiest channel is not proposed.

Differences from the paper: the tail is measured by bin, and moved too (`tail="ignore"` is the paper's
way); a key's rows are the exact counts of the report, not those of a lossy counter. Not here: whether a
plan is worth its cost (`guard`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from headgate.control.plan import Plan, apply
from headgate.control.policy import Policy
from headgate.control.refusal import Reason, Refusal
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.policies.rebuild_items import Items, Targets, difference
from headgate.routing.balance import Floats, ResourceFunction, alphas, theta
from headgate.routing.builders.placement import Bins, Hot, Tail, place
from headgate.routing.builders.problem import Objective, Problem
from headgate.routing.builders.rebuild import builder
from headgate.routing.builders.too_hot import HotKey, split, too_hot
from headgate.routing.lower_bound import busiest_bound
from headgate.routing.table import Table, lost_pieces, rescale

UNDECLARED = "CLL"
"""The resource functions if no operator has declared any."""

_NAMES = ("state", "computation", "communication")
_LEAST_GAIN = 1e-6  # more than rounding errors, or equal placements would alternate forever


@dataclass(frozen=True)
class Rebuild(Policy):
    """Pins the hot keys and places them with the bins so that every resource is within `alpha`.

    `algorithm` is `redist`, `readj` or `scan`; `utility` weighs balance against migration (A, APM,
    APLM, ATM, ATLM). `alpha` is the tolerated ratio of the fullest to the emptiest channel, `sigma` the
    part of the tolerance reserved for keys without a pin. `resources` are three letters for state,
    computation and communication (C, L or Q, by the key's frequency); None takes what the operator
    declares. `tail` says what is done with the hash bins: `ignore`, `see` or `move`. A key is unpinned
    when its share falls below `unpin_below` times the share at which keys are pinned. With `speeds` a
    channel whose rows cost more gets less work. `split` spreads a key that no channel can hold over
    several; None: if the operator can merge the pieces.
    """

    algorithm: str = "redist"
    utility: str = "APM"
    alpha: float | tuple[float, float, float] = 1.1
    sigma: float = 0.1
    resources: str | None = None
    tail: Tail = "move"
    unpin_below: float = 0.5
    speeds: bool = False
    split: bool | None = None
    whole: str = ""  # why the operator's keys cannot be split

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

    def fitted(self, resources: str, *, whole: str = "") -> Self:
        """This policy for an operator with these resource functions; `whole` says why its keys cannot be split.

        Settings that were given explicitly stay.

        >>> Rebuild().fitted("LQL").resources, Rebuild(resources="CCL").fitted("LQL").resources
        ('LQL', 'CCL')
        """
        if self.split and whole:
            raise ConfigError(
                f"rebuild: split=True, but {whole}; omit split, or use an operator that can merge"
            )
        return replace(
            self,
            resources=resources if self.resources is None else self.resources,
            split=not whole if self.split is None else self.split,
            whole=whole,
        )

    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """Pins, unpins and moves that restore a violated bound; None if no bound is violated.

        If nothing helps, because a key is too hot for any channel and cannot be split, the result is a
        refusal that names the key. Law: for the resource whose bound is violated most, the load of the
        busiest channel falls. Cost: one `place`, which grows with the tracked keys and the bins;
        within tolerance one pass.
        """
        goal, speeds = self._goal(), self._speeds(view, table.channels)
        items = Items.from_view(view.under(table), table)
        if table.channels == 1 or items.total <= 0:
            return None
        problem = items.problem(items.present(table), goal, table.channels, speeds)
        before = problem.levels(problem.old)
        worst = _worst(problem, goal, before)
        if worst is None:
            return None
        targets = self._targets(items, table, table.channels, goal, speeds)
        plan = difference(self.name, items, targets, table, table.channels, goal)
        then = items.problem(items.under(targets), goal, table.channels, speeds)
        gain = 1 - float(then.levels(then.old)[worst].max() / before[worst].max())
        after = None if plan.is_empty else apply(plan, table, table.from_batch)
        # an unpinned key may increase the measured weight of its bin's hot key, so judge the table itself too
        linear = goal.resources.functions[worst] is not ResourceFunction.QUADRATIC
        if (
            after is None
            or not gain > _LEAST_GAIN
            or (linear and _busiest(items.view, after, speeds) > _busiest(items.view, table, speeds))
        ):
            return self._stuck(items, self._too_hot(items, targets, table.channels, speeds), table.channels)
        fair = float(problem.fair()[worst])
        allowed = theta(alphas(goal.alpha)[worst], table.channels)
        spread = float(before[worst].max() - before[worst].min()) / fair
        broken = (
            f"{_NAMES[worst]}: the channels differ by {spread:.3f} of the mean, {allowed:.3f} is tolerated"
        )
        outlook = self._outlook(items, targets, table, after, speeds)
        return replace(plan, gain=gain, reason=f"{broken}; {outlook}")

    def resize(self, view: LoadView, table: Table, channels: int) -> Plan:
        """The plan for another number of channels: bins leave removed channels and fill added ones.

        Without measured load the hash bins are evened by count and the pins stay. For the current
        number of channels it is the plan of `propose`, or an empty one.
        """
        if not 1 <= channels <= table.hash_bins:
            raise ConfigError(
                f"{channels} channels for {table.hash_bins} bins: ask for 1 to {table.hash_bins}"
            )
        empty = Plan(policy=self.name, from_version=table.version, reason="within tolerance")
        if channels == table.channels:
            plan = self.propose(view, table)
            return plan if isinstance(plan, Plan) else empty
        items = Items.from_view(view.under(table), table)
        if items.total <= 0:
            moves = rescale(table, channels)
            cost = float(sum(items.view.bin_bytes.get(move.bin, 0) for move in moves))
            reason = "no load was measured: the bins are dealt by count"
            lost = lost_pieces(table, channels)
            return replace(empty, moves=moves, unpins=lost, channels=channels, cost=cost, reason=reason)
        goal, speeds = self._goal(), self._speeds(view, channels)
        targets = self._targets(items, table, channels, goal, speeds)
        plan = difference(self.name, items, targets, table, channels, goal)
        after = apply(plan, table, table.from_batch)
        return replace(plan, reason=self._outlook(items, targets, table, after, speeds))

    def _goal(self) -> Objective:
        letters = UNDECLARED if self.resources is None else self.resources
        return Objective(resources=letters, alpha=self.alpha, sigma=self.sigma, utility=self.utility)

    def _speeds(self, view: LoadView, channels: int) -> Floats | None:
        if not self.speeds:
            return None
        speeds = 1 / np.array([max(view.row_cost_ms(channel), 1e-9) for channel in range(channels)])
        return np.asarray(speeds / speeds.mean(), dtype=np.float64)

    def _targets(
        self, items: Items, table: Table, channels: int, goal: Objective, speeds: Floats | None
    ) -> Targets:
        splits: dict[int, tuple[int, ...]] = {}
        if self.split:
            shares = items.key_work / items.total
            splits = split(
                items.keys, shares, items.pieces_on(table), channels=channels, objective=goal, speeds=speeds
            )
        rest = np.array([key not in splits for key in items.keys.tolist()], dtype=bool)
        bin_work = items.bin_work.copy()
        leaving = ~rest & (items.pinned_to < 0)
        np.subtract.at(bin_work, items.home[leaving], items.key_work[leaving])
        fixed = np.zeros(channels)
        for key, work in zip(items.keys[~rest].tolist(), items.key_work[~rest].tolist(), strict=True):
            fixed[list(splits[key])] += work / len(splits[key])
        placement = place(
            Hot(items.keys[rest], items.key_work[rest], items.home[rest], items.pinned_to[rest]),
            Bins(np.maximum(bin_work, 0.0), items.bin_channel, items.bin_keys),
            channels,
            objective=goal,
            algorithm=self.algorithm,
            tail=self.tail,
            speeds=speeds,
            unpin_below=self.unpin_below,
            fixed=fixed,
        )
        return Targets(pins=placement.pins, splits=splits, bin_channel=placement.bin_channel)

    def _stuck(self, items: Items, stuck: tuple[HotKey, ...], channels: int) -> Refusal | None:
        """The result if nothing helps: a named refusal if a hot key is the reason, otherwise None."""
        if not stuck:
            return None
        why = self.whole or "split=True would let it be split, where the operator can merge"
        return Refusal(
            Reason.key_too_hot,
            f"{_named(items, stuck)} of the rows, where a channel's fair share is {1 / channels:.1%}: {why}",
        )

    def _outlook(
        self, items: Items, targets: Targets, table: Table, after: Table, speeds: Floats | None
    ) -> str:
        """Busiest over mean before, after and at best, and the keys that are or should be split."""
        ways = np.array([max(1, len(targets.splits.get(key, ()))) for key in items.keys.tolist()], np.int64)
        pieces = np.repeat(items.key_work / ways, ways)
        rest = max(0.0, items.total - float(pieces.sum()))
        bound = busiest_bound(pieces, after.channels, rest=rest, speeds=speeds)
        before = _busiest(items.view, table, speeds if table.channels == after.channels else None)
        text = f"busiest over mean {before:.2f}, then {_busiest(items.view, after, speeds):.2f}, at best {bound:.2f}"
        if targets.splits:
            names = [f"{items.labels.get(key) or key} in {len(on)}" for key, on in targets.splits.items()]
            text += f"; split: {', '.join(names)}"
        stuck = self._too_hot(items, targets, after.channels, speeds)
        return f"{text}; too hot for one channel: {_named(items, stuck)}" if stuck else text

    def _too_hot(
        self, items: Items, targets: Targets, channels: int, speeds: Floats | None
    ) -> tuple[HotKey, ...]:
        """The keys that no channel can hold and that are not split."""
        left = np.array([0.0 if key in targets.splits else 1.0 for key in items.keys.tolist()])
        shares = left * items.key_work / items.total
        return too_hot(items.keys, shares, channels=channels, objective=self._goal(), speeds=speeds)


def _named(items: Items, keys: tuple[HotKey, ...]) -> str:
    return ", ".join(
        f"{items.labels.get(hot.key) or hot.key} ({hot.share:.0%}, needs {hot.ways} channels)" for hot in keys
    )


def _worst(problem: Problem, goal: Objective, levels: Floats) -> int | None:
    """The resource whose bound is violated most; None if every resource is within tolerance."""
    fair = problem.fair()
    worst, most = None, 1.0
    for k in goal.resources.balanced:
        allowed = theta(alphas(goal.alpha)[k], problem.channels) * float(fair[k])
        spread = float(levels[k].max() - levels[k].min())
        if allowed > 0 and spread / allowed > most:
            worst, most = k, spread / allowed
    return worst


def _busiest(view: LoadView, table: Table, speeds: Floats | None) -> float:
    """The work of the busiest channel, relative to its speed, divided by the mean."""
    work = np.zeros(table.channels)
    seen = view.under(table).bin_work
    for bin, channel in table.items():
        work[channel] += seen.get(bin, 0.0)
    levels = work if speeds is None else work / speeds
    return float(levels.max()) * table.channels / float(work.sum()) if work.any() else 1.0
