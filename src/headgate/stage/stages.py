"""Several stages as one: what acts on a stage that runs acts on all of them, or on a chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.control.policy import Policy
from headgate.errors import ConfigError
from headgate.policies import get as get_policy
from headgate.stage.journal import Journal
from headgate.stage.shown import Explanation
from headgate.stage.stage import KeyedStage
from headgate.stage.status import Status


class Stages:
    """The methods of a stage that runs, for several. `stage` is the number of a single one."""

    stages: Sequence[KeyedStage[Any]]

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

    def refresh(self, rows: Any, mode: str = "replace", *, stage: int | None = None) -> None:
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

    def explain(self) -> Explanation:
        """Why each stage's last plan was made, or refused."""
        return Explanation("\n\n".join(f"{stage!r}\n{stage.explain()}" for stage in self.stages))

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

    def _chosen(self, number: int | None) -> Sequence[KeyedStage[Any]]:
        if number is None:
            return self.stages
        if not isinstance(number, int) or not 0 <= number < len(self.stages):
            raise ConfigError(f"there is no stage {number!r}: they are 0 to {len(self.stages) - 1}")
        return [self.stages[number]]
