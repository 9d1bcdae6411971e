"""Which files make up the state of each bin. A value, committed with every batch.

The state of bin b is the sections of b in the live files of batch `bases[b]` and later, applied in
order. The name of the last of them is the version of the bin (`heads`). A move of a bin changes
nothing here: it is a change of reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

NEVER = 1 << 62
"""The base of a bin that no longer exists (an unpinned one): no file is needed for it."""


@dataclass(frozen=True)
class StateFile:
    """One file in the state folder, and the bins that it holds."""

    name: str
    batch: int
    bins: frozenset[int]

    def to_json(self) -> list[Any]:
        """A compact form, with the bins as one hexadecimal bit set."""
        return [self.name, self.batch, format(sum(1 << b for b in self.bins), "x")]

    @classmethod
    def from_json(cls, data: list[Any]) -> StateFile:
        """Read what `to_json` wrote."""
        bits = int(data[2], 16)
        return cls(data[0], data[1], frozenset(b for b in range(bits.bit_length()) if bits >> b & 1))


@dataclass(frozen=True, kw_only=True)
class StateIndex:
    """The live files, and what is known about each bin without opening it."""

    files: tuple[StateFile, ...] = ()
    bases: Mapping[int, int] = field(default_factory=dict)
    """The batch at which the chain of files of each bin starts."""
    sizes: Mapping[int, int] = field(default_factory=dict)
    """Bytes of state by bin."""
    keys: Mapping[int, int] = field(default_factory=dict)
    """Number of keys by bin."""
    due: Mapping[int, int] = field(default_factory=dict)
    """By bin, a time before which nothing in it is due; only for bins that hold anything with a time."""
    credit: int = 0
    """Bytes that may be spent on snapshots (`state.compaction`)."""
    earned: int = 0
    """Bytes of deltas that the last batch wrote, which were added to the credit."""

    @cached_property
    def heads(self) -> dict[int, str]:
        """Bin to the name of the last live file that holds it."""
        return {b: f.name for f in self.files for b in f.bins if f.batch >= self.bases.get(b, NEVER)}

    def chain(self, b: int) -> list[StateFile]:
        """The files that make up bin b, oldest first."""
        base = self.bases.get(b)
        return [] if base is None else [f for f in self.files if f.batch >= base and b in f.bins]

    @property
    def names(self) -> frozenset[str]:
        """The names of the live files."""
        return frozenset(f.name for f in self.files)

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        return {
            "files": [f.to_json() for f in self.files],
            "bases": _columns(self.bases),
            "sizes": _columns(self.sizes),
            "keys": _columns(self.keys),
            "due": _columns(self.due),
            "credit": self.credit,
            "earned": self.earned,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StateIndex:
        """Read what `to_json` wrote."""
        by_bin = {name: dict(zip(*data[name], strict=True)) for name in ("bases", "sizes", "keys", "due")}
        files = tuple(StateFile.from_json(f) for f in data["files"])
        return cls(files=files, **by_bin, credit=data["credit"], earned=data["earned"])


def _columns(mapping: Mapping[int, int]) -> list[list[int]]:
    return [list(mapping), list(mapping.values())]


def live_files(files: tuple[StateFile, ...], bases: Mapping[int, int]) -> tuple[StateFile, ...]:
    """The files that some bin's chain still needs."""
    return tuple(f for f in files if any(f.batch >= bases.get(b, NEVER) for b in f.bins))
