"""The limits of a query."""

from __future__ import annotations

from dataclasses import dataclass, fields

from headgate.errors import ConfigError

SECOND_US = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Bounds on one query, and on one tenant. Times are in seconds."""

    text: int = 4_000
    """Characters of SQL."""
    nesting: int = 32
    """Brackets within brackets."""
    cost: int = 300
    """Nodes of the expressions, times the sources that are read."""
    window_s: int = 86_400
    """Length of a TUMBLE or HOP window."""
    hops: int = 100
    """Windows of a HOP that one row falls into."""
    last_rows: int = 1_000
    """The n of LAST n ROWS."""
    join_s: int = 3_600
    """How far apart joined rows may lie."""
    queries: int = 200_000
    """Queries of one tenant."""
    templates: int = 100
    """Templates of one tenant: queries that differ in more than their constants and sources. Each costs statements in
    every batch."""
    sources: int = 5_000
    """Sources of one tenant."""
    grants: int = 1_000
    """Tenants to whom one source is granted; a grant to everyone is one."""
    deliveries: int = 100
    """Deliveries of one tenant."""
    seconds: float = 20.0
    """Time that a template may take on a server in one batch, for each 100,000 rows of it."""
    tenant_seconds: float = 60.0
    """The same for all queries of a tenant together. What needs more waits for the next batch; joins are stopped."""
    batch_seconds: float = 0.5
    """The same for all tenants together, if there are several. If they need more, each has an equal part, and what
    needs more waits for the next batch."""
    batch_part: float = 0.1
    """By which part one tenant may lengthen a batch while others that need less are active: by computing, and by the
    rows that it pushes. What needs more waits."""
    join_seconds: float = 5.0
    """By how many seconds the joins of one tenant may have lengthened batches beyond its part while others that need less
    are active. Joins cannot wait, so they are stopped then. A tenant pays this back with its parts of later batches."""
    rows_s: float = 100_000
    """Rows that one tenant pushes in a second, for long; those of ten seconds may come at once. A push beyond that gets
    429."""
    state_rows: int = 1_000_000
    """Rows that a join keeps of one source."""
    state_bytes: int = 1 << 30
    """Bytes of state of one tenant: windows that are open, last rows, and rows that wait."""
    result_bytes: int = 4 << 30
    """Bytes of results of one tenant that stay readable."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise ConfigError(f"limit {field.name}={value!r}: a number above 0")
