# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiled helpers that the three builders share: the utility, and rho after one change in O(resources).

rho needs the largest and smallest level over all channels. When one channel changes, the extremes of
the others are the known extremes, or the second ones if that channel held the first; when two
channels change, perhaps the third ones. So it is enough to keep the three largest and three smallest
levels of each resource.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled, inlined
from headgate.routing.balance import RHO_FLOOR

STRICT = 1e-12
"""A readjustment must lower rho by more than this (PART-E10)."""

_FLOOR = RHO_FLOOR


@inlined
def utility_of(code, rho, gamma):
    """Return U(rho, gamma) for the value of a `Utility`."""
    if code == 1:
        return rho + gamma
    if code == 0:
        return rho
    if code == 2:
        return rho + np.log1p(gamma)
    if code == 3:
        return rho * (1.0 + gamma)
    if code == 5:
        return rho + np.log10(1.0 + gamma)
    if code == 6:
        return rho * (1.0 + np.log10(1.0 + gamma))
    return rho * (1.0 + np.log1p(gamma))


@inlined
def power(value, count):
    """Return value ** count for count 1, 2 or 3."""
    if count == 1:
        return value
    return value * value if count == 2 else value * value * value


@inlined
def root(product, total):
    """Return the geometric mean from the product of ``total`` factors."""
    if total == 1:
        return product
    return np.sqrt(product) if total == 2 else product ** (1.0 / 3.0)


@inlined
def penalty_term(high, low, scale):
    """Return one resource's rho: spread over what is allowed, floored."""
    term = (high - low) * scale
    return term if term > _FLOOR else _FLOOR


@compiled
def find_extremes(levels, top, top_at, low, low_at):
    """Fill the three largest and three smallest levels (and their channels) of each resource."""
    channels, resources = levels.shape
    for k in range(resources):
        for place in range(3):
            top[k, place] = -np.inf
            low[k, place] = np.inf
            top_at[k, place] = -1
            low_at[k, place] = -1
        for i in range(channels):
            x = levels[i, k]
            place = 3
            while place > 0 and x > top[k, place - 1]:
                place -= 1
            for p in range(2, place, -1):
                top[k, p] = top[k, p - 1]
                top_at[k, p] = top_at[k, p - 1]
            if place < 3:
                top[k, place] = x
                top_at[k, place] = i
            place = 3
            while place > 0 and x < low[k, place - 1]:
                place -= 1
            for p in range(2, place, -1):
                low[k, p] = low[k, p - 1]
                low_at[k, p] = low_at[k, p - 1]
            if place < 3:
                low[k, place] = x
                low_at[k, place] = i
