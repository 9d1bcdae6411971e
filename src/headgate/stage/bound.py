"""What a stage holds while it runs: a stage that has met its stream, and the part of a micro-batch at hand."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headgate.control.loop import Loop
from headgate.errors import CheckpointMismatch
from headgate.flow.row_ranges import RowRange as Range
from headgate.operators.base import BoundOperator, column_type
from headgate.spark.exchange import Exchange
from headgate.storage.checkpoint import Checkpoint


@dataclass(frozen=True)
class Part:
    """Rows of the batch `source` of what is called `origin`, after which `rest` is left of it."""

    source: int
    origin: str | None
    rest: tuple[Range, ...] = ()
    rest_in: str = ""
    """The folder of what is left."""
    rest_rows: int | None = None
    """The rows of the whole batch, where it goes through a gate."""
    extra: bool = False
    """Whether there are no rows at all: the stage adds a batch of its own."""
    complete: bool = False
    """Whether the input is complete."""


class Bound:
    """A stage that has met its stream: what is fixed from the first batch on."""

    def __init__(
        self, operator: BoundOperator, rows: pa.Schema, checkpoint: Checkpoint, loop: Loop, columns: str
    ) -> None:
        self.operator, self.rows, self.checkpoint, self.loop = operator, rows, checkpoint, loop
        self.columns = columns
        self.exchange = Exchange(operator)
        self.fresh = True
        """Whether no batch has been delivered since it was opened."""

    def check(self, source: pa.Schema) -> None:
        """Refuse a stream whose types have changed."""
        for name in (*self.operator.key.names, *self.operator.inputs):
            was, now = self.rows.field(name).type, column_type(source, name, "the stage")
            if was != now:
                raise CheckpointMismatch(
                    f"column {name!r} was {was} and is now {now}: a stage keeps its types; cast the column, "
                    "or start another stage with a checkpoint of its own"
                )
