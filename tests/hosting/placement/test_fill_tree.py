"""The tree of the least filled server against a search over all of them."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from headgate.hosting.placement import fill_tree

fills = st.sampled_from([0.0, 0.5, 1.0, 2.0, np.inf])


@given(start=st.lists(fills, min_size=8, max_size=8), changes=st.lists(st.tuples(st.integers(0, 7), fills)))
@settings(max_examples=60, deadline=None)
def test_the_root_is_the_least_filled_server_of_lowest_number(start, changes) -> None:
    fill, tree = np.array(start), np.zeros(16, np.int32)
    fill_tree.build(tree, fill)
    assert tree[1] == np.argmin(fill)
    for server, value in changes:
        fill[server] = value
        fill_tree.update(tree, fill, server)
        assert tree[1] == np.argmin(fill)
