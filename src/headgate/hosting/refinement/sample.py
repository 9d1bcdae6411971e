# mypy: allow-untyped-defs, allow-untyped-calls
"""The sample of a step of refinement: queries of two servers that both receive a source. Compiled.

It is drawn by a number that the caller gives: the same state and number give the same sample.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import bare

MOST_READS = 64
"""A query that reads more sources than this is in no sample."""
_SCANNED_PER_SAMPLED = 64
"""A sample looks at no more than so many slots for each query that it may hold."""


@bare
def mixed(number):
    """Return 64 bits each of which depends on all bits of a number (SplitMix64)."""
    z = np.uint64(number) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@bare
def below(number, end):
    """Return a number from 0 to ``end - 1`` that depends on all bits of a number."""
    return np.int64(mixed(number) % np.uint64(end))


@bare
def draw_sample(state, number, sample):
    """Write queries into ``sample``; return how many, their two servers, and a source that both receive.

    The first query that is hosted from a drawn slot on gives the first server, and the source: one of its sources that
    goes to several servers, drawn. The second server is drawn from these. The readers of that source come first in the
    sample, then other queries of both servers. Without such a source there is no sample.
    """
    slots = state.server_of.shape[0]
    if slots == 0:
        return 0, -1, -1, -1
    scans = min(slots, _SCANNED_PER_SAMPLED * sample.shape[0])
    first, looked = below(number, slots), 1
    while state.server_of[first] < 0:
        if looked == scans:
            return 0, -1, -1, -1
        first = first + 1 if first + 1 < slots else 0
        looked += 1
    home = np.int64(state.server_of[first])
    source, other = _shared_source(state, state.type_of[first], home, mixed(number))
    if source < 0:
        return 0, home, other, source
    found = 0
    for wanted in (True, False):
        query = first
        for _ in range(scans):
            at = state.server_of[query]
            if at in (home, other):
                if found == sample.shape[0]:
                    return found, home, other, source
                query_type = state.type_of[query]
                start, end = state.type_start[query_type], state.type_start[query_type + 1]
                reads = False
                for i in range(start, end):
                    reads |= state.type_source[i] == source
                if reads == wanted and end - start <= MOST_READS:
                    sample[found] = query
                    found += 1
            query = query + 1 if query + 1 < slots else 0
    return found, home, other, source


@bare
def _shared_source(state, query_type, home, number):
    """Return a source of a query type that goes to several servers, and one of these other than ``home``: both drawn, or -1."""
    start, end = state.type_start[query_type], state.type_start[query_type + 1]
    turn = below(number, end - start)
    for i in range(end - start):
        s = state.type_source[start + (turn + i) % (end - start)]
        copies = state.streams.size[s]
        if copies > 1:
            at = below(mixed(number), copies)
            if state.streams.server[state.streams.start[s] + at] == home:
                at = (at + 1) % copies
            return np.int64(s), np.int64(state.streams.server[state.streams.start[s] + at])
    return np.int64(-1), np.int64(-1)
