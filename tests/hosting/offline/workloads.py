"""Workloads for the tests of offline placement."""

import hypothesis.strategies as st
import numpy as np

from headgate.hosting import Workload

CHANCE = np.array([(i * 0.6180339887) % 1 for i in range(997)])


@st.composite
def workloads(draw, *, max_sources=6, max_queries=14, max_degree=3, unit_rates=False) -> Workload:
    m = draw(st.integers(1, max_sources))
    rates = {f"s{i}": 1.0 if unit_rates else draw(st.sampled_from([1.0, 2.0, 4.0, 0.5])) for i in range(m)}
    reads = st.lists(st.sampled_from(sorted(rates)), min_size=1, max_size=max_degree)
    queries = draw(st.lists(reads, min_size=1, max_size=max_queries))
    return Workload.from_names(rates, {f"q{i}": names for i, names in enumerate(queries)})


def blocks(k: int, sources: int, queries: int) -> Workload:
    """Disjoint complete bipartite blocks (MICE-10)."""
    rates = {f"{b}.{s}": 1.0 for b in range(k) for s in range(sources)}
    return Workload.from_names(
        rates, {f"{b}/{q}": [f"{b}.{s}" for s in range(sources)] for q in range(queries) for b in range(k)}
    )
