"""Registries of earlier formats, brought to the present one a step at a time. Each step is one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from headgate.service.grants import EVERYONE
from headgate.service.registry import FORMAT, TABLES, Change, Registry
from headgate.service.tenants import ACTIVE, ADMIN, OPERATOR, WRITER
from headgate.service.tokens import id_of_hash, now_us
from headgate.sql.text import shape_of


def migrate(registry: Registry) -> None:
    """Bring a registry to the present format. The service must own it, so that nobody else changes it meanwhile."""
    while True:
        ((found,),) = registry.read("SELECT value FROM about WHERE name = 'format'")
        if int(found) >= FORMAT:
            return
        changes = STEPS[int(found)](registry)
        registry.write(
            *changes, ("UPDATE about SET value = ? WHERE name = 'format'", [(str(int(found) + 1),)])
        )


def _grants(registry: Registry) -> list[Change]:
    """In format 1 everyone read everything: who reads a source keeps it, and what the operator configured stays
    everyone's.
    """
    owners: dict[int, tuple[str, str]] = {
        number: (name, owner) for number, name, owner in registry.read("SELECT id, name, tenant FROM sources")
    }
    names = {name for name, _ in owners.values()}
    granted = {(name, EVERYONE) for name, owner in owners.values() if owner == OPERATOR.name}
    for tenant, numbers in registry.read(
        "SELECT DISTINCT queries.tenant, computations.sources FROM queries"
        " JOIN computations ON queries.computation = computations.id"
    ):
        granted |= {(owners[number][0], tenant) for number in json.loads(numbers)}
    stopped: Iterable[tuple[str, str]] = registry.read(
        "SELECT tenant, text FROM queries WHERE computation IS NULL"
    )
    for tenant, text in stopped:
        granted |= {(name, tenant) for name in shape_of(text).sources if name in names}
    rows = sorted(granted - set(owners.values()))
    return [("INSERT INTO grants VALUES (?, ?) ON CONFLICT (source, tenant) DO NOTHING", rows)]


def _tokens(registry: Registry) -> list[Change]:
    """In format 2 a tenant was its token: the token becomes the first of its tokens, with all that the tenant may do."""
    created = now_us()
    tenants, tokens = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for name, digest, admin in registry.read("SELECT name, token_hash, admin FROM tenants"):
        role = ADMIN if admin else WRITER
        tenants.append((name, role, ACTIVE, created))
        tokens.append((id_of_hash(digest), name, digest, role, "first", created, None, None, None))
    (table,) = (table for table in TABLES if "EXISTS tenants" in table)
    return [
        ("DROP TABLE tenants", [()]),
        (table, [()]),
        ("INSERT INTO tenants VALUES (?, ?, ?, ?)", tenants),
        ("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", tokens),
    ]


STEPS: dict[int, Callable[[Registry], list[Change]]] = {1: _grants, 2: _tokens}
"""By format: the changes that lead to the next one."""
