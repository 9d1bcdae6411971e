"""The demonstration's input: most rows belong to a few dozen hot keys, and the hot set
changes every few batches.

Hot keys are drawn at random, and hash routing puts several of them on one channel by chance alone,
as in practice. The default seed was chosen: of seeds 0 to 9 it is the worst for hash routing (its
busiest channel has 2.3 times the mean; the others lie between 1.5 and 1.9), so it shows more than a
typical stream would. No hot key fills a channel by itself, so moving bins can help; where two of
the hottest share a bin (another seed may do that), moving bins cannot separate them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

SPAN_S = 2  # between the files' times: the file source reads them in the order of their times


@dataclass(frozen=True)
class Skew:
    """How skewed the stream is, and how often it changes. `hot_share` of the rows go to `hot_keys`
    keys, the k-th with weight k**-`bend`.
    """

    batches: int = 21
    rows_per_batch: int = 16_000
    keys: int = 20_000
    hot_keys: int = 24
    hot_share: float = 0.8
    bend: float = 0.6
    shift_every: int = 7
    seed: int = 7

    @property
    def shifts(self) -> tuple[int, ...]:
        """The batches that begin with a new hot set."""
        return tuple(range(self.shift_every, self.batches, self.shift_every))


def weights(skew: Skew) -> NDArray[np.float64]:
    """The share of each hot key in all rows, hottest first."""
    weight = np.arange(1, skew.hot_keys + 1) ** -skew.bend
    return np.asarray(skew.hot_share * weight / weight.sum())


def batch(skew: Skew, number: int) -> pa.Table:
    """One batch: `seq` numbers the rows of the whole stream, `user` is the key, `amount` its value."""
    era = np.random.default_rng((skew.seed, 0, number // skew.shift_every))
    hot = era.choice(skew.keys, skew.hot_keys, replace=False)
    draw = np.random.default_rng((skew.seed, 1, number))
    n = skew.rows_per_batch
    chances = np.append(weights(skew), 1 - skew.hot_share)
    which = draw.choice(skew.hot_keys + 1, n, p=chances / chances.sum())
    user = np.where(which < skew.hot_keys, np.append(hot, 0)[which], draw.integers(0, skew.keys, n))
    return pa.table(
        {
            "seq": np.arange(number * n, (number + 1) * n, dtype=np.int64),
            "user": user.astype(np.int64),
            "amount": np.round(draw.gamma(2.0, 30.0, n), 2),
        }
    )


def write(skew: Skew, folder: Path) -> None:
    """Write every batch as a Parquet file, with modification times in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(skew.batches):
        path = folder / f"batch-{number:05d}.parquet"
        pq.write_table(batch(skew, number), path)
        when = path.stat().st_mtime - SPAN_S * (skew.batches - number)
        os.utime(path, (when, when))
