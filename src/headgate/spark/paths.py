"""Paths for Spark's readers, which expand `[ ] { } ? *` and could read other files than the ones named."""

from __future__ import annotations

from headgate.storage.store import Store

_GLOB = str.maketrans({c: f"\\{c}" for c in "[]{}?*\\"})


def literal(store: Store, name: str = "") -> str:
    """The path that makes Spark read exactly this file or folder."""
    return str(store.fs.unstrip_protocol(store.path(name))).translate(_GLOB)
