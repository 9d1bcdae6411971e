"""The commit record of a batch of the query service: which pieces of state live on which server, and where its results are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.storage.section_file import Section

Place = tuple[int, int, int]
"""(server, template, first pane): where pieces of state belong."""
KEPT = -1
"""In a template's place: the rows that a server keeps for its joins."""


@dataclass(frozen=True)
class Stored:
    """A section of a file, the batch that wrote it, and how many rows it holds."""

    file: str
    batch: int
    rows: int
    at: int
    size: int
    checksum: int

    @property
    def section(self) -> Section:
        """What reads it."""
        return Section((0,), self.at, self.size, self.checksum)

    def to_json(self) -> list[Any]:
        """Plain data."""
        return [self.file, self.batch, self.rows, self.at, self.size, self.checksum]


@dataclass(frozen=True)
class ServingManifest:
    """Everything that a batch committed. `latest` is how far each source has come; `facts` is what was measured."""

    batch: int
    run: str
    origin: str | None = None
    """What delivered the batch: the id of Spark's streaming query; None: a call by hand."""
    pieces: Mapping[Place, tuple[Stored, ...]] = field(default_factory=dict)
    results: Mapping[int, tuple[Stored, ...]] = field(default_factory=dict)
    """By template."""
    latest: Mapping[int, int] = field(default_factory=dict)
    faults: Mapping[int, str] = field(default_factory=dict)
    """Computations that failed in this batch, and why."""
    cut: Mapping[int, int] = field(default_factory=dict)
    """Computations that gave more than they may, and how many rows were cut off."""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state_files(self) -> set[str]:
        """Files that some piece is in."""
        return {piece.file for pieces in self.pieces.values() for piece in pieces}

    @property
    def result_files(self) -> set[str]:
        """Files that some result is in."""
        return {one.file for many in self.results.values() for one in many}

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "batch": self.batch,
            "run": self.run,
            "origin": self.origin,
            "pieces": [[*place, [one.to_json() for one in many]] for place, many in self.pieces.items()],
            "results": [
                [template, [one.to_json() for one in many]] for template, many in self.results.items()
            ],
            "latest": [list(self.latest), list(self.latest.values())],
            "faults": [list(self.faults), list(self.faults.values())],
            "cut": [list(self.cut), list(self.cut.values())],
            "facts": self.facts,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ServingManifest:
        """Read what `to_json` gave."""
        return cls(
            batch=body["batch"],
            run=body["run"],
            origin=body["origin"],
            pieces={(p[0], p[1], p[2]): _stored(p[3]) for p in body["pieces"]},
            results={template: _stored(many) for template, many in body["results"]},
            latest=dict(zip(*body["latest"], strict=True)),
            faults=dict(zip(*body["faults"], strict=True)),
            cut=dict(zip(*body["cut"], strict=True)),
            facts=body["facts"],
        )


def _stored(many: Iterable[list[Any]]) -> tuple[Stored, ...]:
    return tuple(Stored(*one) for one in many)
