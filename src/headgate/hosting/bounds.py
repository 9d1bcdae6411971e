# mypy: allow-untyped-calls
"""What no placement can go below: the capacity bound, and the exact optimum of small instances by an ILP solver."""

from __future__ import annotations

import numpy as np

from headgate.errors import ConfigError, required
from headgate.hosting.balance import SLACK
from headgate.hosting.offline import Assignment
from headgate.hosting.workload import Floats, Workload


def capacity_bound(load: Workload, rooms: Floats) -> float:
    """Return sum_s w(s) x (fewest servers that can hold the queries of s), a floor of the traffic.

    With equal rooms that is ceil(n_s / room); with unequal ones, as many of the largest as it takes.
    """
    holds = np.cumsum(np.sort(rooms)[::-1]) * (1 + SLACK)
    fewest = np.searchsorted(holds, load.users) + 1
    return float((load.rates * np.where(load.users > 0, fewest, 0)).sum())


def expected_random(load: Workload, servers: int) -> float:
    """Return the mean traffic of placing every query uniformly at random (Eq. 1; with rates, MICE-E22)."""
    readers = np.bincount(load.source, minlength=load.sources)
    return float((load.rates * servers * (1 - (1 - 1 / servers) ** readers)).sum())


def optimum(
    load: Workload, sizes: Floats, rooms: Floats, *, seconds: float = 60.0
) -> tuple[Assignment, bool]:
    """Return a placement of least traffic, and whether the solver proved it. For small instances: NP-complete (MICE-8).

    x[t, j] queries of type t on server j, y[s, j] whether j receives s; x needs y for all its sources.
    """
    highspy = required("highspy", "the exact optimum")
    types, k, m = load.types, sizes.shape[0], load.sources
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("time_limit", seconds)
    model.setOptionValue("mip_rel_gap", 0.0)
    model.setOptionValue("threads", 1)
    y = [[model.addBinary(obj=float(load.rates[s])) for _ in range(k)] for s in range(m)]
    x = [[model.addIntegral(lb=0, ub=int(types.count[t])) for _ in range(k)] for t in range(len(types))]
    for t in range(len(types)):
        model.addConstr(sum(x[t]) == int(types.count[t]))
        for j in range(k):
            most = min(int(types.count[t]), int(rooms[j] / types.cost[t] * (1 + SLACK)))
            for s in types.source[types.start[t] : types.start[t + 1]]:
                model.addConstr(x[t][j] <= most * y[s][j])
    for j in range(k):
        model.addConstr(
            sum(float(types.cost[t]) * x[t][j] for t in range(len(types))) <= float(rooms[j]) * (1 + SLACK)
        )
    # Equal servers are interchangeable: let loads fall with the number, or the solver proves each order anew.
    for j in range(1, k):
        if rooms[j] == rooms[j - 1]:
            model.addConstr(
                sum(float(types.cost[t]) * (x[t][j - 1] - x[t][j]) for t in range(len(types))) >= 0
            )
    model.run()
    found = model.getSolution()
    if not found.value_valid:
        raise ConfigError(
            f"no placement fits: the solver says {model.modelStatusToString(model.getModelStatus())}"
        )
    amounts = np.rint(np.array(found.col_value)[m * k :]).astype(np.int64).reshape(len(types), k)
    kind, server = np.nonzero(amounts)
    proved = model.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return Assignment(load, sizes, rooms, kind, server, amounts[kind, server]), bool(proved)
