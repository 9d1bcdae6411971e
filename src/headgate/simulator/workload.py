"""The share of rows of each bin, uniform or 80/20, and Walker's alias table to draw from it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from headgate.errors import ConfigError

Floats = npt.NDArray[np.float64]
GROUPS = 16_384


def uniform(bins: int) -> Floats:
    """The same share for every bin: the paper's 16K groups divide evenly into a power of two of bins."""
    return np.full(bins, 1.0 / bins)


def eighty_twenty(bins: int, rng: np.random.Generator, *, groups: int = GROUPS, hot: float = 0.8) -> Floats:
    """Self-similar 80/20 (FLUX-E11): in any leading part, a fifth of the groups has the fraction
    `hot` of the rows.

    The groups are divided among the bins at random, as by a hash, in equal numbers.
    """
    if groups < bins:
        raise ConfigError(f"{groups} groups cannot fall on {bins} bins: give as many groups as bins at least")
    power = math.log(hot) / math.log(1 - hot)
    mass = np.diff((np.arange(groups + 1) / groups) ** power)
    place = rng.permutation(np.arange(groups) % bins)
    return np.asarray(np.bincount(place, weights=mass, minlength=bins), np.float64)


def favouring(shares: Floats, bins: npt.NDArray[np.int64], factor: float) -> Floats:
    """The shares with those of the given bins multiplied, scaled to sum to 1."""
    changed = shares.copy()
    changed[bins] *= factor
    return np.asarray(changed / changed.sum())


def alias_table(shares: Floats) -> tuple[Floats, npt.NDArray[np.int32]]:
    """Walker's method: one uniform draw gives a bin in constant time."""
    size = len(shares)
    scaled = shares * size / shares.sum()
    keep, other = np.ones(size), np.arange(size, dtype=np.int32)
    small = [i for i in range(size) if scaled[i] < 1]
    large = [i for i in range(size) if scaled[i] >= 1]
    while small and large:
        low, high = small.pop(), large[-1]
        keep[low], other[low] = scaled[low], high
        scaled[high] -= 1 - scaled[low]
        if scaled[high] < 1:
            small.append(large.pop())
    return keep, other
