"""Several stages in one micro-batch: each takes the output of the one before, under
its own key, routing and policy.

Each stage commits the batch in its own checkpoint, in order; the batch is done when the last stage
has committed it. After a crash in between, the first stages are ahead by this one batch. Spark
delivers it again: these stages publish what they committed, and the stages after them compute. So
every stage processes the rows of every batch exactly once, and the rows are the same each time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from headgate.errors import ConfigError
from headgate.spark.stage import Stage
from headgate.stage import sinks
from headgate.stage.stages import Stages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Pipeline(Stages):
    """Stages one after the other. Pass it to `foreachBatch` as you would a stage.

    Only the last stage has a sink. The key of a later stage is a column that the stage before it
    emits. The methods of a stage that runs exist here too: they act on all stages, or on the one
    whose number is given as `stage`.
    """

    def __init__(self, *stages: Stage) -> None:
        if not stages:
            raise ConfigError("a pipeline has at least one stage: hg.Pipeline(first, second, ...)")
        others = [stage for stage in stages if not isinstance(stage, Stage)]
        if others:
            raise ConfigError(f"{others[0]!r} is not a stage; a pipeline is made of hg.Stage(...)")
        paths = [stage.store.path() for stage in stages]
        twice = [path for path in paths if paths.count(path) > 1]
        if twice:
            raise ConfigError(f"two stages share the checkpoint {twice[0]}; give each a folder of its own")
        stages[-1].sink.check()
        self.stages = stages
        self._first = stages[0]
        for stage, following in pairwise(stages):
            _connect(stage, following)

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(map(repr, self.stages))})"

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Process one micro-batch."""
        self._first(df, batch_id)


def _connect(stage: Stage, following: Stage) -> None:
    """Give the committed output of each batch to the next stage; a redelivered batch has the same rows."""
    if not isinstance(stage.sink, sinks.Nowhere):
        raise ConfigError(
            f"{stage.operator!r} has the sink {stage.sink!r}; in a pipeline only the last stage has one"
        )

    def next_stage(rows: DataFrame, batch: int) -> None:
        assert stage.opened is not None, "a stage that publishes is open"
        following.process(rows, batch, f"stage:{stage.opened.checkpoint.stage}")

    stage.sink = sinks.Function(next_stage)
