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
import numpy.typing as npt

from headgate.compiled import compiled
from headgate.policies.horizon import Floats

BLOCK = 32
"""The number of steps after which a fit is made anew."""

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
    length, channels = history.shape
    past = np.vstack([history[:1], history[:-1]])
    if length <= LAGS + 1:
        return Predicted(past, np.broadcast_to(history[-1], (steps, channels)))
    changes = np.diff(history, axis=0)
    count = np.arange(1, length + 1)[:, None]
    mean = np.cumsum(history, axis=0) / count
    size = np.sqrt(np.cumsum(changes**2, axis=0) / count[:-1])
    recent = np.lib.stride_tricks.sliding_window_view(changes, LAGS - 1, axis=0)[..., ::-1]
    features = np.concatenate(
        [(history - mean)[LAGS - 1 :, :, None], recent], axis=2
    )  # known after step LAGS - 1 + k
    wanted = changes[LAGS - 1 :]
    scale = size[LAGS - 2 : -1]
    weight = np.divide(
        1.0, scale, out=np.zeros_like(scale), where=scale > _STILL * np.abs(mean[LAGS - 1 : -1])
    )
    x = (features[:-1] * weight[:, :, None]).reshape(-1, LAGS)
    y = (wanted * weight).ravel()
    gram, right, parts = np.zeros((LAGS, LAGS)), np.zeros(LAGS), np.zeros(LAGS)
    for begin in range(0, len(wanted), BLOCK):
        rows = slice(begin * channels, (begin + BLOCK) * channels)
        past[LAGS + begin : LAGS + begin + BLOCK] += (
            features[begin : begin + BLOCK][: len(wanted) - begin] @ parts
        )
        gram += x[rows].T @ x[rows]
        right += x[rows].T @ y[rows]
        samples = max(1, int(np.count_nonzero(y[: rows.stop])))
        ridge = np.diag(_PRIOR * np.maximum(gram.diagonal() / samples, _STILL))
        parts[:] = np.linalg.solve(gram + ridge, right)
    ahead, state, value = np.empty((steps, channels)), features[-1].copy(), history[-1]
    for step in range(steps):
        change = state @ parts
        value = value + change
        ahead[step] = value
        state = np.column_stack([state[:, 0] + change, change, state[:, 1:-1]])
    return Predicted(past, ahead)


def cycle(history: Floats, steps: int) -> Predicted:
    """A sinusoid with its first overtone around the mean, and a rest that fades."""
    length, channels = history.shape
    past = np.vstack([history[:1], history[:-1]])
    for begin in range(BLOCK, length, BLOCK):
        end = min(begin + BLOCK, length)
        mean, waves, phi = _cycle(history[:begin], end - begin)
        expected = mean + waves
        rest = history[begin - 1 : end - 1] - expected[begin - 1 : end - 1]
        past[begin:end] = expected[begin:end] + phi * rest
    if length < BLOCK:
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
    along = (waves @ rest).reshape(-1, 4, history.shape[1])
    factors = fits @ along
    best = (along * factors).sum(axis=1).argmax(axis=0)  # what each period explains
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
    """Sine, cosine and their overtones of every period as rows, and what makes factors of their products."""
    periods = np.arange(SHORTEST, max(SHORTEST + 1, 2 * length // 3))
    angle = 2 * np.pi * np.arange(length)[None, :] / periods[:, None]
    waves = np.stack([np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)], axis=1)
    return waves.reshape(-1, length), np.linalg.inv(waves @ waves.transpose(0, 2, 1) + np.eye(4))


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
