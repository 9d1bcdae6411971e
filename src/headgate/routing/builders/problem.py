"""The input and the result of every builder (Gedik, section 4.2: the steps common to all three).

A `Problem` is a set of items to place on N channels. In the paper an item is a tracked key; here an
item may also be an ordinary bin. Channels are indices 0..N-1 without gaps; `rebuild` and
`placement` translate.

Not here: which keys are worth tracking (`balance.tracking_threshold`), and the algorithms themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headgate.routing.balance import (
    Floats,
    Ints,
    Resources,
    Utility,
    alphas,
    balance_penalty,
    channel_loads,
    migration_penalty,
    theta,
)


@dataclass(frozen=True)
class Objective:
    """What a good placement is: resource functions, tolerated imbalance, and the weight of migration.

    ``alpha`` is the tolerated max/min load ratio (one number, or one for each of state, computation,
    communication). ``sigma`` is the part of that tolerance reserved for keys without a pin. ``thirds``
    has the geometric mean over the resources as printed, with exponent 1/3 even if constant ones are
    omitted from it; otherwise the exponent is one over their number (PART-E14). The other defaults are
    the paper's.

    >>> Objective(resources="LQL", alpha=1.1).resources.computation.value
    'Q'
    """

    resources: Resources = Resources()  # noqa: RUF009 (frozen, so sharing it is safe)
    alpha: float | Sequence[float] = 1.2
    sigma: float = 0.1
    utility: Utility = Utility.APM
    thirds: bool = False

    def __init__(
        self,
        *,
        resources: Resources | str = "LCL",
        alpha: float | Sequence[float] = 1.2,
        sigma: float = 0.1,
        utility: Utility | str = Utility.APM,
        thirds: bool = False,
    ) -> None:
        """Read the letters of ``resources`` and the name of ``utility``, and check the ranges."""
        known = Resources.parse(resources) if isinstance(resources, str) else resources
        if isinstance(utility, str):
            if utility.upper() not in Utility.__members__:
                raise ValueError(f"utility is one of {', '.join(Utility.__members__)}; got {utility!r}")
            utility = Utility[utility.upper()]
        if min(alphas(alpha)) <= 1:
            raise ValueError(
                f"alpha must be above 1, because no placement is exactly even; got {alpha}, try 1.1"
            )
        if not 0 < sigma <= 1:
            raise ValueError(f"sigma must lie in (0, 1], got {sigma}")
        object.__setattr__(self, "resources", known)
        object.__setattr__(self, "alpha", alpha if isinstance(alpha, int | float) else tuple(alpha))
        object.__setattr__(self, "sigma", float(sigma))
        object.__setattr__(self, "utility", utility)
        object.__setattr__(self, "thirds", thirds)


@dataclass(frozen=True)
class Problem:
    """Items to place on ``channels`` channels.

    ``volume`` is an item's frequency; ``loads`` is its load on each resource, shape (3, items), by
    default the resource functions of the volume. ``old`` is the item's current channel, -1 if that
    channel is removed; ``start`` is where `readj` begins (default: the current channel, or 0 if that is
    removed). ``moved_state`` and ``dropped_state`` are for keys that lose their pin: the part of their
    state that moves, and all of their state. ``base`` is load that stays where it is, shape (3,
    channels); ``speeds`` divides the load of each channel. The paper has neither.
    """

    volume: Floats
    old: Ints
    channels: int
    objective: Objective = field(default_factory=Objective)
    loads: Floats | None = None
    start: Ints | None = None
    moved_state: float = 0.0
    dropped_state: float = 0.0
    base: Floats | None = None
    speeds: Floats | None = None

    def __post_init__(self) -> None:
        """Fill in the defaults and refuse shapes that do not fit."""
        volume = np.ascontiguousarray(self.volume, dtype=np.float64)
        old = np.ascontiguousarray(self.old, dtype=np.int64)
        items, channels = volume.shape[0], self.channels
        if channels < 1:
            raise ValueError(f"channels must be at least 1, got {channels}")
        if items and not (volume.min() > 0 and np.isfinite(volume.max())):
            raise ValueError("every item needs a positive, finite volume; omit keys without rows")
        if old.shape != (items,) or (items and old.max() >= channels):
            raise ValueError(
                f"old needs one channel below {channels} for each of {items} items; -1 if it is removed"
            )
        start = np.maximum(old, 0) if self.start is None else np.asarray(self.start, dtype=np.int64)
        if start.shape != (items,) or (items and not 0 <= start.min() <= start.max() < channels):
            raise ValueError(f"start needs one channel in 0..{channels - 1} for each of {items} items")
        loads = (
            self.objective.resources.loads(volume) if self.loads is None else np.asarray(self.loads, float)
        )
        base = np.zeros((3, channels)) if self.base is None else np.asarray(self.base, float)
        speeds = np.ones(channels) if self.speeds is None else np.asarray(self.speeds, float)
        if loads.shape != (3, items) or base.shape != (3, channels) or speeds.shape != (channels,):
            raise ValueError(
                f"loads {loads.shape}, base {base.shape}, speeds {speeds.shape} do not fit {items} items "
                f"on {channels} channels"
            )
        if speeds.min() <= 0:
            raise ValueError(f"speeds must be positive, got {speeds.min()}")
        for name, value in (
            ("volume", volume),
            ("old", old),
            ("start", start.astype(np.int64)),
            ("loads", np.ascontiguousarray(loads)),
            ("base", np.ascontiguousarray(base)),
            ("speeds", speeds / speeds.mean()),
        ):
            object.__setattr__(self, name, value)

    @property
    def considered_state(self) -> float:
        """The state of all items tracked before or after (D_a of Eq. 18)."""
        assert self.loads is not None
        return float(self.loads[0].sum()) + self.dropped_state

    def levels(self, channel: Ints) -> Floats:
        """Return the load of each resource on each channel, divided by the channel's speed."""
        assert self.loads is not None
        assert self.base is not None
        assert self.speeds is not None
        return (channel_loads(self.loads, channel, self.channels) + self.base) / self.speeds

    def fair(self) -> Floats:
        """Return the level of each resource if all channels were equally loaded for their speed."""
        assert self.loads is not None
        assert self.base is not None
        fair: Floats = (self.loads.sum(axis=1) + self.base.sum(axis=1)) / self.channels
        return fair

    def rho(self, channel: Ints) -> float:
        """Return the balance penalty of a placement, computed the slow way."""
        if self.channels == 1:
            return 0.0
        goal = self.objective
        return balance_penalty(
            self.levels(channel), goal.resources, goal.alpha, mean=self.fair(), thirds=goal.thirds
        )

    def worst(self, channel: Ints) -> float:
        """Return the largest rho of one resource: at most 1 means that every resource is within tolerance."""
        levels, fair = self.levels(channel), self.fair()
        worst = 0.0
        for k in self.objective.resources.balanced:
            allowed = theta(alphas(self.objective.alpha)[k], self.channels) * float(fair[k])
            if allowed > 0:
                worst = max(worst, float(levels[k].max() - levels[k].min()) / allowed)
        return worst

    def moved(self, channel: Ints) -> float:
        """Return the state that a placement moves, keys that lose their pin included."""
        assert self.loads is not None
        return float(self.loads[0][channel != self.old].sum()) + self.moved_state

    def gamma(self, channel: Ints) -> float:
        """Return the migration penalty of a placement (Eq. 18)."""
        return migration_penalty(self.moved(channel), self.considered_state, self.channels)

    def pack(self) -> Packed:
        """Return the arrays for the kernels: equal resources are merged, constant ones omitted."""
        assert self.loads is not None
        assert self.base is not None
        assert self.speeds is not None
        wanted = alphas(self.objective.alpha)
        rows: list[int] = []
        counts: list[int] = []
        for k in self.objective.resources.balanced:
            for place, other in enumerate(rows):
                if (
                    wanted[k] == wanted[other]
                    and np.array_equal(self.loads[k], self.loads[other])
                    and np.array_equal(self.base[k], self.base[other])
                ):
                    counts[place] += 1
                    break
            else:
                rows.append(k)
                counts.append(1)
        if self.objective.thirds:
            counts.append(3 - sum(counts))  # after the resources: constant ones, whose factor is 1
        elif len(rows) == 1:
            counts = [1]  # the geometric mean of equal factors is the factor
        considered = self.considered_state
        return Packed(
            loads=np.ascontiguousarray(self.loads[rows].T),
            base=np.ascontiguousarray((self.base[rows] / self.speeds).T),
            totals=self.base[rows].sum(axis=1),
            inverse_speed=1 / self.speeds,
            thetas=np.array([theta(wanted[k], self.channels) for k in rows]),
            counts=np.array(counts, dtype=np.int64),
            state=np.ascontiguousarray(self.loads[0]),
            ideal_state=considered / self.channels if considered > 0 else 1.0,
        )


