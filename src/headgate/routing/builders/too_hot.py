"""Keys that are too hot for any channel: the imbalance that they force, and over how many channels to split.

This goes beyond the paper, which only observes that balance cannot be reached at high skew (its b stays
above 1 at z = 1). A key that alone exceeds what a channel may hold at the tolerated imbalance cannot be
placed well anywhere. Here that is a number (`imbalance_bound`), a decision (`too_hot`) and the channels
of the pieces (`split`). Operators that support it merge what the pieces computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.routing.balance import Floats, alphas, theta
from headgate.routing.builders.problem import Objective


@dataclass(frozen=True)
class HotKey:
    """A key that no channel can hold: ``share`` of all rows, to be split over ``ways`` channels."""

    key: int
    share: float
    ways: int


def imbalance_bound(loads: Floats, total: float, channels: int) -> float:
    """Return a lower bound of max/min load over *every* placement, from the loads of the largest items.

    The j largest items are on at most j channels, so some other channel holds at most (total - their
    sum) / (N - j), while the busiest holds at least the largest item and at least the mean. The bound
    is infinite if nothing is left for that other channel.

    >>> round(imbalance_bound(np.array([0.5, 0.1]), 1.0, 4), 2)
    3.0
    """
    if channels == 1 or total <= 0:
        return 1.0
    top = np.sort(np.asarray(loads, dtype=np.float64))[::-1][: channels - 1]
    sums = np.concatenate([[0.0], np.cumsum(top)])
    rest = np.maximum(total - sums, 0.0) / (channels - np.arange(sums.shape[0]))
    busiest = max(float(top[0]) if top.size else 0.0, total / channels)
    least = float(rest.min())
    return busiest / least if least > 1e-15 * total else float("inf")


def too_hot(
    keys: npt.NDArray[np.int64],
    shares: Floats,
    *,
    channels: int,
    objective: Objective,
    speeds: Floats | None = None,
) -> tuple[HotKey, ...]:
    """Return the keys whose load alone exceeds what a channel may hold, hottest first.

    A channel may hold (1 + theta) times its fair share. ``ways`` is the smallest number of equal pieces
    that fit the fastest channels, and at most the number of channels. Quadratic computation is judged
    by rows too: a piece has 1/ways of the rows.

    >>> too_hot(np.array([7, 8]), np.array([0.4, 0.1]), channels=8, objective=Objective())
    (HotKey(key=7, share=0.4, ways=3),)
    """
    if channels == 1:
        return ()
    speed = _relative(speeds, channels)
    fair = np.sort(speed)[::-1]
    allowed = _allowed(objective, channels)
    hot = []
    for at in np.argsort(-shares, kind="stable"):
        share = float(shares[at])
        if share <= allowed * fair[0]:
            break
        fits = [w for w in range(2, channels + 1) if share / w <= allowed * fair[w - 1]]
        hot.append(HotKey(int(keys[at]), share, fits[0] if fits else channels))
    return tuple(hot)


def split(
    keys: npt.NDArray[np.int64],
    shares: Floats,
    present: Sequence[Sequence[int]],
    *,
    channels: int,
    objective: Objective,
    speeds: Floats | None = None,
    keep_above: float = 0.5,
) -> dict[int, tuple[int, ...]]:
    """Return, for each key that is too hot, the channels over which to spread it in equal pieces.

    ``present`` has the current channels of each key's pieces. A split key stays split until its
    share falls below ``keep_above`` of what one channel may hold; it keeps as many pieces as it
    needs, or one more. Pieces stay where they are as long as those channels can hold them, and
    otherwise go to the emptiest.

    >>> split(np.array([7]), np.array([0.4]), [[5]], channels=8, objective=Objective())
    {7: (5, 0, 1)}
    """
    needed = {
        hot.key: hot.ways
        for hot in too_hot(keys, shares, channels=channels, objective=objective, speeds=speeds)
    }
    if channels == 1:
        return {}
    speed, allowed = _relative(speeds, channels), _allowed(objective, channels)
    filled = np.zeros(channels)
    splits: dict[int, tuple[int, ...]] = {}
    for at in np.argsort(-shares, kind="stable").tolist():
        key, share = int(keys[at]), float(shares[at])
        here = [channel for channel in present[at] if channel < channels]
        ways = needed.get(key, 2 if len(here) > 1 and share > keep_above * allowed * speed.max() else 1)
        if ways == 1:
            continue
        ways = max(ways, min(len(here), ways + 1)) if key in needed else ways
        room = allowed * speed - filled - share / ways >= -1e-12
        chosen = [channel for channel in here if room[channel]][:ways]
        for channel in np.argsort(filled / speed, kind="stable").tolist():
            if len(chosen) < ways and channel not in chosen:
                chosen.append(channel)
        filled[chosen] += share / ways
        splits[key] = tuple(chosen)
    return splits


def _relative(speeds: Floats | None, channels: int) -> Floats:
    speed = np.ones(channels) if speeds is None else np.asarray(speeds, dtype=np.float64)
    return np.asarray(speed / speed.sum(), dtype=np.float64)


def _allowed(objective: Objective, channels: int) -> float:
    """How many times its fair share a channel may hold."""
    return 1 + min(theta(alphas(objective.alpha)[k], channels) for k in objective.resources.balanced)
