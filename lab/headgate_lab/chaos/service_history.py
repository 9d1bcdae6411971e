"""What is drawn for a history of the query service, where it differs from one of a stage."""

from __future__ import annotations

ONE_OF = 16
"""One past of so many is that of a service."""
OPERATORS = ("windows", "windows", "join", "last", "rows")
"""The kind of most of its queries."""
KEPT = (0, 0, 3)
"""Of how many batches results are kept; 0 for all."""
SERVERS = (1, 2, 2, 3)
ROUTES = (
    ("register", "move", "remove", "pause", "resume", "move", "lose", "add"),
    ("register", "move", "lose", "add"),
    ("lose", "move", "add"),
)
"""What users and operators do, and repair: it moves a computation to another server in the next batch."""
STORED = ["state", "state", "state", "log", "results", "constants"]
"""Kinds of stored files."""


def places(*, disk: bool) -> dict[str, int]:
    """Where a fault can strike, and roughly how many such operations a batch has."""
    places = {"log": 12 if disk else 4, "remove": 8 if disk else 6, ("link" if disk else "create"): 4}
    return places | {"state": 6 if disk else 3, "results": 6 if disk else 3, "constants": 6 if disk else 3}
