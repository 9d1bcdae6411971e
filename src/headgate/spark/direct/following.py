"""The output of one stage as the input of the next, in a direct stream with several keys."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.sources.source import CHEAP_ROWS, Demand, Range, Ranges, Source
from headgate.stage.sinks import Output, Sink
from headgate.stage.stage import KeyedStage
from headgate.state.conform import conform_table
from headgate.storage.store import Store
from headgate.streams.planned import Input, Planned
from headgate.streams.step import BoundStep

BYTES_PER_ROW = 16
"""A guess, for sharing files among tasks."""


class StageOutput(Source):
    """Committed output files of a stage. The stage before plans them, so this source plans nothing."""

    def __init__(self, schema: pa.Schema, store: Store | None = None) -> None:
        self._schema, self._store = schema, store

    def __repr__(self) -> str:
        return "the output of the stage before"

    def schema(self) -> pa.Schema:
        return self._schema

    def identity(self) -> dict[str, Any]:
        return {"source": "stage"}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        raise NotImplementedError("the stage before plans its output")

    @property
    def rows_read_again(self) -> int:
        return CHEAP_ROWS if self._store is not None and self._store.local else 0

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        assert self._store is not None
        table = pq.ParquetFile(io.BytesIO(self._store.read(what))).read(use_threads=False)
        yield from conform_table(table, self._schema).to_batches()


class Following(Sink):
    """The sink of a stage that another one follows."""

    def __init__(
        self, following: KeyedStage[Any], rows_of: Callable[[Planned], Any], schema: pa.Schema
    ) -> None:
        self._following, self._rows_of, self._schema = following, rows_of, schema
        self.steps: tuple[BoundStep, ...] = ()
        self.origin: Callable[[], str] = lambda: ""

    def __repr__(self) -> str:
        return f"the stage {self._following!r}"

    def publish(self, output: Output) -> None:
        output.verify()
        ranges = [Range(file.name, max(1, file.size // BYTES_PER_ROW)) for file in output.files]
        source = StageOutput(self._schema, output.store)
        planned = Planned.of([Input(source, self.steps)], [ranges])
        self._following.process(self._rows_of(planned), output.batch, self.origin())
