"""IC and MMS against slow versions that follow their definitions."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings
from tests.hosting.offline.workloads import workloads

from headgate.hosting import Workload
from headgate.hosting.offline.algorithms import solve


def slow_greedy(load: Workload, rooms, *, total: bool):
    """IC and MMS from their definitions: all pairs, every round."""
    types, left, room = load.types, load.types.count.copy(), rooms.copy()
    members = [types.source[types.start[t] : types.start[t + 1]] for t in range(len(types))]
    has: list[set[int]] = [set() for _ in rooms]
    held = np.zeros(len(rooms))
    steps = []
    while left.any():
        pairs = [
            (
                sum(load.rates[s] for s in members[t] if s not in has[j])
                + (sum(load.rates[s] for s in has[j]) if total else 0.0),
                -types.count[t], t, held[j], j,
            )
            for t in range(len(types)) if left[t]
            for j in range(len(rooms)) if room[j] >= types.cost[t]
        ]  # fmt: skip
        _, _, t, _, j = min(pairs)
        number = min(left[t], int(room[j] / types.cost[t] + 1e-9))
        left[t] -= number
        room[j] -= number * types.cost[t]
        held[j] += number * types.cost[t]
        has[j] |= set(members[t].tolist())
        steps.append((t, j, number))
    return steps


@given(load=workloads(), k=st.integers(1, 5), total=st.booleans())
@settings(max_examples=150, deadline=None)
def test_ic_and_mms_equal_their_definitions(load, k, total) -> None:
    if np.diff(load.start).max() == 1:
        return  # the single-source algorithm answers
    found = solve(load, k, "mms" if total else "ic")
    assert list(zip(found.type, found.server, found.number, strict=True)) == slow_greedy(
        load, found.limits, total=total
    )
