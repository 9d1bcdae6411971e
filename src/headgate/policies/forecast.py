"""A short forecast of the channels' costs from their past: a cycle where there is one, and the way back to the mean.

    x(t + k) = mean + cycle(t + k) + phi^k * (x(t) - mean - cycle(t))

`cycle` is one sinusoid whose period is the one that explains most of all channels' past, the newest quarter left out; it
counts for a channel only where it foretells a good part of that quarter, or chance would look like a cycle.
`phi` is what one step keeps of a deviation (lag-one autocorrelation), so a short disturbance is expected to pass and a lasting
one to last. With a short past it is the last value.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from headgate.policies.horizon import Floats

LEAST = 20
"""Steps of the past below which nothing is concluded from it."""

SHORTEST = 4
"""The shortest period, in steps."""

_EXPLAINED = 0.3


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
    phi = np.divide(kept, power, out=np.zeros_like(kept), where=power > 0)
    phi = np.clip(
        phi + (1 + 3 * phi) / length, 0.0, 1.0
    )  # a short past makes it look shorter than it is (Kendall)
    ahead = np.arange(1, steps + 1)[:, None]
    expected = mean + cycle[length:] + phi**ahead * rest[-1]
    return np.asarray(np.clip(expected, history.min(axis=0), history.max(axis=0)), dtype=np.float64)


def cautious(history: Floats, steps: int) -> Floats:
    """The forecast plus what the worst of the restless channels may be above it.

    A batch waits for its slowest channel, and the largest of n normal deviations is about sqrt(2 ln n) of them: a channel that is
    restless from step to step is planned with that much more, and gets less to do. n is the number of channels that are
    restless, (sum of deviations)^2 / sum of their squares: with one of them, or where all are alike, it changes nothing.
    """
    expected = forecast(history, steps)
    unrest = np.diff(history, axis=0).std(axis=0) if len(history) >= LEAST else np.zeros(history.shape[1])
    if not unrest.any():
        return expected
    restless = max(1.0, unrest.sum() ** 2 / (unrest**2).sum())
    return np.asarray(expected + np.sqrt(2 * np.log(restless)) * unrest, dtype=np.float64)


def _cycle(past: Floats, steps: int) -> Floats:
    """The sinusoid of the best period over past and coming steps, zero where it would not have foretold the newest quarter."""
    length = len(past)
    waves, fits = _waves(length - length // 4)
    older, newer = past[: waves.shape[1]], past[waves.shape[1] :]
    factors = fits @ older
    missed = ((older - waves @ factors) ** 2).sum(axis=(1, 2))
    period = int(missed.argmin()) + SHORTEST
    angle = 2 * np.pi * np.arange(length + steps) / period
    wave = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    foretold = wave[len(older) : length] @ factors[period - SHORTEST]
    right = ((newer - foretold) ** 2).sum(axis=0) < (1 - _EXPLAINED) * (newer**2).sum(axis=0)
    again, *_ = np.linalg.lstsq(wave[:length], past, rcond=None)
    return np.where(right, wave @ again, 0.0)


@lru_cache(maxsize=2)
def _waves(length: int) -> tuple[Floats, Floats]:
    """The sine and cosine of every period up to half of the past, and what fits them to it by least squares."""
    periods = np.arange(SHORTEST, length // 2 + 1)
    angle = 2 * np.pi * np.arange(length)[None, :] / periods[:, None]
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=2)
    return waves, np.linalg.pinv(waves)
