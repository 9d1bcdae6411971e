"""Predictors that look for waves in the channels' costs.

    cycle      the sinusoid of the period that explains the channel's past best, with its first overtone, and
               what is left fades
    rhythm     the same, with one wave for all channels, each as much of it as it followed so far

As with `predictors`, a prediction of the past never uses the step that it predicts, or a later one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from headgate.compiled import compiled
from headgate.policies.horizon import Floats
from headgate.policies.predictors import Predicted

Ints: TypeAlias = npt.NDArray[np.int64]

FIRST_CYCLE = 16
"""The number of steps after which waves are fitted for the first time; then after twice as many, and so on."""

AHEAD = 4
"""From how many steps before it the past of a wave is predicted. One step ahead a wave through a single step is
nearly right, because what is left of it fades slowly; further ahead it expects the step to be undone.
"""

SHORTEST = 4
"""The shortest period, in steps."""

_STILL = 1e-9  # changes of less than this part of a cost are rounding
_PRIOR = 8.0  # of how much a channel follows the wave of all, in samples


def cycles(history: Floats, steps: int, *, judged: int = AHEAD) -> tuple[Predicted, Predicted]:
    """`cycle` and `rhythm`: a sinusoid with its first overtone around the mean, and a rest that fades.

    The past is predicted from `judged` steps before.
    """
    length, channels = history.shape
    if length < FIRST_CYCLE:
        last, ahead = np.vstack([history[:1], history[:-1]]), np.broadcast_to(history[-1], (steps, channels))
        return Predicted(last, ahead), Predicted(last, ahead)
    waves = _waves(1 << (length + steps - 1).bit_length())
    shapes = _shapes(length)
    shown, seen = 4 * shapes.periods[-1], 0
    along = np.empty((len(shapes.fits), shown, channels))
    for at, fit in enumerate(shapes.fits):
        np.matmul(waves[:shown, seen:fit], history[seen:fit], out=along[at])
        seen = fit
    past, coming = _cycled(history, steps, judged, waves, along, *shapes)
    return Predicted(past[0], coming[0]), Predicted(past[1], coming[1])


@lru_cache(maxsize=4)
def _waves(length: int) -> Floats:
    """Sine, cosine and their overtones of every period as rows, the shortest period first."""
    periods = np.arange(SHORTEST, max(SHORTEST + 1, 2 * length // 3))
    angle = 2 * np.pi * np.arange(length)[None, :] / periods[:, None]
    waves = np.stack([np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)], axis=1)
    return waves.reshape(-1, length)


class _Shapes(NamedTuple):
    """What fits of waves need that depends on the length of the past alone, one fit after the other."""

    fits: Ints
    """The number of steps that a fit uses."""
    periods: Ints
    """The number of periods that these steps show."""
    alone: Floats
    """By fit: the sum of every wave over the steps since the fit before."""
    inverses: Floats
    """What makes factors of the waves' products with the past, for each period of each fit."""


@lru_cache(maxsize=256)
def _shapes(length: int) -> _Shapes:
    fits = [FIRST_CYCLE]
    while fits[-1] < length:
        fits.append(min(2 * fits[-1], length))
    periods = [max(1, 2 * fit // 3 - SHORTEST) for fit in fits]
    waves = _waves(1 << (length - 1).bit_length())[: 4 * periods[-1], :length]
    ends = zip([0, *fits], fits, strict=False)
    alone = np.array([waves[:, first:last].sum(axis=1) for first, last in ends])
    inverses = []
    for fit, number in zip(fits, periods, strict=True):
        each = waves[: 4 * number, :fit].reshape(number, 4, fit)
        inverses.append(np.linalg.inv(each @ each.transpose(0, 2, 1) + np.eye(4)))
    return _Shapes(np.array(fits), np.array(periods), alone, np.concatenate(inverses))


@compiled
def _cycled(
    history: Floats,
    steps: int,
    judged: int,
    waves: Floats,
    along: Floats,
    fits: Ints,
    periods: Ints,
    alone: Floats,
    inverses: Floats,
) -> tuple[Floats, Floats]:
    """`past` and `ahead` of `cycle` and `rhythm`; `along` are the waves' products with the steps since the fit before."""
    length, channels = history.shape
    past, ahead = np.empty((2, length, channels)), np.empty((2, steps, channels))
    for kind in range(2):
        past[kind, 0] = history[0]
        past[kind, 1:] = history[:-1]
    first, products, sums = 0, np.zeros(along.shape[1:]), np.zeros(along.shape[1])
    for at in range(len(fits)):
        products += along[at]
        sums += alone[at]
        seen = fits[at]
        found = inverses[first : first + periods[at]]
        first += periods[at]
        expected, lasts = _waved(history[:seen], length + steps, waves, products, sums, found)
        for kind in range(2):
            if seen == length:
                for c in range(channels):
                    left = history[-1, c] - expected[kind, length - 1, c]
                    for step in range(steps):
                        left *= lasts[kind, c]
                        ahead[kind, step, c] = expected[kind, length + step, c] + left
                continue
            for c in range(channels):
                lasting = lasts[kind, c] ** judged
                for t in range(seen, fits[at + 1]):
                    left = history[t - judged, c] - expected[kind, t - judged, c]
                    past[kind, t, c] = expected[kind, t, c] + lasting * left
    return past, ahead


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
