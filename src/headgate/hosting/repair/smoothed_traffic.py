# mypy: allow-untyped-defs
"""Smoothed traffic, by which repair chooses its moves: the c-th reader of a stream counts c^-3/2 of its rate.

Real traffic counts the first reader only, so moving one of three readers away saves nothing, and a search
that moves few queries at a time gets stuck with many streams still open. In smoothed traffic every reader
counts, each less than the one before. So readers leave streams with few readers for streams with many,
until a stream can be closed (after the probabilistic fanout of Kabiljo et al., Social Hash Partitioner,
VLDB'17, whose weights fall geometrically).
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import inlined

DISTINCT_WEIGHTS = 64
"""From this reader on, all readers have the same weight."""

_READER_WEIGHT = np.append(0.0, np.arange(1.0, DISTINCT_WEIGHTS + 1.0) ** -1.5)
_STREAM_WEIGHT = np.cumsum(_READER_WEIGHT)


@inlined
def reader_weight(c):
    """Return the weight of the c-th reader of a stream, in rates of its source."""
    return _READER_WEIGHT[min(c, DISTINCT_WEIGHTS)]


@inlined
def stream_weight(c):
    """Return the weight of a stream with c readers, in rates of its source."""
    return (
        _STREAM_WEIGHT[min(c, DISTINCT_WEIGHTS)]
        + max(c - DISTINCT_WEIGHTS, 0) * _READER_WEIGHT[DISTINCT_WEIGHTS]
    )
