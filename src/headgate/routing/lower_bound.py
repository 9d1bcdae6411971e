"""How even any placement can be: a lower bound of the busiest channel, which stands beside every balance figure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def busiest_bound(
    loads: npt.ArrayLike,
    channels: int,
    *,
    rest: float = 0.0,
    speeds: Floats | None = None,
    fixed: Floats | None = None,
) -> float:
    """Return a lower bound of the busiest channel over the mean, for *every* placement of things that stay whole.

    ``loads`` are the loads of these things (keys, bins, queries). ``rest`` is load that can be divided at
    will. ``fixed`` is load that each channel has in any case. ``speeds`` divides the load of each channel
    (default: equal), and the mean is the total load over the total speed.

    Proof. Let N be the number of channels, S the sum of speeds, s_1 >= s_2 >= ... the speeds and
    p_1 >= p_2 >= ... the loads. The level of a channel is its load over its speed. The highest level is at
    least each of:

    1. ``total / S``: it is at least the mean, weighed by speed.
    2. ``fixed_c / s_c``: what a channel has in any case.
    3. ``min over c of (fixed_c + p_1) / s_c``: the largest thing is on some channel.
    4. ``(p_1 + ... + p_j) / (s_1 + ... + s_j)`` for j < N: the j largest things are on at most j channels,
       whose levels have a mean of at least this.
    5. ``(p_{kN+1} + p_{kN} + ... + p_{kN+1-k}) / s_1`` for k >= 1: of the kN + 1 largest things some channel
       has at least k + 1, which weigh at least as much as the k + 1 lightest of these, and no channel is
       faster than s_1.

    Each holds for every placement, so the largest of them does. With nothing to place it is 1. It costs one
    sort; finding the best placement itself is NP-hard.

    >>> busiest_bound([0.25], 8, rest=0.75)
    2.0
    >>> round(busiest_bound([3, 3, 3, 3, 3], 4), 3)
    1.6
    """
    if channels < 1:
        raise ValueError(f"channels must be at least 1, got {channels}")
    p = np.sort(np.asarray(loads, dtype=np.float64))[::-1]
    speed = np.ones(channels) if speeds is None else np.asarray(speeds, dtype=np.float64)
    held = np.zeros(channels) if fixed is None else np.asarray(fixed, dtype=np.float64)
    if speed.shape != (channels,) or held.shape != (channels,) or not speed.min() > 0:
        raise ValueError(f"speeds {speed} and fixed {held} need one number for each of {channels} channels")
    total = float(p.sum() + held.sum()) + rest
    if not total > 0:
        return 1.0
    mean = total / float(speed.sum())
    fastest = np.sort(speed)[::-1]
    bounds = [mean, float((held / speed).max())]
    if p.size:
        few = min(p.size, channels - 1)
        bounds.append(float(((held + p[0]) / speed).min()))
        bounds += (np.cumsum(p[:few]) / np.cumsum(fastest[:few])).tolist()
        sums = np.concatenate([[0.0], np.cumsum(p)])
        k = np.arange(1, (p.size - 1) // channels + 1)
        last = k * channels + 1
        bounds += ((sums[last] - sums[last - k - 1]) / fastest[0]).tolist()
    return max(bounds) / mean
