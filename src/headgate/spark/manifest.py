"""The commit record of a batch: which state files are live, under which table, with which output. A value; no
I/O.

The state of bin b is the sections of b in the live files of batch `bases[b]` and later, applied in order.
`head(b)` is the last of them: its name is the version of the bin. Moving a bin changes nothing here: it is a
change of reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import xxhash

from headgate.errors import CorruptState, NewerFormat
from headgate.flow.backlog import Backlog
from headgate.flow.waves import Range

FORMAT = 1
NEVER = 1 << 62
"""The base of a bin that is no more (an unpinned one): no file is needed for it."""


@dataclass(frozen=True)
class StateFile:
    """One file in the state folder, and the bins that it holds."""

    name: str
    batch: int
    bins: frozenset[int]

    def to_json(self) -> list[Any]:
        """Compact: the bins as one hexadecimal bit set."""
        return [self.name, self.batch, format(sum(1 << b for b in self.bins), "x")]

    @classmethod
    def from_json(cls, data: list[Any]) -> StateFile:
        """The reverse."""
        bits = int(data[2], 16)
        return cls(data[0], data[1], frozenset(b for b in range(bits.bit_length()) if bits >> b & 1))


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that batch `batch` committed."""

    batch: int
    run: str
    channels: int
    """Channels that the user's code asked for when this batch ran (the table may have others after a
    rescale)."""
    files: tuple[StateFile, ...] = ()
    bases: Mapping[int, int] = field(default_factory=dict)
    state_bytes: Mapping[int, int] = field(default_factory=dict)
    state_keys: Mapping[int, int] = field(default_factory=dict)
    backlog: Backlog = field(default_factory=Backlog)
    flow: Mapping[str, Any] = field(default_factory=dict)
    due: Mapping[int, int] = field(default_factory=dict)
    """Bin to a time before which nothing in it is due, for the bins that hold anything with a time."""
    clock: Mapping[str, Any] | None = None
    """Event time before the next batch, for an operator that goes by it."""
    aside: tuple[str, ...] = ()
    """Files of rows that could not be used, for the sink that is asked to keep them."""
    source: int | None = None
    """The batch of the source that these rows are from; None: the same number as this one's."""
    rest: tuple[Range, ...] = ()
    """What is left of the source's batch, where a gate cuts it into waves."""
    held_clock: Mapping[str, Any] | None = None
    """Event time before the source's batch, while some of it is left."""
    refreshed: int | None = None
    """The last of the build side's refreshes that the state holds, for a join."""
    credit: int = 0
    earned: int = 0
    """Bytes of deltas that this batch wrote: what it added to the credit for snapshots."""
    table: Mapping[str, Any] = field(default_factory=dict)
    loop: Mapping[str, Any] = field(default_factory=dict)
    output: tuple[str, ...] = ()
    journal: str = ""

    @property
    def of(self) -> int:
        """The number that Spark knows these rows by."""
        return self.batch if self.source is None else self.source

    @cached_property
    def heads(self) -> dict[int, str]:
        """Bin to the name of the last live file that holds it."""
        return {b: f.name for f in self.files for b in f.bins if f.batch >= self.bases.get(b, NEVER)}

    def chain(self, b: int) -> list[StateFile]:
        """The files that make up bin b, oldest first."""
        base = self.bases.get(b)
        return [] if base is None else [f for f in self.files if f.batch >= base and b in f.bins]

    def encode(self) -> bytes:
        """Bytes with a format and a checksum in front."""
        body = {
            "batch": self.batch,
            "run": self.run,
            "channels": self.channels,
            "files": [f.to_json() for f in self.files],
            "bases": _columns(self.bases),
            "state_bytes": _columns(self.state_bytes),
            "state_keys": _columns(self.state_keys),
            "backlog": self.backlog.to_json(),
            "flow": self.flow,
            "due": _columns(self.due),
            "clock": self.clock,
            "aside": list(self.aside),
            "source": self.source,
            "rest": [[some.file, some.start, some.stop] for some in self.rest],
            "held_clock": self.held_clock,
            "refreshed": self.refreshed,
            "credit": self.credit,
            "earned": self.earned,
            "table": self.table,
            "loop": self.loop,
            "output": list(self.output),
            "journal": self.journal,
        }
        return sealed(body)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Manifest:
        """Read what `encode` wrote."""
        body = unsealed(data, where)
        return cls(
            **{
                **body,
                "files": tuple(StateFile.from_json(f) for f in body["files"]),
                "bases": dict(zip(*body["bases"], strict=True)),
                "state_bytes": dict(zip(*body["state_bytes"], strict=True)),
                "state_keys": dict(zip(*body["state_keys"], strict=True)),
                "backlog": Backlog.from_json(body["backlog"]),
                "output": tuple(body["output"]),
                "due": dict(zip(*body.get("due", [[], []]), strict=True)),
                "aside": tuple(body.get("aside", ())),
                "rest": tuple(Range(*some) for some in body.get("rest", ())),
            }
        )


def sealed(body: Mapping[str, Any]) -> bytes:
    """A commit record as bytes, with a format and a checksum in front."""
    text = json.dumps(body, separators=(",", ":"))
    return f"headgate {FORMAT} {xxhash.xxh3_64_hexdigest(text.encode())}\n{text}".encode()


def unsealed(data: bytes, where: str) -> dict[str, Any]:
    """Read what `sealed` wrote."""
    first, _, text = data.decode("utf-8", errors="replace").partition("\n")
    words = first.split()
    if len(words) != 3 or words[0] != "headgate" or not words[1].isdecimal() or int(words[1]) < 1:
        raise CorruptState(f"{where} is not a headgate commit; restore it from a backup of the checkpoint")
    if int(words[1]) > FORMAT:
        raise NewerFormat(
            f"{where} has format {words[1]}, and this headgate reads up to {FORMAT}; upgrade headgate"
        )
    if xxhash.xxh3_64_hexdigest(text.encode()) != words[2]:
        raise CorruptState(
            f"{where} is damaged: its checksum does not match; restore it from a backup of the checkpoint"
        )
    body: dict[str, Any] = json.loads(text)
    return body


def _columns(mapping: Mapping[int, int]) -> list[list[int]]:
    return [list(mapping), list(mapping.values())]


def live_files(files: tuple[StateFile, ...], bases: Mapping[int, int]) -> tuple[StateFile, ...]:
    """The files that some bin's chain still needs."""
    return tuple(f for f in files if any(f.batch >= bases.get(b, NEVER) for b in f.bins))
