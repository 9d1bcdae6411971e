"""Paths as Spark takes them. Its readers expand `[ ] { } ? *`, and would read other files than those that are named."""

from __future__ import annotations

from headgate.storage.store import Store

_GLOB = str.maketrans({c: f"\\{c}" for c in "[]{}?*\\"})


def literal(store: Store, name: str = "") -> str:
    """What to give to Spark's readers for exactly this file or folder."""
    return str(store.fs.unstrip_protocol(store.path(name))).translate(_GLOB)
