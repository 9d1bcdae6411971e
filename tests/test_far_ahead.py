"""Which event times are believed, however the rows are cut."""

import itertools

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.far_ahead import NEVER, merged, newest_and_far_ahead, spans_of

AHEAD = 10


def slowly(newest, times):
    """The same rule, row by row: half of the rows or more are as new as the middle; from there or from what is known, no gap."""
    ordered = sorted(times)
    known = newest
    if ordered:
        # what the middle's own stretch says is newest_and_far_ahead whole
        middle = ordered[(len(ordered) - 1) // 2]
        if newest == NEVER or middle > newest + AHEAD:
            known = max(t for t in ordered if t // AHEAD == middle // AHEAD)
    for t in ordered:
        if t - known <= AHEAD:
            known = max(known, t)
    return max(newest, known), sum(t > known for t in ordered)


@given(
    times=st.lists(st.integers(0, 200) | st.integers(0, 20), max_size=30),
    newest=st.sampled_from([NEVER]) | st.integers(0, 100),
    cuts=st.lists(st.integers(0, 30), max_size=4).map(sorted),
)
@example(times=[5, 6, 7, 190], newest=NEVER, cuts=[])
@example(times=[150], newest=5, cuts=[])
@example(times=[3, 150], newest=5, cuts=[1])
def test_what_is_believed_does_not_depend_on_how_rows_are_cut(times, newest, cuts) -> None:
    parts = [times[a:b] for a, b in itertools.pairwise([0, *cuts, max([len(times), *cuts])])]
    spans = merged(spans_of(np.array(part, np.int64), newest, AHEAD) for part in parts)
    assert newest_and_far_ahead(newest, spans, AHEAD) == slowly(newest, times)
