"""Units: servers that share one task of a batch. A statement costs milliseconds however few rows it has, so where there are
more servers than places for tasks to run, one statement answers for several servers.

A server remains what queries are placed on, added and removed. State is stored by the *home* of a unit: a number that
changes when one of its servers is lost, or when servers are divided in another way. Then the old home is lost, as a
server is, and the others take over what it had. Law: results do not depend on the units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from headgate.service.snapshot import HostingSnapshot, ServerTemplate, Version


def united(snapshot: HostingSnapshot, tasks: int | None) -> HostingSnapshot:
    """The snapshot with units in the place of servers, numbered from 0; as it is if every server has its own task."""
    if tasks is None or tasks >= len(snapshot.alive):
        return snapshot
    parts: dict[ServerTemplate, list[tuple[Version, pa.Table]]] = {}
    for (server, template), part in snapshot.constants.items():
        parts.setdefault((server % tasks, template), []).append(part)
    constants = {
        key: (
            tuple(number for version, _ in some for number in version),
            pa.concat_tables([t for _, t in some]),
        )
        for key, some in parts.items()
    }
    moving: dict[ServerTemplate, frozenset[int]] = {}
    for (server, template), origins in snapshot.moving.items():
        key, units = (server % tasks, template), frozenset(origin % tasks for origin in origins)
        moving[key] = moving.get(key, frozenset()) | units
    homes = [_home(snapshot, unit, tasks) for unit in range(tasks)]
    reading = [sorted({server % tasks for server in servers}) for servers in snapshot.servers_of_source]
    return replace(
        snapshot,
        servers=tasks,
        alive=frozenset(homes),
        servers_of_source=reading,
        constants=constants,
        moving=moving,
        homes=homes,
    )


def _home(snapshot: HostingSnapshot, unit: int, tasks: int) -> int:
    """Where a unit stores its state; never the number of a server."""
    lost = sum(server not in snapshot.alive for server in range(unit, snapshot.servers, tasks))
    return ((tasks << 20 | lost) << 20) | unit


def by_server(
    snapshot: HostingSnapshot, rows_of_source: Mapping[int, int], busy_ms: Sequence[float]
) -> tuple[dict[int, int], dict[int, float]]:
    """The rows of each server, and its part of the time of its unit, given the time of each unit: in
    proportion to the rows.
    """
    tasks = len(busy_ms)
    rows = dict.fromkeys(range(snapshot.servers) if tasks == snapshot.servers else sorted(snapshot.alive), 0)
    for source, count in rows_of_source.items():
        for server in snapshot.servers_of_source[source]:
            rows[server] += count
    of_unit = [0] * tasks
    members = [0] * tasks
    for server, count in rows.items():
        of_unit[server % tasks] += count
        members[server % tasks] += 1
    busy = {
        server: busy_ms[unit] * (count / of_unit[unit] if of_unit[unit] else 1 / members[unit])
        for server, count in rows.items()
        for unit in [server % tasks]
    }
    return rows, busy
