# mypy: allow-untyped-defs, allow-untyped-calls
"""The bin of each key hash, in one compiled pass over the rows."""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled

SIEVE = 4096


@compiled
def bins_of(hashes, hash_bins, pin_hashes, pin_bins):
    """The bin of the pin that has the hash, else the hash modulo `hash_bins`. Pins are sorted by hash.

    >>> bins_of(np.array([-1, 7, 9]), 4, np.array([7]), np.array([4], np.int32)).tolist()
    [3, 4, 1]
    """
    out = np.empty(len(hashes), np.int32)
    whole = (hash_bins & (hash_bins - 1)) == 0  # then a mask is the same, and takes no division
    last = len(pin_hashes) - 1
    maybe = np.zeros(SIEVE, np.bool_)  # most rows have no pin, which this tells without a search
    for h in pin_hashes:
        maybe[(h >> 20) & (SIEVE - 1)] = True
    for i in range(len(hashes)):
        h = hashes[i]
        out[i] = h & (hash_bins - 1) if whole else h % hash_bins
        if maybe[(h >> 20) & (SIEVE - 1)]:
            low, high = 0, last
            while low < high:
                middle = (low + high) >> 1
                if pin_hashes[middle] < h:
                    low = middle + 1
                else:
                    high = middle
            if pin_hashes[low] == h:
                out[i] = pin_bins[low]
    return out
