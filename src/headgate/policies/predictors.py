"""Simple predictors of the channels' costs, each with what it would have predicted in the past.

    smoothed   the level  s <- s + alpha (x - s)
    trend      a level and a slope, smoothed (Holt); the slope fades
    regressed  the next change from the last changes and the distance from the mean: least squares over all
               channels, so that what all channels do is learnt from all of them (jobs that end after a
               fixed time, a return to the mean)
    repeated   the value of one period before; the period is the lag that was best so far

`waves` has two more.

Each gives `past`, its prediction of every step from the steps before it, and `ahead`, of the coming steps. A
prediction of the past never uses the step that it predicts, or a later one; fits are made anew whenever the
past has doubled. So their errors can be compared (`hedge`).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from headgate.compiled import compiled
from headgate.policies.horizon import Floats

Ints: TypeAlias = npt.NDArray[np.int64]

FIRST = 2
"""The number of steps after which regression is fitted for the first time; then after twice as many, and so on."""

LAGS = 16

_STILL = 1e-9  # changes of less than this part of a cost are rounding
_PRIOR = 8.0  # the ridge of a fit, in samples: until there are more, the next value is the last one


class Predicted(NamedTuple):
    """What a predictor says: `past` has the shape of the history, `ahead` one row for each coming step."""

    past: Floats
    ahead: Floats


def smoothed(history: Floats, steps: int, alpha: float) -> Predicted:
    """The smoothed level; `alpha` 1 is the last value."""
    past, level = _smoothed(history, alpha)
    return Predicted(past, np.broadcast_to(level, (steps, len(level))))


def trend(
    history: Floats, steps: int, *, alpha: float = 0.5, beta: float = 0.2, fade: float = 0.9
) -> Predicted:
    """Level and slope."""
    past, level, slope = _trend(history, alpha, beta, fade)
    far = np.cumsum(fade ** np.arange(1, steps + 1))[:, None]
    return Predicted(past, level + far * slope)


def regressed(history: Floats, steps: int) -> Predicted:
    """The next change by least squares over the last changes of all channels."""
    past, ahead = _regressed(np.ascontiguousarray(history), steps)
    return Predicted(past, ahead)


def repeated(history: Floats, steps: int) -> Predicted:
    """The value of one period before."""
    past, period = _repeated(history)
    length = len(history)
    back = np.arange(steps)[:, None] % period + length - period
    return Predicted(past, history[np.minimum(back, length - 1), np.arange(history.shape[1])])


@compiled
def _smoothed(history: Floats, alpha: float) -> tuple[Floats, Floats]:
    past = np.empty_like(history)
    level = history[0].copy()
    for at in range(len(history)):
        past[at] = level
        level = level + alpha * (history[at] - level)
    return past, level


@compiled
def _trend(history: Floats, alpha: float, beta: float, fade: float) -> tuple[Floats, Floats, Floats]:
    past = np.empty_like(history)
    level, slope = history[0].copy(), np.zeros(history.shape[1])
    for at in range(len(history)):
        past[at] = level + fade * slope
        new = past[at] + alpha * (history[at] - past[at])
        slope = fade * slope + beta * (new - level - fade * slope)
        level = new
    return past, level, slope


@compiled
def _repeated(history: Floats) -> tuple[Floats, Ints]:
    length, channels = history.shape
    longest = max(1, length // 2)
    past = np.empty_like(history)
    period = np.ones(channels, np.int64)
    missed, best = np.zeros((longest + 1, channels)), np.empty(channels)
    for at in range(length):
        for c in range(channels):
            past[at, c] = history[max(at - period[c], 0), c]
            period[c], best[c] = 1, np.inf
        for lag in range(1, min(at, longest) + 1):
            seen = float(at + 1 - lag)
            enough = seen >= lag / 2 and seen >= 8
            for c in range(channels):
                missed[lag, c] += (history[at, c] - history[at - lag, c]) ** 2
                if enough and missed[lag, c] < best[c] * seen:
                    period[c], best[c] = lag, missed[lag, c] / seen
    return past, period


@compiled
def _regressed(history: Floats, steps: int) -> tuple[Floats, Floats]:
    length, channels = history.shape
    past = np.empty_like(history)
    past[0] = history[0]
    past[1:] = history[:-1]
    ahead = np.empty((steps, channels))
    parts, scaled = np.zeros(LAGS), np.zeros(LAGS)
    features = np.zeros((channels, LAGS))
    mean, squares = np.zeros(channels), np.zeros(channels)
    gram, right, samples = np.zeros((LAGS, LAGS)), np.zeros(LAGS), 0
    fit = LAGS + FIRST  # the step before which the next fit is made
    for at in range(length):
        if at >= LAGS:
            for c in range(channels):
                change = history[at, c] - history[at - 1, c]
                size = np.sqrt(squares[c] / at)
                past[at, c] += np.dot(features[c], parts)
                if size > _STILL * abs(mean[c]):
                    for i in range(LAGS):
                        scaled[i] = features[c, i] / size
                        right[i] += scaled[i] * change / size
                        for k in range(i + 1):
                            gram[i, k] += scaled[i] * scaled[k]
                    samples += change != 0
        for c in range(channels):
            mean[c] += (history[at, c] - mean[c]) / (at + 1)
            if at > 0:
                change = history[at, c] - history[at - 1, c]
                squares[c] += change * change
                for i in range(LAGS - 1, 1, -1):
                    features[c, i] = features[c, i - 1]
                features[c, 1] = change
            features[c, 0] = history[at, c] - mean[c]
        if at + 1 >= fit:
            parts = _ridge(gram, right, samples)
            fit = LAGS + 2 * (fit - LAGS)
    if length > LAGS + 1:
        parts = _ridge(gram, right, samples)
    for c in range(channels):
        value, state = history[-1, c], features[c].copy()
        for step in range(steps):
            change = np.dot(state, parts)
            value += change
            ahead[step, c] = value
            for i in range(LAGS - 1, 1, -1):
                state[i] = state[i - 1]
            state[0], state[1] = state[0] + change, change
    return past, ahead


@compiled
def _ridge(gram: Floats, right: Floats, samples: int) -> Floats:
    """Least squares with a prior of `_PRIOR` samples that say 0, by Cholesky's factors; `gram` has its lower half."""
    size = len(right)
    root, found = gram.copy(), right.copy()
    for i in range(size):
        root[i, i] += _PRIOR * max(gram[i, i] / max(samples, 1), _STILL)
    for i in range(size):
        for k in range(i + 1):
            value = root[i, k]
            for j in range(k):
                value -= root[i, j] * root[k, j]
            root[i, k] = np.sqrt(value) if i == k else value / root[k, k]
        for j in range(i):
            found[i] -= root[i, j] * found[j]
        found[i] /= root[i, i]
    for i in range(size - 1, -1, -1):
        for j in range(i + 1, size):
            found[i] -= root[j, i] * found[j]
        found[i] /= root[i, i]
    return found
