"""Bins and pins balanced together: the builders as a stage uses them.

The paper balances the pinned keys among themselves and leaves the rest to the ring (PART-E24: rho ignores
the tail). A stage measures the load of every bin, so it can do better. ``tail`` says how far it goes:

* ``"ignore"``: as in the paper. Bins stay, except that those of a removed channel are spread over the
  others and that an added channel, one without a bin, takes its share from the fullest, as the paper's
  ring gives it one. Pins are placed among themselves.
* ``"see"``: the same, with pins on top of the measured load of the bins.
* ``"move"`` (default): like "see", and then bins and pins together are readjusted until every resource is
  within tolerance (`level`), in as few steps as possible. A table that is already within tolerance is not
  changed, so steady load causes no moves.

Shares are shares of the rows in the smoothed recent past. Not here: smoothing, when to act, and what
a move costs in time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from headgate.routing.balance import (
    Floats,
    Ints,
    channel_loads,
    imbalance_ratios,
    tracking_threshold,
)
from headgate.routing.builders.level import level
from headgate.routing.builders.problem import Objective, Problem
from headgate.routing.builders.rebuild import Builder, builder
from headgate.routing.builders.too_hot import HotKey, too_hot
from headgate.routing.lower_bound import busiest_bound

Tail = Literal["ignore", "see", "move"]


@dataclass(frozen=True)
class Hot:
    """Tracked hot keys: hash, rows (or any weight), hash bin, and current channel if pinned (-1 if not)."""

    key: npt.NDArray[np.int64]
    rows: Floats
    bin: Ints
    pinned_to: Ints


@dataclass(frozen=True)
class Bins:
    """The bins: rows (without keys that are pinned now), current channel, and distinct keys if known."""

    rows: Floats
    channel: Ints
    keys: Floats | None = None


@dataclass(frozen=True)
class Placement:
    """A proposed placement. ``pins`` maps key hash to channel; ``bin_channel`` has every bin's channel.

    ``busiest_before`` and ``busiest_after`` are the busiest channel's rows divided by the mean
    (relative to its speed), and ``busiest_bound`` is the lowest value that is possible without
    splitting keys. ``moved_state`` is the share of state that changes channel.
    """

    pins: dict[int, int]
    bin_channel: Ints
    unpinned: tuple[int, ...]
    too_hot: tuple[HotKey, ...]
    busiest_before: float
    busiest_after: float
    busiest_bound: float
    ratio_after: float
    moved_state: float
    moved_bins: int
    moved_pins: int
    channel_rows: Floats = field(repr=False)


def place(
    hot: Hot,
    bins: Bins,
    channels: int,
    *,
    objective: Objective | None = None,
    algorithm: str = "redist",
    tail: Tail = "move",
    speeds: Floats | None = None,
    unpin_below: float = 0.5,
    fixed: Floats | None = None,
    max_steps: int = 2000,
) -> Placement:
    """Decide pins and bins for ``channels`` channels. ``fixed`` has the rows that each has in any case.

    Keys whose share is at least delta (Eq. 17) are pinned; a pinned key is unpinned when its share falls
    below ``unpin_below * delta``, so that keys near the threshold do not change back and forth. Bins of
    removed channels are placed first, the largest on the least loaded channel. ``max_steps`` bounds the
    readjustment. With one channel everything is placed there, without pins.

    >>> hot = Hot(np.array([11]), np.array([40.0]), np.array([0]), np.array([-1]))
    >>> bins = Bins(np.array([45.0, 5.0, 20.0, 20.0]), np.array([0, 0, 1, 1]))
    >>> plan = place(hot, bins, 2)
    >>> plan.pins, plan.bin_channel.tolist(), round(plan.busiest_after, 2)
    ({11: 0}, [1, 0, 1, 1], 1.0)
    """
    goal = Objective() if objective is None else objective
    build = builder(algorithm)
    if tail not in ("ignore", "see", "move"):
        raise ValueError(f"tail is 'ignore', 'see' or 'move', got {tail!r}")
    view = _view(hot, bins, channels, goal, speeds, unpin_below, fixed)
    bin_channel = _spread_orphans(view, channels)
    if tail == "ignore":
        bin_channel = _fill_added(view, bin_channel, view.fixed)
    present = np.where(view.pin_old >= 0, view.pin_old, bin_channel[view.pin_bin])
    if tail == "move":
        pins, bin_channel = _together(view, channels, present, bin_channel, goal, build, max_steps)
    elif tail == "ignore":
        pins = build(_pin_problem(view, channels, goal, present, view.fixed_loads)).channel
    else:
        seen = channel_loads(view.bin_loads, bin_channel, channels)
        pins = build(_pin_problem(view, channels, goal, present, view.fixed_loads + seen)).channel
        held = np.bincount(pins, weights=view.pin_share, minlength=channels)
        bin_channel = _fill_added(view, bin_channel, view.fixed + held)
        seen = channel_loads(view.bin_loads, bin_channel, channels)
        pins = level(_pin_problem(view, channels, goal, pins, view.fixed_loads + seen)).channel
    return _summary(view, pins, bin_channel, channels, goal)


@dataclass(frozen=True)
class _View:
    """The input as shares: hot keys to be pinned, keys to be unpinned, and bins without the pinned keys."""

    keys: npt.NDArray[np.int64]
    pin_share: Floats
    pin_bin: Ints
    pin_old: Ints  # current channel, by pin or by bin; -1 if it is removed
    was: Ints  # the same, without regard to removed channels
    released: npt.NDArray[np.int64]
    released_state: Floats
    released_bin: Ints
    released_from: Ints
    bin_share: Floats
    bin_loads: Floats
    bin_old: Ints
    speeds: Floats
    fixed: Floats
    fixed_loads: Floats
    total: float


def _view(
    hot: Hot,
    bins: Bins,
    channels: int,
    goal: Objective,
    speeds: Floats | None,
    unpin_below: float,
    fixed: Floats | None,
) -> _View:
    bin_rows = np.array(bins.rows, dtype=np.float64)
    bin_old = np.asarray(bins.channel, dtype=np.int64)
    if bin_rows.shape != bin_old.shape or not bin_rows.size:
        raise ValueError(
            f"rows {bin_rows.shape} and channels {bin_old.shape} of the bins must have one entry for each bin"
        )
    keys, rows = np.asarray(hot.key, np.int64), np.asarray(hot.rows, np.float64)
    home, pinned_to = np.asarray(hot.bin, np.int64), np.asarray(hot.pinned_to, np.int64)
    pinned = pinned_to >= 0
    fixed_rows = np.zeros(channels) if fixed is None else np.asarray(fixed, dtype=np.float64)
    if fixed_rows.shape != (channels,):
        raise ValueError(f"fixed must have a number for each of {channels} channels, got {fixed_rows}")
    total = float(bin_rows.sum() + rows[pinned].sum() + fixed_rows.sum())
    share = rows / total if total > 0 else np.zeros_like(rows)
    delta = 1.0
    if channels > 1:
        domain = max(1, int(bins.keys.sum()) if bins.keys is not None else bin_rows.shape[0])
        delta = tracking_threshold(
            goal.resources, channels, alpha=goal.alpha, sigma=goal.sigma, domain=domain
        )
    keep = (share > 0) & (share >= np.where(pinned, unpin_below, 1.0) * delta) & (channels > 1)
    let_go = pinned & ~keep
    np.subtract.at(bin_rows, home[keep & ~pinned], rows[keep & ~pinned])
    np.add.at(bin_rows, home[let_go], rows[let_go])
    bin_share = np.maximum(bin_rows, 0.0) / total if total > 0 else np.zeros_like(bin_rows)
    was = np.where(pinned, pinned_to, bin_old[home])[keep]
    speed = np.ones(channels) if speeds is None else np.asarray(speeds, dtype=np.float64)
    if speed.shape != (channels,) or speed.min() <= 0:
        raise ValueError(f"speeds must be {channels} positive numbers, got {speed}")
    return _View(
        keys=keys[keep],
        pin_share=share[keep],
        pin_bin=home[keep],
        pin_old=np.where(was < channels, was, -1),
        was=was,
        released=keys[let_go],
        released_state=goal.resources.state(share[let_go]),
        released_bin=home[let_go],
        released_from=pinned_to[let_go],
        bin_share=bin_share,
        bin_loads=_bin_loads(bin_share, bins.keys, goal),
        bin_old=bin_old,
        speeds=speed / speed.mean(),
        fixed=fixed_rows / total if total > 0 else fixed_rows,
        fixed_loads=goal.resources.loads(fixed_rows / total) * (fixed_rows > 0)
        if total > 0
        else np.zeros((3, channels)),
        total=total,
    )


def _bin_loads(share: Floats, keys: Floats | None, goal: Objective) -> Floats:
    """Loads of bins: a bin of n keys counts as n equal ones (the smallest possible quadratic load)."""
    count = np.ones_like(share) if keys is None else np.maximum(np.asarray(keys, dtype=np.float64), 1.0)
    return goal.resources.loads(share / count) * count


def _spread_orphans(view: _View, channels: int) -> Ints:
    """Give every bin of a removed channel to the least loaded channel, largest bin first."""
    channel = view.bin_old.copy()
    orphans = np.flatnonzero(channel >= channels)
    stay = channel < channels
    held = np.bincount(channel[stay], weights=view.bin_share[stay], minlength=channels) + view.fixed
    filled = held / view.speeds
    for at in orphans[np.argsort(-view.bin_share[orphans], kind="stable")]:
        target = int(np.argmin(filled))
        channel[at] = target
        filled[target] += max(view.bin_share[at], 1e-12) / view.speeds[target]
    return channel


def _fill_added(view: _View, channel: Ints, other: Floats) -> Ints:
    """Give every channel without a bin its share of the bins, from the fullest channels; no other bin moves.

    ``other`` is what each channel holds beside bins. A bin moves only to where the level is then lower than
    it was on its old channel. So a channel is left without load only if no other can give it a bin: each
    has one thing, or bins without rows.
    """
    channels, channel, weight = other.shape[0], channel.copy(), np.maximum(view.bin_share, 1e-12)
    added = np.flatnonzero(np.bincount(channel, minlength=channels) == 0)
    filled = (np.bincount(channel, weights=weight, minlength=channels) + other) / view.speeds
    fair = float((filled * view.speeds).sum() / view.speeds.sum())
    gives = np.bincount(channel, minlength=channels) > 0
    while added.size and gives.any():
        target = int(added[np.argmin(filled[added])])
        if filled[target] >= fair:
            break
        donor = int(np.flatnonzero(gives)[np.argmax(filled[gives])])
        bins = np.flatnonzero(channel == donor)
        after = filled[target] + weight[bins] / view.speeds[target]
        lower = after < filled[donor] * (1 - 1e-9)  # sums are off by a digit, and no donor may become empty
        bins, after = bins[lower], after[lower]
        if not bins.size:
            gives[donor] = False
            continue
        fits = after <= fair
        moved = bins[fits][np.argmax(after[fits])] if fits.any() else bins[np.argmin(after)]
        channel[moved] = target
        filled[donor] -= weight[moved] / view.speeds[donor]
        filled[target] += weight[moved] / view.speeds[target]
    return channel


def _pin_problem(view: _View, channels: int, goal: Objective, start: Ints, base: Floats) -> Problem:
    return Problem(view.pin_share, view.pin_old, channels, goal, start=start, base=base, speeds=view.speeds)


def _together(
    view: _View,
    channels: int,
    present: Ints,
    bin_channel: Ints,
    goal: Objective,
    build: Builder,
    max_steps: int,
) -> tuple[Ints, Ints]:
    """Balance pins and bins, from where they are or from a rebuild of the pins: the better utility wins."""
    size = view.pin_share.shape[0]
    loaded = np.flatnonzero(view.bin_share > 0)
    volume = np.concatenate([view.pin_share, view.bin_share[loaded]])
    loads = np.concatenate([goal.resources.loads(view.pin_share), view.bin_loads[:, loaded]], axis=1)
    bin_old = np.where(view.bin_old[loaded] < channels, view.bin_old[loaded], -1)

    def problem(pins: Ints) -> Problem:
        return Problem(
            volume,
            np.concatenate([view.pin_old, bin_old]),
            channels,
            goal,
            loads=loads,
            start=np.concatenate([pins, bin_channel[loaded]]),
            base=view.fixed_loads,
            speeds=view.speeds,
        )

    first = problem(present)
    assert first.start is not None
    if channels == 1 or first.worst(first.start) <= 1.0:
        return present, bin_channel
    best = level(first, max_steps=max_steps)
    if size:
        base = channel_loads(view.bin_loads, bin_channel, channels) + view.fixed_loads
        rebuilt = build(_pin_problem(view, channels, goal, present, base)).channel
        other = level(problem(rebuilt), max_steps=max_steps)
        if goal.utility(other.rho, other.gamma) < goal.utility(best.rho, best.gamma):
            best = other
    moved = bin_channel.copy()
    moved[loaded] = best.channel[size:]
    return best.channel[:size], moved


def _summary(view: _View, pins: Ints, bin_channel: Ints, channels: int, goal: Objective) -> Placement:
    width = max(channels, int(view.bin_old.max()) + 1, int(view.was.max(initial=0)) + 1)
    before = np.bincount(view.bin_old, weights=view.bin_share, minlength=width)
    before = before + np.bincount(view.was, weights=view.pin_share, minlength=width)
    before = before + np.pad(view.fixed, (0, width - channels))
    after = np.bincount(bin_channel, weights=view.bin_share, minlength=channels) + view.fixed
    after += np.bincount(pins, weights=view.pin_share, minlength=channels)
    moved = float(goal.resources.state(view.pin_share)[pins != view.was].sum())
    moved += float(view.bin_loads[0][bin_channel != view.bin_old].sum())
    moved += float(view.released_state[bin_channel[view.released_bin] != view.released_from].sum())
    now = after / view.speeds
    old_level = before / view.speeds if width == channels else before
    return Placement(
        pins=dict(zip(view.keys.tolist(), pins.tolist(), strict=True)),
        bin_channel=bin_channel,
        unpinned=tuple(view.released.tolist()),
        too_hot=too_hot(view.keys, view.pin_share, channels=channels, objective=goal, speeds=view.speeds),
        busiest_before=float(old_level.max() * width / before.sum()) if before.any() else 1.0,
        busiest_after=float(now.max() * channels / after.sum()) if after.any() else 1.0,
        busiest_bound=busiest_bound(
            view.pin_share,
            channels,
            rest=float(view.bin_share.sum()),
            speeds=view.speeds,
            fixed=view.fixed,
        ),
        ratio_after=float(imbalance_ratios(now[None, :])[0]),
        moved_state=moved,
        moved_bins=int((bin_channel != view.bin_old).sum()),
        moved_pins=int((pins != view.was).sum()),
        channel_rows=np.asarray(after * view.total, dtype=np.float64),
    )
