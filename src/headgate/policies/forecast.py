"""A forecast of the channels' costs that learns which predictor to trust, and how far.

Two decisions are learnt from the past batches, both by `hedge`, the second by its `guarded`:

    which predictor    for each channel, by the squared errors of `predictors`: the forecast is their
                       weighted mean, and its deviation that of its errors
    how much caution   for all channels together, by the time that the batches would have taken with
                       shares in proportion to speed, 1 / (forecast + caution * deviation), moves included

A batch waits for its slowest channel, so a channel whose cost is uncertain should get less work than its
mean cost suggests. One of the candidates of the second decision is no forecast at all.

Law: over any past, the times under the weights that the candidates had exceed the times without a
forecast by at most `hedge.most_missed`, however long it is. A constant past gives the same constant.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from headgate.compiled import compiled
from headgate.policies import hedge
from headgate.policies.horizon import Floats
from headgate.policies.predictors import Predicted, regressed, repeated, smoothed, trend
from headgate.policies.waves import AHEAD, cycles

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


class Predict(Protocol):
    """Makes the predictions to choose from, of the past and of the coming steps."""

    def __call__(self, history: Floats, steps: int, alpha: float) -> tuple[Predicted, ...]: ...


def predictions(history: Floats, steps: int, alpha: float, *, judged: int = AHEAD) -> tuple[Predicted, ...]:
    """What every predictor says; waves are judged by what they said `judged` steps before."""
    return (
        smoothed(history, steps, alpha),
        smoothed(history, steps, 1.0),
        smoothed(history, steps, SLOW),
        trend(history, steps),
        regressed(history, steps),
        *cycles(history, steps, judged=judged),
        repeated(history, steps),
    )


def forecast(
    history: Floats,
    current: Floats,
    steps: int,
    *,
    alpha: float = 0.5,
    move_s: float = 0.0,
    caution: tuple[float, ...] = CAUTION,
    predict: Predict = predictions,
) -> Floats:
    """The expected costs, one row for each coming step, from one row for each past step, the newest last.

    `current` is what is expected without a forecast: the costs smoothed by `alpha`. `move_s` is the
    time in which a channel gives or takes all of the work, in the unit of the costs.

    >>> forecast(np.full((30, 2), 3.0), np.full(2, 3.0), 2).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    if len(history) < LEAST or (history == history[0]).all():
        return np.broadcast_to(current, (steps, len(current)))
    best, deviation = combined(history, predict(history, steps, alpha))
    return chosen(candidates(history, current, best, deviation, alpha=alpha, move_s=move_s, caution=caution))


def chosen(found: Candidates) -> Floats:
    """The costs that the candidates expect together, each as far as it is trusted."""
    return mixed(found, hedge.guarded(found.times)[-1])


def mixed(found: Candidates, trust: Floats) -> Floats:
    """The costs whose shares and speeds are the candidates' own, mixed by these weights."""
    shares = np.tensordot(trust, found.shares, axes=1)
    return np.asarray(1 / (shares * (trust @ found.speeds)[:, None]), dtype=np.float64)


def candidates(
    history: Floats,
    current: Floats,
    best: Predicted,
    deviation: Floats,
    *,
    alpha: float = 0.5,
    move_s: float = 0.0,
    caution: tuple[float, ...] = CAUTION,
) -> Candidates:
    """What the second decision chooses from. The first is no forecast."""
    margins = np.array(caution)[:, None, None]
    past = np.concatenate([smoothed(history, 1, alpha).past[None], best.past + margins * deviation[:-1]])
    coming = np.empty((len(past), *best.ahead.shape))
    coming[0], coming[1:] = current, best.ahead + margins * deviation[-1]
    speeds = 1 / coming
    together = speeds.sum(axis=2)
    return Candidates(speeds / together[..., None], together, times(past, history, move_s)[1:])


@compiled
def times(expected: Floats, seen: Floats, move_s: float) -> Floats:
    """By step and candidate: the time with shares by the expected speeds, over the least possible.

    A change of shares takes its part of `move_s`.
    """
    experts, length, channels = expected.shape
    found, shares = np.empty((length, experts)), np.empty((experts, channels))
    for t in range(length):
        least = 0.0
        for c in range(channels):
            least += 1 / seen[t, c]
        for k in range(experts):
            speed, longest = 0.0, 0.0
            for c in range(channels):
                speed += 1 / expected[k, t, c]
            for c in range(channels):
                share = 1 / (expected[k, t, c] * speed)
                change = abs(share - shares[k, c]) if t > 0 else 0.0
                longest = max(longest, share * seen[t, c] + move_s * change)
                shares[k, c] = share
            found[t, k] = longest * least
    return found


def combined(history: Floats, found: tuple[Predicted, ...]) -> tuple[Predicted, Floats]:
    """The predictions' weighted mean, and the deviation of its errors, before each step and now."""
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
