"""A short forecast of the channels' costs from their past: a cycle, if there is one, and a return to the mean.

    x(t + k) = mean + cycle(t + k) + phi^k * (x(t) - mean - cycle(t))

`cycle` is one sinusoid. Its period is the one that best explains the past of all channels without the
newest quarter; a channel uses it only if it predicts a good part of that quarter, because otherwise
chance could look like a cycle. `phi` is the part of a deviation that remains after one step (lag-one
autocorrelation), so a short disturbance is expected to pass and a lasting one to last. With too short a
past the forecast is the last value.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from headgate.policies.horizon import Floats

LEAST = 20
"""The number of past steps that a forecast needs."""

SHORTEST = 4
"""The shortest period, in steps."""

_EXPLAINED = 0.3


def forecast(history: Floats, steps: int) -> Floats:
    """One row for each coming step, from one row for each past step, the newest last.

    Law: each forecast is within the range of the channel's past; a constant past gives the same constant.

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
    phi = np.divide(kept, power, out=np.zeros_like(kept), where=power > 0)
    phi = np.clip(phi + (1 + 3 * phi) / length, 0.0, 1.0)  # a short past biases it downwards (Kendall)
    ahead = np.arange(1, steps + 1)[:, None]
    expected = mean + cycle[length:] + phi**ahead * rest[-1]
    return np.asarray(np.clip(expected, history.min(axis=0), history.max(axis=0)), dtype=np.float64)


def cautious(history: Floats, steps: int) -> Floats:
    """The forecast plus a margin for channels whose cost varies from step to step.

    A batch waits for its slowest channel, and the largest of n normal deviations is about sqrt(2
    ln n) standard deviations. So a channel that varies is planned with that much more cost, and
    gets less work. n is the effective number of channels that vary, (sum of deviations)^2 / sum of
    their squares. If only one channel varies, n is 1 and the margin is zero; if all vary alike,
    all get the same margin.
    """
    expected = forecast(history, steps)
    deviation = np.diff(history, axis=0).std(axis=0) if len(history) >= LEAST else np.zeros(history.shape[1])
    if not deviation.any():
        return expected
    varying = max(1.0, deviation.sum() ** 2 / (deviation**2).sum())
    return np.asarray(expected + np.sqrt(2 * np.log(varying)) * deviation, dtype=np.float64)


def _cycle(past: Floats, steps: int) -> Floats:
    """The sinusoid of the best period over past and coming steps.

    It is zero for channels whose newest quarter it would not have predicted.
    """
    length = len(past)
    waves, fits = _waves(length - length // 4)
    older, newer = past[: waves.shape[1]], past[waves.shape[1] :]
    factors = fits @ older
    missed = ((older - waves @ factors) ** 2).sum(axis=(1, 2))
    period = int(missed.argmin()) + SHORTEST
    angle = 2 * np.pi * np.arange(length + steps) / period
    wave = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    predicted = wave[len(older) : length] @ factors[period - SHORTEST]
    confirmed = ((newer - predicted) ** 2).sum(axis=0) < (1 - _EXPLAINED) * (newer**2).sum(axis=0)
    refitted, *_ = np.linalg.lstsq(wave[:length], past, rcond=None)
    return np.where(confirmed, wave @ refitted, 0.0)


@lru_cache(maxsize=2)
def _waves(length: int) -> tuple[Floats, Floats]:
    """The sine and cosine of every period up to half of the past, and their pseudo-inverses (least squares)."""
    periods = np.arange(SHORTEST, length // 2 + 1)
    angle = 2 * np.pi * np.arange(length)[None, :] / periods[:, None]
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=2)
    return waves, np.linalg.pinv(waves)
