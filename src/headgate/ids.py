"""Small numbers used as identifiers: aliases of `int` that make signatures readable and cost nothing."""

from __future__ import annotations

from typing import TypeAlias

Bin: TypeAlias = int
"""The smallest movable set of keys: `0 <= bin < hash_bins` by hash, `bin >= hash_bins` for a pinned key."""

Channel: TypeAlias = int
"""One parallel instance of the operator: `0 <= channel < table.channels`."""

BatchId: TypeAlias = int
"""The logical time: Spark's micro-batch id, or the simulator's round."""

Version: TypeAlias = int
"""The serial number of a routing table: each accepted plan adds one."""
