"""Where thousands of small queries should live: sources, queries, servers, and the rules that place them (mice).

    host = hosting.Host({"road": 2.0, "rain": 1.0}, servers=8)
    host.place("q1", ["road", "rain"])

Online: `Host` with a rule. Offline: `solve`. The traffic of a placement is the rate of every source, once for each
server that hosts a query of it; balance limits bound what a server holds. Pure: no clock, no chance but what is
passed in, no Spark.
"""

from headgate.hosting.balance import Balance
from headgate.hosting.host import Decision, Host, Move, Repair, Standing
from headgate.hosting.offline.algorithms import ALGORITHMS, Assignment, reserve, solve
from headgate.hosting.online.explain import Explanation, Option
from headgate.hosting.online.rules import (
    DEFAULT,
    RULES,
    Fennel,
    Hdrf,
    LeastCost,
    LeastQT,
    LeastSource,
    MinMax,
    OnRand,
    RareFirst,
    Reserved,
    Rule,
)
from headgate.hosting.replay import Run
from headgate.hosting.workload import Types, Workload

__all__ = [
    "ALGORITHMS",
    "DEFAULT",
    "RULES",
    "Assignment",
    "Balance",
    "Decision",
    "Explanation",
    "Fennel",
    "Hdrf",
    "Host",
    "LeastCost",
    "LeastQT",
    "LeastSource",
    "MinMax",
    "Move",
    "OnRand",
    "Option",
    "RareFirst",
    "Repair",
    "Reserved",
    "Rule",
    "Run",
    "Standing",
    "Types",
    "Workload",
    "reserve",
    "solve",
]
