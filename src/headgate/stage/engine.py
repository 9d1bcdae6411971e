"""What a stage needs from the engine that holds its rows.

Spark is one engine (`headgate.spark.engine`), the current process is another
(`headgate.testing.InProcess`); a stage knows neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.operators.base import BoundOperator
from headgate.state.keys import KeySpec
from headgate.storage.store import Store

if TYPE_CHECKING:
    from headgate.stage.answer import Answer
    from headgate.stage.settings import Expansion
    from headgate.stage.sinks import Output
    from headgate.stage.task import Task
    from headgate.stage.waves import Waves

Rows = TypeVar("Rows")
"""Rows as the engine holds them: Spark's DataFrame, or an Arrow table."""


class Watch(Protocol):
    """The clock by which a channel measures its work."""

    def now(self) -> float:
        """Seconds since an arbitrary moment."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let this much time pass."""
        ...

    def pace(self, channel: int) -> float:
        """The least time in seconds that a row takes on a channel; 0 unless a service time is modelled."""
        ...

    def reading(self, size_bytes: int) -> float:
        """The least time in seconds in which a bin of this size is read; 0 unless a disk is modelled."""
        ...


class Engine(Protocol[Rows]):
    """Does all work that touches rows."""

    @property
    def watch(self) -> Watch:
        """The clock by which channels measure their work."""
        ...

    def now(self) -> float:
        """Seconds since an arbitrary moment, on the driver."""
        ...

    def columns(self, rows: Rows, key: tuple[str, ...]) -> pa.Schema:
        """The columns of these rows, as operators see them. A missing or
        unsuitable key column raises an error.
        """
        ...

    def describe(self, rows: Rows) -> str:
        """The schema of these rows as text, from which `nothing` can make an empty set of rows."""
        ...

    def nothing(self, columns: str) -> Rows:
        """An empty set of rows with the columns that `describe` wrote as text."""
        ...

    def count(self, rows: Rows) -> int | None:
        """How many rows there are; None if rows that are delivered again cannot differ."""
        ...

    def hashes(self, keys: pa.RecordBatch, key: KeySpec) -> NDArray[np.int64]:
        """The hash of each of these keys, by which rows are routed."""
        ...

    def prepared(self, operator: BoundOperator) -> BoundOperator:
        """The operator as channels run it: itself, or one that takes rows which map tasks have combined."""
        ...

    def routed(self, operator: BoundOperator, columns: pa.Schema, rows: Rows) -> pa.Schema:
        """The columns that a channel's task receives (`routed_rows.routed_schema`)."""
        ...

    def run(self, rows: Rows, task: Task) -> list[Answer]:
        """Send each row to its channel under the task's table, run the task on every channel,
        and return the answers in order.

        A `HeadgateError` that a task raises is raised here with the same type and message.
        """
        ...

    def places(self, near: Sequence[str]) -> Sequence[str]:
        """The executors on which the channels of a table will run, as answers name them; empty if that is not
        known, or if there is only one executor. `near` is where each should be, if there is a place.
        """
        ...

    def emitted(self, schema: pa.Schema) -> pa.Schema:
        """The schema of output files: an operator's output in Arrow's plain types, with the
        metadata that readers of this engine need.
        """
        ...

    def frame(self, output: Output) -> Any:
        """The committed output of a batch as rows of this engine, for a user's function."""
        ...

    def waves(self, gates: Sequence[Expansion], store: Store) -> Waves[Rows]:
        """The object that cuts batches into waves, by gates of which each is nested in the one before;
        `store` holds the rows that wait for their wave.
        """
        ...

    def build_rows(self, rows: Rows, on: tuple[str, ...], key: tuple[str, ...]) -> Rows:
        """Rows of a join's build side, with the columns `on` renamed to the stage's key;
        rows with a null key are dropped.
        """
        ...

    def save(self, rows: Rows, store: Store, folder: str) -> None:
        """Write rows to a folder, such that `load` sees all of them or none."""
        ...

    def load(self, store: Store, folder: str) -> Rows | None:
        """Read what `save` wrote; None if it did not finish."""
        ...
