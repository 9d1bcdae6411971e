"""The rows of a batch before anyone has read them: ranges of sources, and the steps that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headgate.sources.source import Range, Source
from headgate.streams.step import BoundStep

ROWS_PER_TASK, ROWS_OF_FUNCTIONS = 20_000, 500
"""A task with fewer rows costs more than it saves; one that calls functions of the user's, far fewer."""


@dataclass(frozen=True)
class Input:
    """A source, and the steps that its rows pass before they are routed."""

    source: Source
    steps: tuple[BoundStep, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The columns after the last step."""
        return self.steps[-1].schema if self.steps else self.source.schema()

    @property
    def rows_read_again(self) -> int:
        """How many rows may be read by several tasks, which all get the same."""
        return self.source.rows_read_again if all(step.repeatable for step in self.steps) else 0

    def only(self, columns: frozenset[str]) -> Input:
        """The same input, reading no more than these columns (as they are after the last step) need."""
        needed: frozenset[str] | None = columns
        for step in reversed(self.steps):
            needed = None if needed is None else step.needed(needed)
        if needed is None:
            return self
        names = [name for name in self.source.schema().names if name in needed]
        return replace(self, source=self.source.only(names)) if names else self


@dataclass(frozen=True)
class InputRange:
    """A range of one of the inputs."""

    input: int
    what: Any
    rows: int
    parts: int = 1


@dataclass(frozen=True)
class Planned:
    """The rows of a batch, not read yet: ranges of the inputs in the order of the source."""

    schema: pa.Schema
    inputs: tuple[Input, ...] = ()
    ranges: tuple[InputRange, ...] = ()

    @classmethod
    def of(cls, inputs: Sequence[Input], ranges: Sequence[Sequence[Range]]) -> Planned:
        """One batch: the ranges of each input."""
        parts = tuple(
            InputRange(number, part.what, part.rows, part.parts)
            for number, mine in enumerate(ranges)
            for part in mine
        )
        return cls(inputs[0].schema, tuple(inputs), parts)

    @property
    def rows(self) -> int:
        """About how many rows the sources give."""
        return sum(part.rows for part in self.ranges)

    @property
    def worth_a_task(self) -> int:
        """With how many rows a task pays. What a function of the user's takes for a row is not known, and may be long."""
        steps = [step for one_input in self.inputs for step in one_input.steps]
        return ROWS_PER_TASK if all(step.repeatable for step in steps) else ROWS_OF_FUNCTIONS

    def only(self, columns: frozenset[str]) -> Planned:
        """The same rows, without columns that nobody needs."""
        return replace(self, inputs=tuple(one_input.only(columns) for one_input in self.inputs))


PARTS_READ_AGAIN = 32
"""How many files are opened again at most: each takes a millisecond or so."""


def read_by_channels(planned: Planned, channels: int) -> bool:
    """Whether every channel reads the whole batch for itself and keeps its rows. That takes one stage of
    tasks instead of two, and sends nothing; it pays while there is little to read.

    >>> nothing = Planned(pa.schema([]))
    >>> read_by_channels(nothing, 64)
    True
    """
    again = channels - 1
    if sum(part.parts for part in planned.ranges) * again > PARTS_READ_AGAIN:
        return False
    for number, one_input in enumerate(planned.inputs):
        sizes = [part.rows for part in planned.ranges if part.input == number]
        if sizes and (min(sizes) == 0 or sum(sizes) * again > one_input.rows_read_again):
            return False
    return True


def split_tasks(
    ranges: Sequence[InputRange], tasks: int, worth: int = ROWS_PER_TASK
) -> list[list[tuple[int, InputRange]]]:
    """The ranges of each map task, with their numbers: at most `tasks` runs of neighbours with about
    equally many rows, of which `worth` pay for a task. A range without a known size counts as one that does.

    >>> parts = [InputRange(0, n, 40_000) for n in range(4)]
    >>> [[number for number, _ in task] for task in split_tasks(parts, 2)]
    [[0, 1], [2, 3]]
    """
    sizes = [part.rows or worth for part in ranges]
    total = sum(sizes)
    wanted = max(1, min(tasks, len(ranges), -(-total // worth)))
    out: list[list[tuple[int, InputRange]]] = [[] for _ in range(wanted)]
    before = 0
    for number, (part, size) in enumerate(zip(ranges, sizes, strict=True)):
        middle = before + size / 2
        out[min(wanted - 1, int(middle * wanted / total))].append((number, part))
        before += size
    return [task for task in out if task]
