"""Simple predictors of the channels' costs, each with what it would have predicted in the past.

    smoothed   the level  s <- s + alpha (x - s)
    trend      a level and a slope, smoothed (Holt); the slope fades
    regressed  the next change from the last changes and the distance from the mean: least squares over all
               channels, so that what all channels do is learnt from all of them (jobs that end after a
               fixed time, a return to the mean)
    cycle      the sinusoid of the period that explains the channel's past best, with its first overtone, and
               what is left fades
    repeated   the value of one period before; the period is the lag that was best so far

Each gives `past`, its prediction of every step from the steps before it, and `ahead`, of the coming steps. A
prediction of the past never uses the step that it predicts, or a later one; fits are made anew every `BLOCK`
steps. So their errors can be compared (`hedge`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from headgate.compiled import compiled
from headgate.policies.horizon import Floats

BLOCK = 16
"""The number of steps after which a fit is made anew."""

LAGS = 16
SHORTEST = 4
"""The shortest period, in steps."""

_PRIOR = 8.0  # the ridge of a fit, in samples: until there are more, the next value is the last one


class Predicted(NamedTuple):
    """What a predictor says: `past` has the shape of the history, `ahead` one row for each coming step."""

    past: Floats
    ahead: Floats


def smoothed(history: Floats, steps: int, alpha: float) -> Predicted:
    """The smoothed level; `alpha` 1 is the last value."""
    past, level = _smoothed(history, alpha)
    return Predicted(past, np.broadcast_to(level, (steps, len(level))))


def trend(history: Floats, steps: int, *, alpha: float = 0.5, beta: float = 0.2, fade: float = 0.9) -> Predicted:
    """Level and slope."""
    past, level, slope = _trend(history, alpha, beta, fade)
    far = np.cumsum(fade ** np.arange(1, steps + 1))[:, None]
    return Predicted(past, level + far * slope)


def regressed(history: Floats, steps: int) -> Predicted:
    """The next change by least squares over the last changes of all channels."""
    length, channels = history.shape
    past = np.vstack([history[:1], history[:-1]])
    parts = np.zeros(LAGS)
    for begin in [*range(2 * LAGS, length, BLOCK), length]:
        if begin < 2 * LAGS:
            break
        mean = history[:begin].mean(axis=0)
        parts = _fitted(history[:begin], mean)
        end = min(begin + BLOCK, length)
        if begin < length:
            past[begin:end] += _features(history, mean, begin, end) @ parts
    ahead = np.empty((steps, channels))
    line = history[-LAGS - 1 :]
    mean = history.mean(axis=0)
    for step in range(steps):
        if len(line) > LAGS:
            seen = np.vstack([line, line[-1:]])
            ahead[step] = line[-1] + (_features(seen, mean, len(line), len(line) + 1) @ parts)[0]
        else:
            ahead[step] = line[-1]
        line = np.vstack([line[1:] if len(line) > LAGS else line, ahead[step]])
    return Predicted(past, ahead)


def _features(history: Floats, mean: Floats, begin: int, end: int) -> Floats:
    """Of each step and channel: the last value's distance from the mean, and the last changes."""
    changes = np.diff(history, axis=0)
    columns = [history[begin - 1 : end - 1] - mean]
    columns += [changes[begin - 1 - lag : end - 1 - lag] for lag in range(1, LAGS)]
    return np.stack(columns, axis=-1)


def _fitted(history: Floats, mean: Floats) -> Floats:
    features = _features(history, mean, LAGS, len(history))
    wanted = np.diff(history, axis=0)[LAGS - 1 :]
    scale = wanted.std(axis=0)
    lively = scale > 1e-9 * np.abs(mean)
    if not lively.any():
        return np.zeros(LAGS)
    x = (features[:, lively] / scale[lively, None]).reshape(-1, LAGS)
    y = (wanted[:, lively] / scale[lively]).ravel()
    gram = x.T @ x
    gram[np.diag_indices(LAGS)] += _PRIOR * np.maximum(gram.diagonal() / len(x), 1e-12)
    return np.asarray(np.linalg.solve(gram, x.T @ y), dtype=np.float64)


def cycle(history: Floats, steps: int) -> Predicted:
    """A sinusoid with its first overtone around the mean, and a rest that fades."""
    length, channels = history.shape
    past = np.vstack([history[:1], history[:-1]])
    for begin in range(2 * BLOCK, length, BLOCK):
        end = min(begin + BLOCK, length)
        mean, waves, phi = _cycle(history[:begin], end - begin)
        expected = mean + waves
        rest = history[begin - 1 : end - 1] - expected[begin - 1 : end - 1]
        past[begin:end] = expected[begin:end] + phi * rest
    if length < 2 * BLOCK:
        return Predicted(past, np.broadcast_to(history[-1], (steps, channels)))
    mean, waves, phi = _cycle(history, steps)
    rest = history[-1] - mean - waves[length - 1]
    return Predicted(past, mean + waves[length:] + phi ** np.arange(1, steps + 1)[:, None] * rest)


def _cycle(history: Floats, steps: int) -> tuple[Floats, Floats, Floats]:
    """The mean, the waves over past and coming steps, and the part of the rest that lasts for a step."""
    length = len(history)
    mean = history.mean(axis=0)
    rest = history - mean
    waves, fits = _waves(length)
    factors = fits @ rest
    missed = ((rest[None] - waves[:, :length] @ factors) ** 2).sum(axis=1)
    best = missed.argmin(axis=0)
    angle = 2 * np.pi * np.arange(length + steps)[:, None] / (best + SHORTEST)
    chosen = factors[best, :, np.arange(history.shape[1])]
    wave = chosen[:, 0] * np.sin(angle) + chosen[:, 1] * np.cos(angle)
    wave += chosen[:, 2] * np.sin(2 * angle) + chosen[:, 3] * np.cos(2 * angle)
    left = rest - wave[:length]
    power = (left[:-1] ** 2).sum(axis=0)
    kept = (left[1:] * left[:-1]).sum(axis=0)
    phi = np.divide(kept, power, out=np.zeros_like(kept), where=power > 0)
    return mean, wave, np.clip(phi, 0.0, 1.0)


@lru_cache(maxsize=16)
def _waves(length: int) -> tuple[Floats, Floats]:
    """Sine, cosine and their overtones of every period up to the length, and their least-squares fits."""
    periods = np.arange(SHORTEST, max(SHORTEST + 1, 2 * length // 3))
    angle = 2 * np.pi * np.arange(length)[None, :] / periods[:, None]
    waves = np.stack([np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)], axis=2)
    gram = waves.transpose(0, 2, 1) @ waves + np.eye(4)
    return waves, np.linalg.solve(gram, waves.transpose(0, 2, 1))


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
def _repeated(history: Floats) -> tuple[Floats, Floats]:
    length, channels = history.shape
    longest = max(1, 2 * length // 3)
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
