"""The servers and the service at a glance, as plain data."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from headgate.service.computations import Computations
from headgate.service.queries import ACTIVE, Queries
from headgate.service.sources import Sources

SHOWN = 20
"""How many sources of a server are shown by name."""


def servers_of(
    computations: Computations, sources: Sources, readable: Container[str], last: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The servers, with those of their sources that the reader may read; `last` are the facts of the last batch."""
    status = computations.host.status()
    servers_of_source = computations.servers_of_source()
    busy, rows = last.get("busy_ms", {}), last.get("server_rows", {})
    described = []
    for server in sorted(computations.alive):
        hosted = [sources.names[s] for s, on in enumerate(servers_of_source) if server in on]
        names = [name for name in hosted if name in readable]
        described.append(
            {
                "server": server,
                "load": round(status.loads.get(server, 0.0), 3),
                "limit": round(computations.host.limit_of(server), 3),
                "computations": computations.count_on_server(server),
                "sources": len(names),
                "first_sources": names[:SHOWN],
                # Facts read back from a manifest have text where JSON keys were numbers.
                "busy_ms": busy.get(server, busy.get(str(server))),
                "rows": rows.get(server, rows.get(str(server))),
            }
        )
    return described


def status_of(computations: Computations, queries: Queries, sources: Sources) -> dict[str, Any]:
    """How much there is of everything, over all tenants."""
    status = computations.host.status()
    return {
        "queries": queries.count(),
        "active": sum(query.state == ACTIVE for query in queries.by_id.values()),
        "computations": len(computations.by_id),
        "templates": len(computations.templates),
        "sources": len(sources),
        "servers": len(computations.alive),
        "traffic": status.traffic,
        "replication": round(status.replication, 4),
    }
