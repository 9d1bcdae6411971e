"""Where thousands of small queries run: sources, queries, servers, and the rules that place them (mice).

    host = hosting.Host({"road": 2.0, "rain": 1.0}, servers=8)
    host.place("q1", ["road", "rain"])

A server that hosts at least one query of a source receives that source once. The traffic of a
placement is the sum of these rates over all servers; balance limits bound what a server holds.
`Host` places queries online, by name, as they arrive; `solve` places a `Workload` that is known
whole; `Replay` runs a numbered trace of arrivals and departures at compiled speed. Everything here
is pure: no clock, no Spark, and no random numbers except those that the caller passes in.

One query from `Host.place` to its server:

1. `host.Host.place` checks the name, the sources and the cost.
2. `placement.name_table.NameTable` gives the query a number (its slot) and finds its query type,
   the number of its set of sources. Compiled code knows numbers only.
3. `events.apply_events` carries out the event: it asks for a server, adds the query, and repairs.
4. `online.select_server.select_server` keeps the servers that stay within their balance limit
   (`settings.limit_per_size`), scores them by the rule, and returns the best. A rule, such as
   `online.rules.RareFirst`, is a number and a parameter there.
5. `placement.state.add_query` puts the query on that server: it counts one more reader of each
   (source, server) stream, and updates load and traffic.
6. `repair.search.repair_placement` moves a few queries within the budget of a `Repair`. Now and then
   `refinement.two_way.refine_placement` divides a sample of queries anew, if the budget has a sample.
7. `Host.place` returns a `Decision`: server, added traffic, load, limit and moves.

`online.explain` repeats step 4 slowly, from the definitions, to say why a server wins. The other
modules: `workload` and `balance` (the problem), `offline` (algorithms, bounds, reference solvers).
"""

from headgate.hosting.balance import Balance
from headgate.hosting.decision import Decision, HostStatus, Move
from headgate.hosting.host import Host
from headgate.hosting.offline.algorithms import ALGORITHMS, reserve, solve
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.online.explain import Explanation, ServerOption
from headgate.hosting.online.rules import (
    DEFAULT_RULE,
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
from headgate.hosting.repair.budget import DEFAULT_REPAIR, NO_REPAIR, Repair
from headgate.hosting.replay import Replay
from headgate.hosting.workload import QueryTypes, Workload

__all__ = [
    "ALGORITHMS",
    "DEFAULT_REPAIR",
    "DEFAULT_RULE",
    "NO_REPAIR",
    "RULES",
    "Assignment",
    "Balance",
    "Decision",
    "Explanation",
    "Fennel",
    "Hdrf",
    "Host",
    "HostStatus",
    "LeastCost",
    "LeastQT",
    "LeastSource",
    "MinMax",
    "Move",
    "OnRand",
    "QueryTypes",
    "RareFirst",
    "Repair",
    "Replay",
    "Reserved",
    "Rule",
    "ServerOption",
    "Workload",
    "reserve",
    "solve",
]
