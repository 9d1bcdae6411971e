"""Several stages in one micro-batch: what one emits, the next takes in, each under its own key, routing and policy.

Each stage commits the batch in its own checkpoint, in order; the batch is done when the last has. A crash in between leaves the first
stages ahead by this one batch: Spark delivers it again, they give out what they committed, and those behind compute. So every
stage takes in every batch's rows exactly once, and the rows are the same each time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from headgate.errors import ConfigError
from headgate.spark.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headgate.stage.status import Status


class Pipeline:
    """Stages one after the other. Pass it to `foreachBatch` as you would a stage.

    Only the last stage has a sink. A key of a later stage is a column that the stage before it emits.
    """

    def __init__(self, *stages: Stage) -> None:
        if not stages:
            raise ConfigError("a pipeline has at least one stage: hg.Pipeline(first, second, ...)")
        wrong = [stage for stage in stages if not isinstance(stage, Stage)]
        if wrong:
            raise ConfigError(f"{wrong[0]!r} is not a stage; a pipeline is made of hg.Stage(...)")
        paths = [stage.store.path() for stage in stages]
        twice = [path for path in paths if paths.count(path) > 1]
        if twice:
            raise ConfigError(f"two stages share the checkpoint {twice[0]}; give each a folder of its own")
        stages[-1].sink.check()
        self.stages = stages
        for stage, following in pairwise(stages):
            stage.feed(following)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Process one micro-batch."""
        self.stages[0](df, batch_id)

    def drain(self) -> None:
        """Emit what the watermarks allow, and process all rows that wait, stage by stage: see `Stage.drain`."""
        for stage in self.stages:
            stage.drain()

    def finish(self) -> None:
        """Say that the input is complete: close and emit all that is open, stage by stage: see `Stage.finish`."""
        for stage in self.stages:
            stage.finish()

    def status(self) -> list[Status]:
        """The status of each stage."""
        return [stage.status() for stage in self.stages]
