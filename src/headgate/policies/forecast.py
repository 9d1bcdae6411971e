"""A forecast of the channels' costs that learns which predictor to trust, and how far.

Two decisions are learnt from the past batches, both by `hedge`:

    which predictor    for each channel, by the squared errors of `predictors`: the forecast is their
                       weighted mean, and its deviation that of its errors
    how much caution   for all channels together, by the time that the batches would have taken with
                       shares in proportion to speed, 1 / (forecast + caution * deviation)

A batch waits for its slowest channel, so a channel whose cost is uncertain should get less work than its
mean cost suggests. One of the candidates of the second decision is no forecast at all.

Law: over any past, the batches' times under the weights that the forecast had exceed those without a
forecast by at most `hedge.most_regret`, moves aside. A constant past gives the same constant.
"""

from __future__ import annotations

import numpy as np

from headgate.policies import hedge
from headgate.policies.horizon import Floats
from headgate.policies.predictors import Predicted, cycle, regressed, repeated, smoothed, trend

LEAST = 8
"""The number of past steps that a forecast needs."""

CAUTION = (0.0, 0.5, 1.0, 2.0)
"""The margins to choose from, in deviations."""


def forecast(history: Floats, current: Floats, steps: int, *, alpha: float = 0.5) -> Floats:
    """The expected costs, one row for each coming step, from one row for each past step, the newest last.

    `current` is what would be assumed without a forecast: the costs smoothed by `alpha`.

    >>> forecast(np.full((30, 2), 3.0), np.full(2, 3.0), 2).round(9).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    if len(history) < LEAST or not np.ptp(history, axis=0).any():
        return np.broadcast_to(current, (steps, len(current)))
    best, deviation = combined(history, steps, alpha)
    none = smoothed(history, 1, alpha).past
    candidates = [Predicted(none, np.broadcast_to(current, (steps, len(current))))]
    for caution in CAUTION:
        candidates.append(Predicted(best.past + caution * deviation[:-1], best.ahead + caution * deviation[-1]))
    losses = np.stack([times(each.past, history) for each in candidates], axis=1)
    trust = hedge.weights(losses[1:])[-1]
    speeds = np.array([1 / each.ahead for each in candidates])
    shares = speeds / speeds.sum(axis=2, keepdims=True)
    mixed = np.tensordot(trust, shares, axes=1)
    pace = np.tensordot(trust, speeds.sum(axis=2), axes=1)
    return np.asarray(1 / (mixed * pace[:, None]), dtype=np.float64)


def times(expected: Floats, seen: Floats) -> Floats:
    """The time of each batch with shares by the expected speeds, over the least possible with these costs."""
    shares = 1 / expected
    shares = shares / shares.sum(axis=1, keepdims=True)
    return np.asarray((shares * seen).max(axis=1) * (1 / seen).sum(axis=1), dtype=np.float64)


def combined(history: Floats, steps: int, alpha: float) -> tuple[Predicted, Floats]:
    """The predictors' weighted mean, and the deviation of its errors before each step and now."""
    low, high = history.min(axis=0), history.max(axis=0)
    room = 0.25 * (high - low)
    low, high = np.maximum(low - room, low / 2), high + room
    found = [
        smoothed(history, steps, alpha),
        smoothed(history, steps, 1.0),
        smoothed(history, steps, 0.15),
        trend(history, steps),
        regressed(history, steps),
        cycle(history, steps),
        repeated(history, steps),
    ]
    past = np.clip(np.array([each.past for each in found]), low, high)
    ahead = np.clip(np.array([each.ahead for each in found]), low, high)
    wrong = (past - history) ** 2
    trust = np.array([hedge.weights(wrong[:, 1:, c].T) for c in range(history.shape[1])])
    then = np.concatenate([trust[:, :1], trust[:, :-1]], axis=1)
    mean = np.einsum("ctk,ktc->tc", then, past)
    missed = (history - mean) ** 2
    deviation = np.sqrt(np.vstack([np.zeros((1, len(low))), np.cumsum(missed, axis=0)]) / np.arange(1, len(history) + 2)[:, None])
    return Predicted(mean, np.einsum("ck,ksc->sc", trust[:, -1], ahead)), deviation
