"""Reference counts against a Counter, with blocks that move and are used again."""

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given, settings

from headgate.hosting.placement.reference_counts import (
    decrement,
    enlarged,
    increment,
    new_reference_counts,
    unused_pool,
)

ROWS, SERVERS = 4, 9


@given(
    steps=st.lists(
        st.tuples(st.integers(0, ROWS - 1), st.integers(0, SERVERS - 1), st.booleans()), max_size=200
    )
)
@settings(max_examples=60, deadline=None)
def test_counts_agree_with_a_counter(steps) -> None:
    counts, expected = new_reference_counts(ROWS, pool=64), Counter[tuple[int, int]]()
    for row, server, removes in steps:
        if unused_pool(counts) < 2 * SERVERS:
            counts = enlarged(counts, pool=2 * counts.server.shape[0])
        if removes and expected[row, server]:
            expected[row, server] -= 1
            assert decrement(counts, row, server) == expected[row, server]
        else:
            expected[row, server] += 1
            assert increment(counts, row, server) == expected[row, server]
    held = {
        (row, int(counts.server[at])): int(counts.count[at])
        for row in range(ROWS)
        for at in range(counts.start[row], counts.start[row] + counts.size[row])
    }
    assert held == +expected
    assert counts.pool_end[0] <= 2 * ROWS * 2 * SERVERS, "blocks that were left are used again"
