"""A decision in words: what was measured, what was proposed, and why it was carried out or refused."""

from __future__ import annotations

from headgate.control.loop import Decision
from headgate.control.plan import Plan
from headgate.control.refusal import Reason
from headgate.control.report import BatchReport
from headgate.sizes import show_bytes

REMEDIES = {
    Reason.stale_table: "the policy used a table that is no longer in force; it is asked again after the next batch",
    Reason.gain_below_cost: "loosen the guard (min_gain, max_bytes, max_moves) if such plans should pass",
    Reason.cool_down: "it is asked again once the last change has shown its effect (cool_down_batches)",
    Reason.policy_raised: "the stream goes on with the current table; fix the policy",
    Reason.invalid_plan: "the stream goes on with the current table; fix the policy",
    Reason.observe_only: "mode='advise' would ask the policy, mode='act' would carry out its plans",
    Reason.advise_only: "mode='act' would carry it out",
    Reason.nothing_to_do: "nothing needs to be done",
    Reason.key_too_hot: "use fewer channels, an operator whose keys can be split, or a finer key",
    Reason.unmeasured: "the current shares stay until every channel reports again; find out why one does not",
    Reason.unsettled: "it is asked again when the channels' speeds are stable for a batch (settle, gate)",
    Reason.infeasible: "grant the channels more memory, or add channels",
}
_SHOWN = 8


def explained(report: BatchReport, decision: Decision) -> str:
    """Why the last plan was made, or refused, in several lines."""
    lines = [_measured(report)]
    if decision.plan is None and decision.refusal is None:
        lines.append("the policy found nothing to change")
    if decision.plan is not None:
        lines += _plan_lines(decision.plan, report)
    if decision.refusal is not None:
        refusal = decision.refusal
        lines.append(f"refused: {refusal.name.value}: {refusal.detail}")
        lines.append(f"  {REMEDIES[refusal.name]}")
    elif decision.plan is not None:
        lines.append(
            f"carried out: table {decision.table.version} is in force from batch {decision.table.from_batch}"
        )
    return "\n".join(lines)


def _measured(report: BatchReport) -> str:
    busiest = max(report.channels, key=lambda c: (c.busy_ms, -c.channel), default=None)
    if busiest is None:
        return f"batch {report.batch}: no channels"
    text = (
        f"batch {report.batch}: {report.rows:,} rows in {report.wall_ms:,.0f} ms; channel {busiest.channel} was busiest, "
        f"{busiest.busy_ms:,.0f} ms for {busiest.rows:,} rows, {report.balance}"
    )
    spilled = [c for c in report.channels if c.disk_bytes]
    if spilled:
        text += "; on disk for lack of memory: " + ", ".join(
            f"channel {c.channel} {show_bytes(c.disk_bytes)} (limit {show_bytes(c.memory_limit)})"
            for c in spilled[:_SHOWN]
        )
    waiting = sum(c.backlog_rows for c in report.channels)
    return f"{text}; {waiting:,} rows wait" if waiting else text


def _plan_lines(plan: Plan, report: BatchReport) -> list[str]:
    """The plan with its gain and cost, and its first steps with the size of each."""
    bins = {b.bin: b for b in report.bins}
    gain = f", gain {plan.gain:.1%} of the busiest channel's time" if plan.gain else ""
    lines = [f"{plan.policy}: {plan.reason}", f"  moves {show_bytes(plan.cost)}{gain}"]
    if plan.channels is not None:
        lines.append(f"  {plan.channels} channels from now on")
    lines += [f"  pin {pin.label or pin.hash} to bin {pin.bin}" for pin in plan.pins[:_SHOWN]]
    if len(plan.pins) > _SHOWN:
        lines.append(f"  and {len(plan.pins) - _SHOWN} more pins")
    if plan.unpins:
        lines.append(
            f"  unpin bins {', '.join(map(str, plan.unpins[:_SHOWN]))}{' ...' if len(plan.unpins) > _SHOWN else ''}"
        )
    for move in plan.moves[:_SHOWN]:
        moved = bins.get(move.bin)
        size = f" ({moved.rows:,} rows a batch, {show_bytes(moved.state_bytes)})" if moved else ""
        lines.append(f"  bin {move.bin}{size}: channel {move.source} to {move.target}")
    if len(plan.moves) > _SHOWN:
        lines.append(f"  and {len(plan.moves) - _SHOWN} more moves")
    return lines
