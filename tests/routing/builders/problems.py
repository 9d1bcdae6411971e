"""Problems for the builders, and streams whose keys follow Zipf's law."""

import numpy as np

from headgate.routing.builders import (
    Bins,
    Hot,
    Objective,
    Problem,
)
from headgate.routing.key_hash import hash_ints


def zipf(keys: int, skew: float = 1.0) -> np.ndarray:
    f = 1 / np.arange(1, keys + 1) ** skew
    return f / f.sum()


def problem(
    seed: int, *, resources: str = "LQL", utility: str = "APM", items: int = 9, channels: int = 3
) -> Problem:
    rng = np.random.default_rng(seed)
    volume = np.sort(rng.random(items))[::-1] / items
    old = rng.integers(-1, channels, items)
    return Problem(
        volume,
        old,
        channels,
        Objective(resources=resources, utility=utility),
        start=np.where(old >= 0, old, rng.integers(0, channels, items)),
        moved_state=0.01,
        dropped_state=0.02,
    )


def stage(
    skew: float, *, bins: int = 512, channels: int = 8, hot: int = 400, keys: int = 100_000
) -> tuple[Hot, Bins]:
    f = zipf(keys, skew) * 1e6
    home = hash_ints(np.arange(keys)) % bins
    rows = np.bincount(home, weights=f, minlength=bins).astype(float)
    count = np.bincount(home, minlength=bins).astype(float)
    top = np.arange(hot)
    return (
        Hot(hash_ints(top), f[top], home[top], np.full(hot, -1)),
        Bins(rows, np.arange(bins) % channels, count),
    )
