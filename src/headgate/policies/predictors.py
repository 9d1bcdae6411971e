"""Simple predictors of the channels' costs, each with what it would have predicted in the past.

    smoothed   the level  s <- s + alpha (x - s)
    trend      a level and a slope, smoothed (Holt); the slope fades
    regressed  the next change from the last changes and the distance from the mean: least squares over all
               channels, so that what all channels do is learnt from all of them (jobs that end after a
               fixed time, a return to the mean)
    cycle      the sinusoid of the period that explains the channel's past best, with its first overtone, and
               what is left fades
    rhythm     the same, with one wave for all channels, each as much of it as it followed so far
    repeated   the value of one period before; the period is the lag that was best so far

Each gives `past`, its prediction of every step from the steps before it, and `ahead`, of the coming steps. A
prediction of the past never uses the step that it predicts, or a later one; fits are made anew whenever the
past has doubled. So their errors can be compared (`hedge`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headgate.compiled import compiled
from headgate.policies.horizon import Floats

FIRST = 2
"""The number of steps after which regression is fitted for the first time; then after twice as many, and so on."""

FIRST_CYCLE = 16
"""The same for waves."""

AHEAD = 4
"""From how many steps before it the past of a wave is predicted. One step ahead a wave through a single step is
nearly right, because what is left of it fades slowly; further ahead it expects the step to be undone.
"""

LAGS = 16
SHORTEST = 4
"""The shortest period, in steps."""

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


def cycles(history: Floats, steps: int) -> tuple[Predicted, Predicted]:
    """`cycle` and `rhythm`: a sinusoid with its first overtone around the mean, and a rest that fades."""
    length, channels = history.shape
    past = np.stack([np.vstack([history[:1], history[:-1]])] * 2)
    if length < FIRST_CYCLE:
        ahead = np.broadcast_to(history[-1], (steps, channels))
        return Predicted(past[0], ahead), Predicted(past[1], ahead)
    waves = _waves(1 << (length + steps - 1).bit_length())
    shown = 4 * len(_inverses(length))
    along, alone, seen = np.zeros((shown, channels)), np.zeros(shown), 0
    fit = FIRST_CYCLE
    while True:
        along += waves[:shown, seen:fit] @ history[seen:fit]
        alone += waves[:shown, seen:fit].sum(axis=1)
        seen, fit = fit, min(2 * fit, length)
        expected, lasts = _waved(history[:seen], length + steps, waves, along, alone, _inverses(seen))
        if seen == length:
            break
        before = slice(seen - AHEAD, fit - AHEAD)
        past[:, seen:fit] = expected[:, seen:fit] + lasts[:, None] ** AHEAD * (
            history[before] - expected[:, before]
        )
    far = np.arange(1, steps + 1)[:, None]
    ahead = expected[:, length:] + lasts[:, None] ** far * (history[-1] - expected[:, None, length - 1])
    return Predicted(past[0], ahead[0]), Predicted(past[1], ahead[1])


@lru_cache(maxsize=4)
def _waves(length: int) -> Floats:
    """Sine, cosine and their overtones of every period as rows, the shortest period first."""
    periods = np.arange(SHORTEST, max(SHORTEST + 1, 2 * length // 3))
    angle = 2 * np.pi * np.arange(length)[None, :] / periods[:, None]
    waves = np.stack([np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)], axis=1)
    return waves.reshape(-1, length)


@lru_cache(maxsize=256)
def _inverses(length: int) -> Floats:
    """What makes factors of the waves' products with a past of this length, for each period that it shows."""
    periods = max(1, 2 * length // 3 - SHORTEST)
    waves = _waves(1 << (length - 1).bit_length())[: 4 * periods, :length].reshape(periods, 4, length)
    return np.asarray(np.linalg.inv(waves @ waves.transpose(0, 2, 1) + np.eye(4)))


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
def _repeated(history: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    length, channels = history.shape
    longest = max(1, length // 2)
    past = np.empty_like(history)
    period = np.ones(channels, np.int64)
    for c in range(channels):
        missed = np.zeros(longest + 1)
        counted = np.zeros(longest + 1)
        for at in range(length):
            past[at, c] = history[max(at - period[c], 0), c]
            lag_best, best = 1, np.inf
            for lag in range(1, min(at, longest) + 1):
                missed[lag] += (history[at, c] - history[at - lag, c]) ** 2
                counted[lag] += 1
                if counted[lag] >= lag / 2 and counted[lag] >= 8 and missed[lag] < best * counted[lag]:
                    lag_best, best = lag, missed[lag] / counted[lag]
            period[c] = lag_best
    return past, period


@compiled
def _regressed(history: Floats, steps: int) -> tuple[Floats, Floats]:
    length, channels = history.shape
    past = np.empty_like(history)
    past[0] = history[0]
    past[1:] = history[:-1]
    ahead = np.empty((steps, channels))
    parts = np.zeros(LAGS)
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
                        scaled = features[c, i] / size
                        right[i] += scaled * change / size
                        for k in range(i + 1):
                            gram[i, k] += scaled * features[c, k] / size
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


@compiled
def _waved(
    history: Floats, total: int, waves: Floats, along: Floats, alone: Floats, inverses: Floats
) -> tuple[Floats, Floats]:
    """The waves of `cycle` and `rhythm` around the mean, over past and coming steps, and what part of the rest lasts."""
    length, channels = history.shape
    expected, lasts = np.empty((2, total, channels)), np.zeros((2, channels))
    product, factors, common = np.empty(4), np.empty(4), np.zeros(total)
    pooled = np.zeros((len(inverses), 4))
    means, sizes = np.empty(channels), np.empty(channels)
    for c in range(channels + 1):
        best, most = -1, -1.0
        chosen = np.zeros(4)
        if c < channels:
            means[c] = history[:, c].mean()
            sizes[c] = history[:, c].std()
        for period in range(len(inverses)):
            for i in range(4):
                if c < channels:
                    product[i] = along[4 * period + i, c] - means[c] * alone[4 * period + i]
                    if sizes[c] > _STILL * abs(means[c]):
                        pooled[period, i] += product[i] / sizes[c]
                else:
                    product[i] = pooled[period, i]
            explained = 0.0
            for i in range(4):
                factors[i] = 0.0
                for k in range(4):
                    factors[i] += inverses[period, i, k] * product[k]
                explained += factors[i] * product[i]
            if explained > most:
                best, most = period, explained
                chosen[:] = factors
        for t in range(total):
            wave = 0.0
            for i in range(4):
                wave += chosen[i] * waves[4 * best + i, t]
            if c < channels:
                expected[0, t, c] = means[c] + wave
            else:
                common[t] = wave
    size = np.sqrt((common[:length] ** 2).mean())
    for c in range(channels):
        follows = 0.0
        if size > 0:
            for t in range(length):
                follows += (history[t, c] - means[c]) * common[t] / size
            follows /= size * (length + _PRIOR)
        for t in range(total):
            expected[1, t, c] = means[c] + follows * common[t]
        for kind in range(2):
            kept, power = 0.0, 0.0
            for t in range(length - 1):
                left = history[t, c] - expected[kind, t, c]
                kept += left * (history[t + 1, c] - expected[kind, t + 1, c])
                power += left * left
            if power > 0:
                lasts[kind, c] = min(max(kept / power, 0.0), 1.0)
    return expected, lasts
