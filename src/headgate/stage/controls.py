"""What acts on a stage while it runs, from any thread, and what can be asked of it."""

from __future__ import annotations

from typing import Any

from headgate.control.explain import explained
from headgate.control.journal import decode
from headgate.control.loop import Decision
from headgate.control.modes import Mode
from headgate.control.policy import Policy
from headgate.control.report import BatchReport
from headgate.errors import ConfigError
from headgate.operators.base import Operator
from headgate.operators.event_time import Clock
from headgate.policies import get as get_policy
from headgate.stage.flow_control import FlowControl
from headgate.stage.journal import Journal
from headgate.stage.opened import Opened
from headgate.stage.shown import Explanation
from headgate.stage.status import Status
from headgate.stage.waves import Waves
from headgate.storage.journal_files import journal_lines
from headgate.storage.store import Store


class StageControls:
    """The part of a stage (`headgate.stage.stage.KeyedStage`) that looks at it and steers it."""

    key: tuple[str, ...]
    operator: Operator
    mode: Mode
    channels: int
    bins: int
    store: Store
    flow_control: FlowControl
    opened: Opened | None
    """What the first batch has fixed; None before it, and after an error."""
    _policy: Policy
    _next_policy: Policy | None
    """One that was assigned, until the next batch begins."""
    _asked: int | None
    _last: tuple[BatchReport, Decision] | None
    _clock: Clock | None
    _waves: Waves[Any] | None

    def committed(self, report: BatchReport, decision: Decision, clock: Clock) -> None:
        """Remember, after a commit, what `status` and `explain` show."""
        self._last, self._clock = (report, decision), clock

    @property
    def policy(self) -> Policy:
        """The policy in force. A name or a policy may be assigned; it decides from the next batch on."""
        return self._policy

    @policy.setter
    def policy(self, policy: str | Policy) -> None:
        self._next_policy = self._policy = get_policy(policy)

    def takes(self, seconds: float) -> int | None:
        """How many source rows pass the gate in this time, as measured; None while too little is known.

        Use it as the limit in the source's own setting (for example Kafka's
        `maxOffsetsPerTrigger`), which Spark reads when a query starts.
        """
        speed = self._waves.rows_per_second if self._waves is not None else None
        return None if speed is None else max(1, int(speed * seconds))

    def rescale(self, channels: int) -> None:
        """Change the number of channels online, at the end of the next batch that finishes."""
        self.check_channels(channels)
        if self.opened is not None:
            self.opened.loop.request_channels(channels)
        else:
            self._asked = channels

    def check_channels(self, channels: int) -> None:
        """Refuse a number of channels that cannot be."""
        if not isinstance(channels, int) or isinstance(channels, bool) or not 1 <= channels <= self.bins:
            raise ConfigError(f"{channels!r} channels for {self.bins} bins: ask for 1 to {self.bins}")

    def grant(self, amount: str | int, channel: int | None = None) -> None:
        """Give one channel, or each, more memory for state ("256MB"). A restart forgets it."""
        self.flow_control.change(amount, self.channels_of(channel), sign=1)

    def reclaim(self, amount: str | int, channel: int | None = None) -> None:
        """Take memory back from the next batch on; bins that no longer fit go to disk."""
        self.flow_control.change(amount, self.channels_of(channel), sign=-1)

    def channels_of(self, channel: int | None) -> list[int]:
        """One channel, or all of them."""
        count = self.opened.loop.table.channels if self.opened else self.channels
        if channel is not None and not 0 <= channel < count:
            raise ConfigError(f"there is no channel {channel}: they are 0 to {count - 1}")
        return list(range(count)) if channel is None else [channel]

    def explain(self) -> Explanation:
        """Why the last plan was made, or refused."""
        return Explanation(
            "no batch has been processed yet" if self._last is None else explained(*self._last)
        )

    def status(self) -> Status:
        """Channels, loads and the last decision, as a value that prints well and renders in a notebook."""
        table = self.opened.loop.table if self.opened else None
        report, decision = self._last or (None, None)
        control = (self.policy.name, self.mode.value)
        return Status(repr(self.operator), self.key, *control, table, report, decision, self._clock)

    def journal(self) -> Journal:
        """The reports and decisions so far, oldest first: a list that prints as a table."""
        return Journal(decode(line) for line in journal_lines(self.store))
