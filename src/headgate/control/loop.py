"""The loop: the only mutable object of control. `step(report)` returns the decision about the next batch.

Proposing (the policy), judging (the guard) and carrying out (`plan.apply`) stay in three places. The
loop only keeps what lasts between batches: the table, the view, when the table last changed, and
what the user asked for. A change that moves much state is announced some batches ahead (`notice`);
until then the table before it stays in force, and nothing else changes.

Laws: a decision depends only on the snapshot and the report (5). A plan made from a stale table
is refused by name; a policy that raises or proposes an invalid plan causes a refusal and never
stops the stream (7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.control.damping import Damping
from headgate.control.guard import Guard
from headgate.control.modes import Mode
from headgate.control.notice import batches_ahead
from headgate.control.plan import Plan, apply
from headgate.control.policy import Policy, bytes_moved
from headgate.control.refusal import Reason, Refusal
from headgate.control.report import BatchReport
from headgate.control.view import LoadView, fold
from headgate.errors import BatchOrder, ConfigError, StaleTable
from headgate.ids import BatchId
from headgate.routing.table import Table, lost_pieces, rescale

RESCALE = "rescale"
"""The policy name of a plan that the user asked for."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What was decided after a batch.

    `base` is the newest table before the decision and `table` the newest after it: the same object if
    nothing changes. It takes effect with the next batch, or later if it says so. `asked` is the number
    of channels that the user asked for, if this step answered it.
    """

    batch: BatchId
    mode: Mode
    plan: Plan | None
    refusal: Refusal | None
    base: Table
    table: Table
    asked: int | None = None

    @property
    def changed(self) -> bool:
        """True when there is a new table."""
        return self.table is not self.base

    @property
    def notice(self) -> int:
        """The number of batches before a new table takes effect; 0 if it is in force from the next one on."""
        return self.table.from_batch - self.batch - 1 if self.changed else 0

    def to_json(self) -> dict[str, Any]:
        """JSON-native values; `table` is omitted, because it follows from the plan and `base`."""
        return {
            "batch": self.batch,
            "mode": self.mode.value,
            "plan": None if self.plan is None else self.plan.to_json(),
            "refusal": None if self.refusal is None else self.refusal.to_json(),
            "base": self.base.to_json(),
            "asked": self.asked,
            **({"notice": self.notice} if self.notice else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decision:
        """Read what `to_json` wrote."""
        base, batch = Table.from_json(data["base"]), data["batch"]
        plan = None if data["plan"] is None else Plan.from_json(data["plan"])
        refusal = None if data["refusal"] is None else Refusal.from_json(data["refusal"])
        carried_out = plan is not None and refusal is None
        table = base
        if plan is not None and carried_out:
            table = apply(plan, base, batch + 1 + data.get("notice", 0))
        mode, asked = Mode(data["mode"]), data["asked"]
        return cls(batch=batch, mode=mode, plan=plan, refusal=refusal, base=base, table=table, asked=asked)


class Loop:
    """Keeps the table in force and decides the next one.

    Only one thread may step it; any thread may request channels.
    """

    def __init__(
        self,
        policy: Policy,
        guard: Guard,
        mode: Mode | str,
        table: Table,
        *,
        view: LoadView | None = None,
    ) -> None:
        """Start from a table; `view` has the settings of the smoothing (and, on restore, its past)."""
        self.policy = policy
        self.guard = guard
        self.mode = Mode.parse(mode)
        self.table = table
        view = LoadView() if view is None else view
        self.view = view if view.keep >= policy.remembers else replace(view, keep=policy.remembers)
        self._last_batch: BatchId | None = None
        self._last_change: BatchId | None = None
        self._before = table
        self._round = None if guard.damping == "batches" else Damping.start(tuned=guard.damping == "tuned")
        self._asked: deque[int] = deque(maxlen=1)  # append and pop are atomic, so threads may share it

    def in_force(self, batch: BatchId) -> Table:
        """The table of a batch: the newest one, or that before it until it takes effect."""
        return self.table if batch >= self.table.from_batch else self._before

    def announced(self, batch: BatchId) -> Table | None:
        """The newest table, if it takes effect only after a batch."""
        return self.table if batch < self.table.from_batch else None

    def request_channels(self, channels: int) -> None:
        """Ask for a number of channels. The next step answers; of several requests the last one counts."""
        if not 1 <= channels <= self.table.hash_bins:
            raise ConfigError(
                f"{channels} channels for {self.table.hash_bins} bins: ask for 1 to {self.table.hash_bins}"
            )
        self._asked.append(int(channels))

    def step(self, report: BatchReport) -> Decision:
        """Take the report of a finished batch and decide the table from the next batch on."""
        if self._round is not None:
            self._round = self._round.after(report)
        places = [c.executor for c in sorted(report.channels, key=lambda c: c.channel)]
        return self.decide(fold(self.view, report, self.table), report.batch, places)

    def decide(self, view: LoadView, batch: BatchId, places: Sequence[str] = ()) -> Decision:
        """Like `step`, for a driver that makes its own view of the batch under the newest table. `places`
        are the executors of the channels in that batch.
        """
        if self._last_batch is not None and batch <= self._last_batch:
            raise BatchOrder(
                f"batch {batch} was reported after batch {self._last_batch}: a batch is reported once and "
                f"in order; to repeat one, restore the loop from the snapshot of the batch before it"
            )
        base = self.table
        asked = self._asked.pop() if self._asked and self.announced(batch + 1) is None else None
        self.view = view
        self._last_batch = batch
        plan: Plan | None
        table: Table | None = None
        ended = None if self._round is None or not self._round.ready else self._round.seen()
        if asked is not None:
            plan, refusal, table = self._rescale(asked, batch, places)
        elif self._round is not None and ended is None:
            plan, refusal = None, Refusal(Reason.cool_down, self._round.said)
        else:
            plan, refusal = self._consult()
            if plan is not None and refusal is None:
                plan, refusal, table = self._judge(plan, batch)
        if table is not None:
            most, gain = self.guard.notice_batches, 0.0 if plan is None or asked is not None else plan.gain
            notice = batches_ahead(self.view, base, table, places, most=most, gain=gain)
            self._before, self.table = base, replace(table, from_batch=table.from_batch + notice)
            self.view = self.view.under(table)
            self._last_change = batch + notice
        if self._round is not None and (table is not None or ended is not None):
            self._round = (ended or self._round).decided(None if table is None else table.version)
        return Decision(
            batch=batch,
            mode=self.mode,
            plan=plan,
            refusal=refusal,
            base=base,
            table=self.table,
            asked=asked,
        )

    def _rescale(
        self, channels: int, batch: BatchId, places: Sequence[str]
    ) -> tuple[Plan, Refusal | None, Table | None]:
        asked = f"asked for {channels} channels, had {self.table.channels}"
        plan, failure = self._policy_resize(channels, asked)
        if plan is None:
            moves = rescale(self.table, channels, self.view.bin_loads(self.table), places)
            plan = Plan(
                policy=RESCALE,
                from_version=self.table.version,
                moves=moves,
                unpins=lost_pieces(self.table, channels),
                channels=None if channels == self.table.channels else channels,
                cost=float(bytes_moved(self.view, moves)),
                reason=asked + failure,
            )
        if plan.is_empty:
            return plan, Refusal(Reason.nothing_to_do, f"there are {channels} channels already"), None
        return plan, None, apply(plan, self.table, batch + 1)

    def _policy_resize(self, channels: int, asked: str) -> tuple[Plan | None, str]:
        """The policy's own plan for a number of channels, or None and why its plan is not used.

        The user asked for channels, not for the policy's opinion. So the policy is consulted only in mode
        `act`, and if it has no plan, raises or returns an invalid one, the plain rescale is used instead.
        """
        if self.mode is not Mode.act:
            return None, ""
        try:
            plan = self.policy.resize(self.view, self.table, channels)
            if plan is None:
                return None, ""
            if not isinstance(plan, Plan):
                raise ConfigError(f"it returned a {type(plan).__name__}, not a Plan")
            planned = apply(plan, self.table, self.table.from_batch).channels
            if planned != channels:
                raise ConfigError(f"it planned {planned} channels")
        except Exception as error:
            return None, f"; resize of {self.policy.name} was not used: {type(error).__name__}: {error}"
        return replace(plan, policy=RESCALE, reason=f"{asked}; {plan.reason}"), ""

    def _consult(self) -> tuple[Plan | None, Refusal | None]:
        if self.mode is Mode.observe:
            return None, Refusal(Reason.observe_only, "the policy was not asked")
        try:
            plan = self.policy.propose(self.view, self.table)
        except Exception as error:
            return None, Refusal(Reason.policy_raised, f"{type(error).__name__}: {error}")
        if isinstance(plan, Refusal):
            return None, plan
        if plan is not None and not isinstance(plan, Plan):
            return None, Refusal(
                Reason.invalid_plan, f"the policy returned a {type(plan).__name__}, not a Plan"
            )
        return plan, None

    def _judge(self, plan: Plan, batch: BatchId) -> tuple[Plan, Refusal | None, Table | None]:
        try:
            start = max(batch + 1, self.table.from_batch)
            apply(plan, self.table, start)  # the whole plan must be valid, not only the part that fits
            plan = self.guard.fit(plan, self.view)
            if plan.is_empty:
                return plan, Refusal(Reason.nothing_to_do, plan.reason), None
            table = apply(plan, self.table, start)
            refusal = self.guard.judge(plan, self.view, batch=batch, last_change=self._last_change)
        except StaleTable as error:
            return plan, Refusal(Reason.stale_table, str(error)), None
        except Exception as error:
            return plan, Refusal(Reason.invalid_plan, f"{type(error).__name__}: {error}"), None
        if refusal is None and self.mode is Mode.advise:
            refusal = Refusal(Reason.advise_only, "the guard would accept it")
        return plan, refusal, table if refusal is None else None

    def snapshot(self) -> dict[str, Any]:
        """Everything that lasts between batches, as JSON-native values: commit it with the batch."""
        return {
            "table": self.table.to_json(),
            "view": self.view.to_json(),
            "last_batch": self._last_batch,
            "last_change": self._last_change,
            "asked": self._asked[-1] if self._asked else None,
            **({"before": self._before.to_json()} if self._waits() else {}),
            **({} if self._round is None else {"round": self._round.to_json()}),
        }

    def _waits(self) -> bool:
        """Whether a table is announced that is not in force in the next batch."""
        return self._last_batch is not None and self.announced(self._last_batch + 1) is not None

    @classmethod
    def restore(cls, state: Mapping[str, Any], policy: Policy, guard: Guard, mode: Mode | str) -> Loop:
        """A loop that continues exactly where the snapshot was taken."""
        view = LoadView.from_json(state["view"])
        loop = cls(policy, guard, mode, Table.from_json(state["table"]), view=view)
        loop._last_batch, loop._last_change = state["last_batch"], state["last_change"]
        if loop._round is not None and "round" in state:
            loop._round = Damping.from_json(state["round"])
        if "before" in state:
            loop._before = Table.from_json(state["before"])
        if state["asked"] is not None:
            loop._asked.append(state["asked"])
        return loop
