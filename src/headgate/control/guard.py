"""The guard: is a plan worth carrying out now? Policies propose, the guard judges, the loop carries out.

Not judged here: a rescale that the user asked for, which is always carried out; and whether the plan is
valid for the table, which `plan.apply` checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from headgate.control.plan import Plan
from headgate.control.policy import bytes_moved
from headgate.control.refusal import Reason, Refusal
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.ids import BatchId
from headgate.routing.table import Move


@dataclass(frozen=True)
class Guard:
    """Bounds on what one plan may do, and how often.

    `min_gain`: the smallest share of the batch's time that a plan must promise to save.
    `cool_down_batches`: how many batches must pass between two changes, so that the effect of the first
    is seen before the second. `max_moves`, `max_bytes`: how much one plan may move; None is no bound.
    `notice_batches`: a change of the table that moves much state to other executors is announced up to
    this many batches ahead, and the state moves in the background (`notice`); 0 is at once.
    `damping`: how long a policy waits between two changes. "batches" is `cool_down_batches`; "flux" is
    the rule of the paper, by the time that the last move took, and "tuned" also learns whether moves
    pay (`damping`).
    """

    min_gain: float = 0.05
    cool_down_batches: int = 2
    max_moves: int | None = None
    max_bytes: int | None = None
    notice_batches: int = 64
    damping: Literal["batches", "flux", "tuned"] = "batches"

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.damping not in ("batches", "flux", "tuned"):
            raise ConfigError(f"damping={self.damping!r} is none of 'batches', 'flux' and 'tuned'")
        bounds = (self.cool_down_batches, self.max_moves or 0, self.max_bytes or 0, self.notice_batches)
        if not 0 <= self.min_gain < 1 or min(bounds) < 0:
            raise ConfigError(f"{self} is out of range: 0 <= min_gain < 1, and no bound below 0")

    def fit(self, plan: Plan, view: LoadView) -> Plan:
        """The part of a plan that fits within the bounds; the plan itself if all of it fits.

        Moves are taken in order; those that would exceed a bound are omitted. A plan with pins, unpins or
        a new number of channels is never cut, because its parts depend on each other.
        """
        indivisible = bool(plan.pins or plan.unpins) or plan.channels is not None
        if indivisible or (self.max_moves is None and self.max_bytes is None):
            return plan
        kept: list[Move] = []
        moved_bytes = 0
        for move in plan.moves:
            size = view.bin_bytes.get(move.bin, 0)
            if self.max_moves is not None and len(kept) >= self.max_moves:
                break
            if self.max_bytes is None or moved_bytes + size <= self.max_bytes:
                kept.append(move)
                moved_bytes += size
        if len(kept) == len(plan.moves):
            return plan
        note = f"{plan.reason} [{len(kept)} of {len(plan.moves)} moves fit the guard]"
        return replace(plan, moves=tuple(kept), cost=float(moved_bytes), reason=note)

    def judge(
        self, plan: Plan, view: LoadView, *, batch: BatchId, last_change: BatchId | None
    ) -> Refusal | None:
        """None to accept the plan, otherwise why not. The table last changed after batch `last_change`, or will
        change then.
        """
        wait = self.cool_down_batches if self.damping == "batches" else 0
        if last_change is not None and batch - last_change <= wait:
            return Refusal(
                Reason.cool_down,
                f"the table changed after batch {last_change}; the next change may follow batch "
                f"{last_change + wait + 1}",
            )
        if plan.channels is None and not plan.gain >= self.min_gain:
            return Refusal(
                Reason.gain_below_cost, f"gain {plan.gain:.4f} is below min_gain {self.min_gain:.4f}"
            )
        moved_bytes = max(bytes_moved(view, plan.moves), int(plan.cost))  # only the cost includes new pins
        if self.max_bytes is not None and moved_bytes > self.max_bytes:
            return Refusal(
                Reason.gain_below_cost, f"moves {moved_bytes} bytes, max_bytes is {self.max_bytes}"
            )
        if self.max_moves is not None and len(plan.moves) > self.max_moves:
            return Refusal(Reason.gain_below_cost, f"{len(plan.moves)} moves, max_moves is {self.max_moves}")
        return None
