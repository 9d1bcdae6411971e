"""What a service is told when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headgate.hosting import DEFAULT_RULE
from headgate.service.flow import Flow
from headgate.service.targets_config import Allowed
from headgate.sql.engine import Function
from headgate.sql.limits import Limits


@dataclass(frozen=True)
class Settings:
    """Where a service stores its data, and how large it is."""

    folder: Path
    servers: int = 4
    """Servers at the first start; later they are added and removed over HTTP."""
    tasks: int = 0
    """How many tasks a batch has at most: servers share them. 0 means as many as Spark runs at a time."""
    registry: str = ""
    """A path (SQLite) or a postgresql:// URL; empty means a SQLite file in the folder."""
    state: str = ""
    """Where state and results are stored: a folder or a URL; empty means `state` in the folder."""
    push: str = ""
    """Where pushed events wait: a folder or a URL; empty means what `places` chooses."""
    limits: Limits = field(default_factory=Limits)
    flow: Flow = field(default_factory=Flow)
    functions: Mapping[str, Function] = field(default_factory=dict)
    kept_batches: int = 500
    """For how many batches results stay readable."""
    memory: str = "512MB"
    """What the engine of one task may use."""
    rule: str = DEFAULT_RULE.name
    """How queries are placed: a rule of `headgate.hosting`."""
    repair: int = 64
    """How many computations a batch may move to servers where fewer sources have to be sent; 0 moves none."""
    refine: int = 4
    """How many samples of computations a batch divides anew with the moves that repair leaves; 0 divides none."""
    allowed: Allowed = field(default_factory=Allowed)
    """Where results may be delivered."""
    seed: int = 7
    """For a rule that draws random numbers."""
    audit_entries: int = 500_000
    """How many entries of the audit log are kept."""
