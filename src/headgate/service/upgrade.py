"""The formats of what a service stores, and how a folder of an older version becomes one of this version.

| what | format | of an older version | of a newer one |
|---|---|---|---|
| registry | `registry.FORMAT` | upgraded when a service opens it, after a copy was made | NewerFormat |
| commits, state, results | `commit_log.FORMAT` | OlderFormat | NewerFormat |
| backup | `backup.FORMAT` | read | NewerFormat |

Law: a registry is upgraded by the process that leads, after its claim: a standby of a newer version changes nothing under
a leader of an older one.
"""

from __future__ import annotations

import os
from pathlib import Path

from headgate.service.migrations import migrate
from headgate.service.places import DATABASES
from headgate.service.registry import FORMAT, Registry
from headgate.service.registry_copy import copy_database


def format_of(registry: Registry) -> int:
    """The format of a registry."""
    ((found,),) = registry.read("SELECT value FROM about WHERE name = 'format'")
    return int(found)


def upgrade(registry: Registry, where: str) -> str:
    """Bring a registry to the format of this version; returns what was done, or nothing. A SQLite file is copied first."""
    before = format_of(registry)
    if before >= FORMAT:
        return ""
    copy = _copied(Path(where), before) if not where.startswith(DATABASES) else None
    migrate(registry)
    kept = f"; as it was, it is kept in {copy}" if copy else ""
    return f"the registry was upgraded from format {before} to {format_of(registry)}{kept}"


def _copied(path: Path, before: int) -> Path:
    """Copy a SQLite registry beside itself. A copy of an earlier, interrupted upgrade is as good, and stays."""
    copy, draft = path.with_name(f"{path.name}.format-{before}"), path.with_name(f".{path.name}.copy")
    if not copy.exists():
        draft.unlink(missing_ok=True)
        copy_database(path, draft)
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        draft.rename(copy)
    return copy
