"""Draws that follow the shares they were made of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.simulator.workload import alias_table


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=30).filter(lambda xs: sum(xs) > 0))
def test_the_alias_table_has_the_shares_that_it_was_made_of(weights) -> None:
    shares = np.array(weights)
    keep, other = alias_table(shares)
    got = keep.copy()
    np.add.at(got, other, 1 - keep)
    assert got / len(weights) == pytest.approx(shares / shares.sum(), abs=1e-9)
