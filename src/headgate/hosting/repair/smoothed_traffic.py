# mypy: allow-untyped-defs
"""Traffic smoothed, for choosing: the c-th reader of a stream counts c^-3/2 of its rate.

Real traffic counts the first reader only. By that, taking away one of three readers buys nothing, so a search that moves
few queries at a time stands still long before few streams are left. Smoothed, every reader counts a little and less the
more there are, so readers leave streams of few for streams of many until one can be closed (after the probabilistic
fanout of Kabiljo et al., Social Hash Partitioner, VLDB'17, whose weights fall geometrically).
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import inlined

MANY = 64
_READER = np.append(0.0, np.arange(1.0, MANY + 1.0) ** -1.5)
_UPTO = np.cumsum(_READER)


@inlined
def reader(c):
    """Return what the c-th reader of a stream counts, in its rate; from the 64th on all count alike."""
    return _READER[min(c, MANY)]


@inlined
def smoothed(c):
    """Return what a stream of c readers counts, in its rate."""
    return _UPTO[min(c, MANY)] + max(c - MANY, 0) * _READER[MANY]
