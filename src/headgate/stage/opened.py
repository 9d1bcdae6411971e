"""A stage whose first batch has arrived: everything that is fixed from then on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headgate.control.loop import Loop
from headgate.control.view import LoadView
from headgate.errors import CheckpointMismatch
from headgate.operators.base import BoundOperator, column_type
from headgate.storage.checkpoint import Checkpoint
from headgate.storage.manifest import Manifest

if TYPE_CHECKING:
    from headgate.stage.split_keys import Tables
    from headgate.stage.stage import KeyedStage


class Opened:
    """The bound operator, the columns, the checkpoint that this driver has claimed, and the control loop."""

    def __init__(
        self,
        operator: BoundOperator,
        rows: pa.Schema,
        inputs: tuple[str, ...],
        source: pa.Schema,
        columns: str,
        output: pa.Schema,
        aside: pa.Schema,
        checkpoint: Checkpoint,
        loop: Loop,
    ) -> None:
        self.operator, self.checkpoint, self.loop = operator, checkpoint, loop
        self.rows, self.columns = rows, columns
        """The columns that arrive at a channel, and the source's columns as text (`Engine.describe`)."""
        self._types = {n: source.field(n).type for n in (*operator.key.names, *inputs)}
        self.output, self.aside = output, aside
        """The columns of output files, and of the files with rows that could not be used."""
        self.fresh = True
        """Whether no batch has been delivered since the stage was opened."""
        self.split_tables: Tables = {}
        """The state of split keys, which is on the driver."""

    def check(self, columns: pa.Schema) -> None:
        """Refuse a stream whose types have changed."""
        for name, was in self._types.items():
            now = column_type(columns, name, "the stage")
            if was != now:
                raise CheckpointMismatch(
                    f"column {name!r} was {was} and is now {now}: a stage keeps its types; cast the column, "
                    "or start another stage with a checkpoint of its own"
                )


def restored_loop(stage: KeyedStage[Any], last: Manifest | None, asked: int | None) -> Loop:
    """The control loop as the last commit left it, or a new one; `asked` is a number of channels that the user asked for."""
    routing = stage.routing
    if last is None:
        view = LoadView(alpha=routing.smoothing)
        table = stage.policy.initial(stage.bins, stage.channels)
        loop = Loop(stage.policy, stage.guard, stage.mode, table, view=view)
    else:
        loop = Loop.restore(last.loop, stage.policy, stage.guard, stage.mode)
        if loop.view.alpha != routing.smoothing:
            loop.view = replace(loop.view, alpha=routing.smoothing)
        if last.channels != stage.channels and loop.table.channels != stage.channels:
            loop.request_channels(stage.channels)
    if asked is not None:
        loop.request_channels(asked)
    return loop
