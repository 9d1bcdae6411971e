# mypy: allow-untyped-calls
"""The exact optimum of small instances, as an integer linear program solved by HiGHS."""

from __future__ import annotations

import numpy as np

from headgate.errors import ConfigError, required
from headgate.hosting.balance import SLACK
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.workload import Floats, Workload


def optimum(
    load: Workload, sizes: Floats, limits: Floats, *, seconds: float = 60.0
) -> tuple[Assignment, bool]:
    """Return a placement of least traffic, and whether the solver proved that it is the least.

    Only for small instances, as the problem is NP-complete (MICE-8). x[t][j] is the number of queries of type t
    on server j, and y[s][j] says whether j receives s; x[t][j] > 0 requires y[s][j] for all sources s of t.
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
            fitting = min(int(types.count[t]), int(limits[j] / types.cost[t] * (1 + SLACK)))
            for s in types.source[types.start[t] : types.start[t + 1]]:
                model.addConstr(x[t][j] <= fitting * y[s][j])
    for j in range(k):
        model.addConstr(
            sum(float(types.cost[t]) * x[t][j] for t in range(len(types))) <= float(limits[j]) * (1 + SLACK)
        )
    # Equal servers are interchangeable: require falling loads, or the solver proves every order of them anew.
    for j in range(1, k):
        if limits[j] == limits[j - 1]:
            model.addConstr(
                sum(float(types.cost[t]) * (x[t][j - 1] - x[t][j]) for t in range(len(types))) >= 0
            )
    model.run()
    solution = model.getSolution()
    if not solution.value_valid:
        raise ConfigError(
            f"no placement fits: the solver says {model.modelStatusToString(model.getModelStatus())}"
        )
    amounts = np.rint(np.array(solution.col_value)[m * k :]).astype(np.int64).reshape(len(types), k)
    query_type, server = np.nonzero(amounts)
    proved = model.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return Assignment(load, sizes, limits, query_type, server, amounts[query_type, server]), bool(proved)
