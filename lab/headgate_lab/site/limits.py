"""The tables of the service's limits in `docs/reference/configuration.md`, made from the code that has them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from headgate.service.batch.attempt import MEMORY_FACTOR
from headgate.service.edge_limits import EdgeLimits
from headgate.service.flow import Flow
from headgate.service.http.routes_queries import Listed
from headgate.service.http.routes_service import Events, NewSources
from headgate.service.pace import LEAST_BACKLOG
from headgate.service.settings import Settings
from headgate.service.sources import LONGEST_TEXT
from headgate.service.tenant_limits import SETTABLE
from headgate.sql.deferral import MOST_BEHIND
from headgate.sql.limits import Limits

SECTIONS = (
    (Limits, "`[limits]`: one query and one tenant", "of one tenant"),
    (Flow, "`[service]`: what flows through a batch", ""),
    (EdgeLimits, "`[http]`: connections and requests", ""),
)
"""Where limits are set: the class that has them, a title, and the heading of the column that says whether a tenant can
have one of its own."""
FIXED = (
    ("events of a push", Events.most),
    ("queries of a bulk registration", Listed.most),
    ("sources of a bulk declaration", NewSources.most),
    ("characters of a pushed text", LONGEST_TEXT),
    ("batches whose results stay readable", Settings.kept_batches),
    ("memory of the engine of a task", Settings.memory),
    ("memory of an attempt in its process, as a multiple of that", MEMORY_FACTOR),
    ("batches by which a query may be behind before it is stopped", MOST_BEHIND),
    ("bytes that a tenant may have in the log of pushes while its queries wait for time", LEAST_BACKLOG),
)
"""Limits that cannot be set in the configuration."""


def tables(_: Path) -> str:
    """All tables, as Markdown."""
    parts = list[str]()
    for kind, title, own in SECTIONS:
        head = f"| limit | default | {own} | |" if own else "| limit | default | |"
        rows = [_row(*found, own=bool(own)) for found in described(kind)]
        parts += [f"**{title}**", "\n".join([head, "|---" * (head.count("|") - 1) + "|", *rows])]
    rows = [f"| {name} | {_shown(value)} |" for name, value in FIXED]
    parts += ["**Fixed**", "\n".join(["| limit | |", "|---|---|", *rows])]
    return "\n\n".join(parts)


def described(kind: type) -> Iterator[tuple[str, Any, str]]:
    """The fields of a class of limits: name, default, and the text below it in the code."""
    defaults = {field.name: field.default for field in fields(kind)}
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for one, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            text = following.value if isinstance(following, ast.Expr) else None
            if not isinstance(text, ast.Constant):
                raise ValueError(f"{kind.__name__}.{one.target.id} has no text")
            yield one.target.id, defaults[one.target.id], " ".join(str(text.value).split())


def _row(name: str, default: Any, text: str, *, own: bool) -> str:
    cells = [f"`{name}`", _shown(default)]
    cells += ["yes" if name in SETTABLE else ""] if own else []
    return f"| {' | '.join([*cells, text])} |".replace("|  |", "| |")


def _shown(value: Any) -> str:
    if isinstance(value, int) and value >= 1 << 20 and value & (value - 1) == 0:
        unit, size = ("GiB", 1 << 30) if value >= 1 << 30 else ("MiB", 1 << 20)
        return f"{value // size} {unit}"
    if isinstance(value, (int, float)):
        return f"{value:,.0f}" if value == int(value) else f"{value:g}"
    return str(value)
