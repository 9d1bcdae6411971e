"""A forecast of the channels' costs that learns which predictor to trust, and how far.

Two decisions are learnt from the past batches, both by `hedge`:

    which predictor    for each channel, by the squared errors of `predictors`: the forecast is their
                       weighted mean, and its deviation that of its errors
    how much caution   for all channels together, by the time that the batches would have taken with
                       shares in proportion to speed, 1 / (forecast + caution * deviation), moves included

A batch waits for its slowest channel, so a channel whose cost is uncertain should get less work than its
mean cost suggests. One of the candidates of the second decision is no forecast at all.

Law: over any past, the times under the weights that the candidates had exceed the times without a
forecast by at most `hedge.most_regret`. A constant past gives the same constant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headgate.compiled import compiled
from headgate.policies import hedge
from headgate.policies.horizon import Floats
from headgate.policies.predictors import Predicted, cycles, regressed, repeated, smoothed, trend

LEAST = 8
"""The number of past steps that a forecast needs."""

CAUTION = (0.0, 0.5, 1.0, 2.0)
"""The margins to choose from, in deviations."""

SLOW = 0.15
"""The smoothing of the level that changes slowly."""

_BEYOND = 0.25  # how far a prediction may leave what was seen, as a part of its range


class Candidates(NamedTuple):
    """No forecast, and forecasts with more and more caution: what each expects, and its times in the past."""

    shares: Floats
    """By candidate, coming step and channel."""
    speeds: Floats
    """By candidate and coming step: of all channels together."""
    times: Floats
    """By past step and candidate: the batch's time over the least possible."""


def forecast(
    history: Floats, current: Floats, steps: int, *, alpha: float = 0.5, move_s: float = 0.0
) -> Floats:
    """The expected costs, one row for each coming step, from one row for each past step, the newest last.

    `current` is what is expected without a forecast: the costs smoothed by `alpha`. `move_s` is the
    time in which a channel gives or takes all of the work, in the unit of the costs.

    >>> forecast(np.full((30, 2), 3.0), np.full(2, 3.0), 2).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    if len(history) < LEAST or not np.ptp(history, axis=0).any():
        return np.broadcast_to(current, (steps, len(current)))
    found = candidates(history, current, steps, alpha=alpha, move_s=move_s)
    trust = hedge.weights(found.times)[-1]
    shares = np.tensordot(trust, found.shares, axes=1)
    return np.asarray(1 / (shares * (trust @ found.speeds)[:, None]), dtype=np.float64)


def candidates(
    history: Floats, current: Floats, steps: int, *, alpha: float = 0.5, move_s: float = 0.0
) -> Candidates:
    """What the second decision chooses from. The first is no forecast."""
    best, deviation = combined(history, steps, alpha)
    none = smoothed(history, 1, alpha).past
    past = np.stack([none, *(best.past + caution * deviation[:-1] for caution in CAUTION)])
    now = np.broadcast_to(current, best.ahead.shape)
    speeds = 1 / np.stack([now, *(best.ahead + caution * deviation[-1] for caution in CAUTION)])
    together = speeds.sum(axis=2)
    return Candidates(speeds / together[..., None], together, times(past, history, move_s)[1:])


def times(expected: Floats, seen: Floats, move_s: float = 0.0) -> Floats:
    """By step and candidate: the time with shares by the expected speeds, over the least possible."""
    shares = 1 / expected
    shares /= shares.sum(axis=2, keepdims=True)
    changes = np.abs(np.diff(shares, axis=1, prepend=shares[:, :1]))
    spent = (shares * seen + move_s * changes).max(axis=2)
    return np.asarray((spent * (1 / seen).sum(axis=1)).T, dtype=np.float64)


def combined(history: Floats, steps: int, alpha: float) -> tuple[Predicted, Floats]:
    """The predictors' weighted mean, and the deviation of its errors, before each step and now."""
    found = (
        smoothed(history, steps, alpha),
        smoothed(history, steps, 1.0),
        smoothed(history, steps, SLOW),
        trend(history, steps),
        regressed(history, steps),
        *cycles(history, steps),
        repeated(history, steps),
    )
    past, ahead = np.array([each.past for each in found]), np.array([each.ahead for each in found])
    mean, deviation, coming = _combined(history, past, ahead)
    return Predicted(mean, coming), deviation


@compiled
def _combined(history: Floats, past: Floats, ahead: Floats) -> tuple[Floats, Floats, Floats]:
    experts, length, channels = past.shape
    steps = ahead.shape[1]
    mean, deviation = np.zeros((length, channels)), np.zeros((length + 1, channels))
    coming = np.zeros((steps, channels))
    wrong, clipped = np.zeros((1, length - 1, experts)), np.empty((length, experts))
    for c in range(channels):
        least, most = history[0, c], history[0, c]
        for t in range(length):
            least, most = min(least, history[t, c]), max(most, history[t, c])
        room = _BEYOND * (most - least)
        low, high = max(least - room, least / 2), most + room
        for t in range(length):
            for k in range(experts):
                clipped[t, k] = min(max(past[k, t, c], low), high)
                if t > 0:
                    wrong[0, t - 1, k] = (clipped[t, k] - history[t, c]) ** 2
        trust = hedge.learnt(wrong)[0]
        errors = 0.0
        for t in range(length):
            for k in range(experts):
                mean[t, c] += trust[max(t - 1, 0), k] * clipped[t, k]
            errors += (history[t, c] - mean[t, c]) ** 2
            deviation[t + 1, c] = np.sqrt(errors / (t + 2))
        for step in range(steps):
            for k in range(experts):
                coming[step, c] += trust[length - 1, k] * min(max(ahead[k, step, c], low), high)
    return mean, deviation, coming
