"""The single-source algorithm within its bounds."""

import hypothesis.strategies as st
from hypothesis import given, settings

from headgate.hosting import Workload
from headgate.hosting.offline.algorithms import solve


@given(
    counts=st.lists(st.integers(1, 9), min_size=2, max_size=30),
    rates=st.lists(st.sampled_from([1.0, 2.0, 5.0, 0.25]), min_size=30, max_size=30),
    k=st.integers(1, 8),
    unit=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_mx_24_single_source_bounds(counts, rates, k, unit) -> None:
    names = {f"s{i}": 1.0 if unit else rates[i] for i in range(len(counts))}
    load = Workload.from_names(
        names, {f"{s}/{i}": [s] for s, c in zip(names, counts, strict=True) for i in range(c)}
    )
    found = solve(load, k, "single-source")
    assert found.type.shape[0] <= len(counts) + k
    assert found.traffic == solve(load, k, "mms").traffic == solve(load, k, "ic").traffic
    if k < len(counts) and max(counts) < found.limits[0]:
        assert found.traffic <= (len(counts) + k if unit else 2 * load.rate_in_use)
