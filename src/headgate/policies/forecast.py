"""A short forecast of the channels' costs from their past: a cycle where there is one, and the way back to the mean.

    x(t + k) = mean + cycle(t + k) + phi^k * (x(t) - mean - cycle(t))

`cycle` is one sinusoid whose period is the one that explains most of all channels' past; it counts for a channel only where it
explains a good part of that channel's. `phi` is what one step keeps of a deviation (lag-one autocorrelation),
so a short disturbance is expected to pass and a lasting one to last. With a short past it is the last value.
"""

from __future__ import annotations

import numpy as np

from headgate.policies.horizon import Floats

LEAST = 20
"""Steps of the past below which nothing is concluded from it."""

_EXPLAINED = 0.3
_LONGEST_MEMORY = 0.98


def forecast(history: Floats, steps: int) -> Floats:
    """One row for each coming step, from one row for each past step, the newest last.

    Law: within what was seen, for every channel; a constant past gives the same constant.

    >>> forecast(np.full((30, 2), 3.0), 2).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    length = len(history)
    if length < LEAST:
        return np.broadcast_to(history[-1], (steps, history.shape[1]))
    mean = history.mean(axis=0)
    past = history - mean
    cycle = _cycle(past, steps)
    rest = past - cycle[:length]
    power = (rest[:-1] ** 2).sum(axis=0)
    kept = (rest[1:] * rest[:-1]).sum(axis=0)
    phi = np.clip(np.divide(kept, power, out=np.zeros_like(kept), where=power > 0), 0.0, _LONGEST_MEMORY)
    ahead = np.arange(1, steps + 1)[:, None]
    expected = mean + cycle[length:] + phi**ahead * rest[-1]
    return np.asarray(np.clip(expected, history.min(axis=0), history.max(axis=0)), dtype=np.float64)


def _cycle(past: Floats, steps: int) -> Floats:
    """The sinusoid of the best period over past and coming steps, zero where it explains little."""
    length = len(past)
    found = np.zeros((length + steps, past.shape[1]))
    total = (past**2).sum(axis=0)
    best = 0.0
    time = np.arange(length + steps)[:, None]
    for period in range(4, length // 2 + 1):
        angle = 2 * np.pi * time / period
        waves = np.hstack([np.sin(angle), np.cos(angle)])
        fit, *_ = np.linalg.lstsq(waves[:length], past, rcond=None)
        curve = waves @ fit
        explained = total - ((past - curve[:length]) ** 2).sum(axis=0)
        if explained.sum() > best:
            best = float(explained.sum())
            found = np.where(explained > _EXPLAINED * total, curve, 0.0)
    return found
