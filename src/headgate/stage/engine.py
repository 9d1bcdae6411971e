"""What a stage asks of the engine that its rows live in. Spark is one (`headgate.spark.engine`), this process is
another (`headgate.testing.InProcess`); a stage knows neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pyarrow as pa

from headgate.flow.gate import Gate
from headgate.flow.row_ranges import RowRange
from headgate.operators.base import BoundOperator
from headgate.storage.store import Store

if TYPE_CHECKING:
    from headgate.stage.answer import Answer
    from headgate.stage.sinks import Output
    from headgate.stage.task import Task

Rows = TypeVar("Rows")
"""Rows as the engine holds them: Spark's DataFrame, or an Arrow table."""


class Watch(Protocol):
    """What a channel measures its work by."""

    def now(self) -> float:
        """Seconds since some moment."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        ...

    def pace(self, channel: int) -> float:
        """Seconds that a row takes on a channel at least: 0, but where a service time is modelled."""
        ...


@dataclass(frozen=True)
class WaveRows(Generic[Rows]):
    """Rows for one commit, and what is left of the source's batch after it."""

    rows: Rows
    rest: tuple[RowRange, ...]
    rows_at_gate: int
    """Rows of the source's whole batch, before they expand."""


class Waves(Protocol[Rows]):
    """Cuts batches of the source into waves, by a gate."""

    @property
    def rows_per_second(self) -> float | None:
        """How fast the last waves went; None while too little is known."""
        ...

    def of(
        self, rows: Rows, folder: str, rest: Sequence[RowRange] | None, *, ordered: bool
    ) -> Iterator[WaveRows[Rows]]:
        """The waves of a batch, whose rows are put aside in a folder; or those that are left of it there (`rest`).

        When the next wave is asked for, the last has been committed.
        """
        ...

    def forget(self, folder: str, is_older: Callable[[str], bool]) -> None:
        """The source's batch is committed whole: remove what was put aside of it, and what older drivers left."""
        ...


class Engine(Protocol[Rows]):
    """Does the work on rows."""

    @property
    def watch(self) -> Watch:
        """What channels measure their work by."""
        ...

    def now(self) -> float:
        """Seconds since some moment, on the driver."""
        ...

    def columns(self, rows: Rows, key: tuple[str, ...]) -> pa.Schema:
        """The columns of some rows, as operators see them. A key column that is missing or cannot be one raises an error."""
        ...

    def describe(self, rows: Rows) -> str:
        """The schema of some rows as text, from which `nothing` makes rows again."""
        ...

    def nothing(self, columns: str) -> Rows:
        """No rows, with the columns that `describe` wrote down."""
        ...

    def count(self, rows: Rows) -> int:
        """How many rows there are."""
        ...

    def routed(self, operator: BoundOperator, columns: pa.Schema) -> pa.Schema:
        """The columns that a channel's task receives (`routed_rows.routed_schema`)."""
        ...

    def run(self, rows: Rows, task: Task) -> list[Answer]:
        """Send each row to its channel under the task's table, run the task on every channel, and give the answers in order.

        An error of ours that a task raises is raised here as the one it was there.
        """
        ...

    def emitted(self, schema: pa.Schema) -> pa.Schema:
        """The schema of output files: an operator's output in Arrow's plain types, with what readers of the engine look for."""
        ...

    def frame(self, output: Output) -> Any:
        """The committed output of a batch as rows for a user's function."""
        ...

    def waves(self, gate: Gate, store: Store, expand: Callable[[Rows], Rows] | None) -> Waves[Rows]:
        """What cuts batches into waves; `store` is where rows are put aside."""
        ...

    def build_rows(self, rows: Rows, on: tuple[str, ...], key: tuple[str, ...]) -> Rows:
        """Rows of a join's build side, their columns `on` renamed to the stage's key, without those whose key is null."""
        ...

    def save(self, rows: Rows, store: Store, folder: str) -> None:
        """Write rows to a folder, whole or not at all."""
        ...

    def load(self, store: Store, folder: str) -> Rows | None:
        """Read what `save` wrote; None if it did not finish."""
        ...
