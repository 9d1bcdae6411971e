"""Compiled helpers of the state."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.state import kernels as k


@given(st.lists(st.integers(0, 6), max_size=50))
def test_sort_by_bin_is_stable(bins) -> None:
    order, starts = k.sort_by_bin(np.array(bins, np.int32), 7)
    assert order.tolist() == sorted(range(len(bins)), key=lambda i: bins[i])
    assert np.diff(starts).tolist() == [bins.count(b) for b in range(7)]