@dataclass(frozen=True)
class Packed:
    """A problem as kernels see it; loads are (items, resources), base (channels, resources).

    ``counts`` says how often each resource is a factor of the mean; one more entry may follow, for
    factors of 1.
    """

    loads: Floats
    base: Floats
    totals: Floats
    inverse_speed: Floats
    thetas: Floats
    counts: Ints
    state: Floats
    ideal_state: float


@dataclass(frozen=True)
class Assignment:
    """Where a builder put each item, and the cost of that.

    ``moved_state`` is the state that changes channel, including keys that lose their pin; ``rho_trace``
    is the balance penalty before and after every readjustment (`readj` only).
    """

    channel: Ints
    rho: float
    gamma: float
    moved_state: float
    rho_trace: tuple[float, ...] = ()

    @property
    def steps(self) -> int:
        """The number of readjustments."""
        return max(0, len(self.rho_trace) - 1)


def settle(problem: Problem, channel: Ints, *, moved: float, rho_trace: tuple[float, ...] = ()) -> Assignment:
    """Return the assignment of a finished build."""
    return Assignment(
        channel=channel,
        rho=problem.rho(channel) if channel.size else 0.0,
        gamma=migration_penalty(moved, problem.considered_state, problem.channels),
        moved_state=moved,
        rho_trace=rho_trace,
    )
