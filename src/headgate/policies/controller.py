"""What controllers of shares have in common: reading the stage, and turning wanted shares into a plan.

    u_c = the channel's share of the work
    B_c = cost of a row on c * all rows: the seconds that all the work would take there
    y_c = B_c u_c
    move = all state bytes * seconds per byte: the time to move a share of 1

If a needed measurement is missing, or no shares fit the memory limits, the result is a named refusal
and the shares do not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headgate.control.notice import UNMEASURED_MB_S
from headgate.control.plan import Plan
from headgate.control.policy import bytes_moved
from headgate.control.refusal import Reason, Refusal
from headgate.control.view import LoadView
from headgate.errors import ConfigError
from headgate.policies.horizon import Floats
from headgate.policies.shares import Bins, bins_of, departs, moves_to, position, shares_of
from headgate.routing.table import Move, Table

_LEAST_GAIN = 1e-6  # a plan must beat rounding errors


@dataclass(frozen=True)
class Rules:
    """When a controller acts: Yfoulis and Gounaris, section V.

    `deadband`: the controller acts only if some share would change by at least this part of itself.
    `gate`: it does not act while a channel's cost changes by more than this part from one batch to the
    next; None is no gate. `settle`: the number of reports before the first action.
    """

    deadband: float = 0.05
    gate: float | None = None
    settle: int = 2

    def __post_init__(self) -> None:
        """Check the settings."""
        if not 0 <= self.deadband < 1 or self.settle < 1 or (self.gate is not None and not self.gate > 0):
            raise ConfigError(f"{self} is out of range: 0 <= deadband < 1, settle >= 1, gate > 0 or None")


@dataclass(frozen=True)
class Reading:
    """The stage as a controller sees it, with one entry for each channel.

    `move_s` is the time to move all of the state; `upper` is the largest share that fits a channel's memory.
    """

    shares: Floats
    unit_s: Floats
    move_s: float
    upper: Floats
    history: Floats
    """The `unit_s` of the last batches, as measured, for the current work: one row per batch."""
    bins: Bins
    room: Floats
    """Each channel's free memory in bytes; infinite where there is no limit."""


def read(
    view: LoadView, table: Table, rules: Rules, *, bandwidth_mb_s: float | None = None
) -> Reading | Refusal | None:
    """What the controller needs; None if there is nothing to balance, or a named reason why it cannot act."""
    bins = bins_of(view, table)
    total = float(bins.work.sum())
    if table.channels < 2 or total <= 0:
        return None
    if view.silent:
        silent = ", ".join(str(channel) for channel in sorted(view.silent))
        return Refusal(Reason.unmeasured, f"no speed was measured in the last batch on channel {silent}")
    cost_ms = np.array([view.row_cost_ms(channel) for channel in range(table.channels)])
    if not (np.isfinite(cost_ms) & (cost_ms > 0)).all():
        bad = int(np.flatnonzero(~(np.isfinite(cost_ms) & (cost_ms > 0)))[0])
        return Refusal(Reason.unmeasured, f"the cost of a row on channel {bad} is {cost_ms[bad]} ms")
    past = view.history if view.basis == "rows" else ()  # with basis `busy` a unit costs the same everywhere
    history = np.array(past, dtype=np.float64).reshape(len(past), table.channels)
    unsettled = _unsettled(view.reports, history, rules)
    if unsettled is not None:
        return unsettled
    shares, all_bytes = shares_of(bins, table.channels), float(bins.sizes.sum())
    limits = [view.memory_limit.get(channel) or math.inf for channel in range(table.channels)]
    held = np.bincount(bins.place, bins.sizes, table.channels)
    room = np.asarray(np.array(limits) - held, dtype=np.float64)
    byte_s = view.move_ms_per_byte / 1e3 or 1e-6 / UNMEASURED_MB_S
    if bandwidth_mb_s is not None:
        byte_s = 1e-6 / bandwidth_mb_s
    upper = np.full(table.channels, 1.0)
    if all_bytes > 0:
        upper = np.clip(shares + room / all_bytes, 0.0, 1.0)
    to_s = total / 1e3
    return Reading(shares, cost_ms * to_s, all_bytes * byte_s, upper, history * to_s, bins, room)


def _unsettled(reports: int, history: Floats, rules: Rules) -> Refusal | None:
    if reports < rules.settle:
        return Refusal(Reason.unsettled, f"{reports} of {rules.settle} reports have arrived")
    if rules.gate is None or len(history) < 2:
        return None
    change = np.abs(history[-1] / history[-2] - 1)
    worst = int(change.argmax())
    if change[worst] <= rules.gate:
        return None
    return Refusal(
        Reason.unsettled,
        f"the cost of a row on channel {worst} changed by {change[worst]:.1%} in one batch, the gate is {rules.gate:.1%}",
    )


def plan_to(
    planned: Floats | None,
    unit_s: Floats,
    reading: Reading,
    view: LoadView,
    table: Table,
    rules: Rules,
    *,
    policy: str,
    refine: Callable[[tuple[Move, ...]], tuple[Move, ...]] | None = None,
) -> Plan | Refusal | None:
    """The plan that brings the shares near the first row of `planned`. `refine` may change its moves.

    None within the deadband, or if the busiest channel would not gain. `unit_s` is the expected
    `Reading.unit_s`, or one row of it for each coming batch; the gain is that of the next batch. The
    deadband is applied to the last row of `planned`, the final shares, because many small steps may add
    up. If `planned` is None, no shares are within the bounds, and the result is a refusal.
    """
    if planned is None:
        most = float(reading.upper.sum())
        if most < 1:
            return Refusal(
                Reason.infeasible, f"the memory limits of the channels allow {most:.1%} of the state"
            )
        spread = float(reading.unit_s.max() / reading.unit_s.min())
        return Refusal(
            Reason.infeasible, f"the solver found no shares; the channels' speeds differ {spread:.3g}-fold"
        )
    if not departs(planned[-1], reading.shares, rules.deadband):
        return None
    target = np.round(planned[0], 6)  # the solver's last digits are not the same on every machine
    moves = moves_to(target, reading.bins, table, room=reading.room)
    if refine is not None:
        moves = refine(moves)
    after = reading.shares.copy()
    for move in moves:
        weight = reading.bins.weights[position(move.bin, table)]
        after[move.source] -= weight
        after[move.target] += weight
    soon_s = np.atleast_2d(unit_s)[0]
    times = soon_s * reading.shares
    gain = 1 - float((soon_s * after).max() / times.max())
    if not moves or not gain > _LEAST_GAIN:
        return None
    busiest = int(times.argmax())
    return Plan(
        policy=policy,
        from_version=table.version,
        moves=moves,
        gain=gain,
        cost=float(bytes_moved(view, moves)),
        reason=f"channel {busiest} takes {times[busiest] / times.mean():.2f} times the mean time; its share goes "
        f"from {reading.shares[busiest]:.3f} towards {target[busiest]:.3f}",
    )
