"""Keys of a real text: the words of the manual that comes with Python (`pydoc_data`), counted.

Every installation has it, so nothing is downloaded. The counts differ a little between versions of Python.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.routing.builders.placement import Bins, Hot, Placement, Tail, place
from headgate.routing.builders.problem import Objective
from headgate.routing.column_hash import hash_columns

HOT = 500
"""How many of the most frequent words are tracked."""


@cache
def counts() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The hash of each word, and how often it occurs; the most frequent first.

    >>> hashes, rows = counts()
    >>> len(hashes) == len(rows) > 2000, bool(rows[0] > 0.05 * rows.sum())
    (True, True)
    """
    from pydoc_data.topics import topics

    words = Counter(re.findall(r"[a-z]+", " ".join(topics.values()).lower())).most_common()
    names = pa.array([word for word, _ in words])
    return hash_columns([names], [names.type]), np.array([number for _, number in words], np.float64)


def grown(
    before: int, after: int, *, algorithm: str = "redist", tail: Tail = "move", bins: int = 256
) -> Placement:
    """Place the words on `before` channels, then on `after` in one step; return the second placement."""
    hashes, rows = counts()
    home, goal = hashes % bins, Objective(resources="CLL", alpha=1.1)
    keys = np.bincount(home, minlength=bins).astype(np.float64)
    left = np.bincount(home, weights=rows, minlength=bins).astype(np.float64)
    hot, hot_rows, hot_home = hashes[:HOT], rows[:HOT], home[:HOT]
    nowhere, dealt = np.full(HOT, -1, np.int64), np.arange(bins) % before
    first = place(
        Hot(hot, hot_rows, hot_home, nowhere),
        Bins(left, dealt, keys),
        before,
        objective=goal,
        algorithm=algorithm,
        tail=tail,
    )
    pinned = np.array([first.pins.get(key, -1) for key in hot.tolist()])
    np.subtract.at(left, hot_home[pinned >= 0], hot_rows[pinned >= 0])
    return place(
        Hot(hot, hot_rows, hot_home, pinned),
        Bins(left, first.bin_channel, keys),
        after,
        objective=goal,
        algorithm=algorithm,
        tail=tail,
    )
