"""Several stages in one micro-batch: each takes the output of the one before, under
its own key, routing and policy.

Each stage commits the batch in its own checkpoint, in order; the batch is done when the last stage
has committed it. After a crash in between, the first stages are ahead by this one batch. Spark
delivers it again: these stages publish what they committed, and the stages after them compute. So
every stage processes the rows of every batch exactly once, and the rows are the same each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from headgate.control.policy import Policy
from headgate.errors import ConfigError
from headgate.policies import get as get_policy
from headgate.spark.stage import Stage
from headgate.stage import sinks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headgate.stage.journal import Journal
    from headgate.stage.status import Status


class Pipeline:
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
        for stage, following in pairwise(stages):
            _connect(stage, following)

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(map(repr, self.stages))})"

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Process one micro-batch."""
        self.stages[0](df, batch_id)

    def drain(self) -> None:
        """Emit what the watermarks allow and process all waiting rows, stage by stage: see `Stage.drain`."""
        for stage in self.stages:
            stage.drain()

    def finish(self) -> None:
        """Declare the input complete, and close and emit everything that is open,
        stage by stage: see `Stage.finish`.
        """
        for stage in self.stages:
            stage.finish()

    def rescale(self, channels: int, *, stage: int | None = None) -> None:
        """Change the number of channels online: see `Stage.rescale`."""
        chosen = self._chosen(stage)
        for each in chosen:
            each.check_channels(channels)
        for each in chosen:
            each.rescale(channels)

    def grant(self, amount: str | int, channel: int | None = None, *, stage: int | None = None) -> None:
        """Give channels more memory for state: see `Stage.grant`."""
        self._check_memory(amount, channel, stage, sign=1)
        for each in self._chosen(stage):
            each.grant(amount, channel)

    def reclaim(self, amount: str | int, channel: int | None = None, *, stage: int | None = None) -> None:
        """Take memory back: see `Stage.reclaim`."""
        self._check_memory(amount, channel, stage, sign=-1)
        for each in self._chosen(stage):
            each.reclaim(amount, channel)

    def refresh(self, rows: DataFrame, mode: str = "replace", *, stage: int | None = None) -> None:
        """Change the build side of the join: see `Stage.refresh`. With several joins, say which stage."""
        joins = [each for each in self._chosen(stage) if each.operator.build_side() is not None]
        if len(joins) != 1:
            which = f"{len(joins)} stages have" if joins else "no stage has"
            raise ConfigError(f"{which} a build side to refresh; name one with stage=0, 1, ...")
        joins[0].refresh(rows, mode)

    @property
    def policy(self) -> list[Policy]:
        """The policy of each stage. One that is assigned decides for all of them, from the next batch on."""
        return [stage.policy for stage in self.stages]

    @policy.setter
    def policy(self, policy: str | Policy) -> None:
        chosen = get_policy(policy)
        for stage in self.stages:
            stage.policy = chosen

    def takes(self, seconds: float) -> int | None:
        """How many source rows pass the gate of the first stage in this many seconds: see `Stage.takes`."""
        return self.stages[0].takes(seconds)

    def explain(self) -> str:
        """Why each stage's last plan was made, or refused."""
        return "\n\n".join(f"{stage!r}\n{stage.explain()}" for stage in self.stages)

    def status(self) -> list[Status]:
        """The status of each stage."""
        return [stage.status() for stage in self.stages]

    def journal(self) -> list[Journal]:
        """The journal of each stage."""
        return [stage.journal() for stage in self.stages]

    def _check_memory(self, amount: str | int, channel: int | None, stage: int | None, *, sign: int) -> None:
        """Refuse a change that one of the stages cannot make, before any of them has made it."""
        for each in self._chosen(stage):
            each.flow_control.changed(amount, each.channels_of(channel), sign=sign)

    def _chosen(self, number: int | None) -> Sequence[Stage]:
        if number is None:
            return self.stages
        if not isinstance(number, int) or not 0 <= number < len(self.stages):
            raise ConfigError(f"there is no stage {number!r}: they are 0 to {len(self.stages) - 1}")
        return [self.stages[number]]


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
