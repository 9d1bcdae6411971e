"""A decision in words: what was seen, what was proposed, what became of it and why."""

from __future__ import annotations

from headgate.control.loop import Decision
from headgate.control.plan import Plan
from headgate.control.refusal import Reason
from headgate.control.report import BatchReport
from headgate.sizes import show_bytes

REMEDIES = {
    Reason.stale_table: "the policy answered for a table that is gone; it is asked again after the next batch",
    Reason.gain_below_cost: "loosen the guard (min_gain, max_bytes, max_moves) if such plans should pass",
    Reason.cool_down: "it is asked again once the last change has shown its effect (cool_down_batches)",
    Reason.policy_raised: "the stream goes on under the present table; mend the policy",
    Reason.invalid_plan: "the stream goes on under the present table; mend the policy",
    Reason.observe_only: "mode='advise' would ask it, mode='act' would follow it",
    Reason.advise_only: "mode='act' would carry it out",
    Reason.nothing_to_do: "nothing needs to be done",
    Reason.key_too_hot: "use fewer channels, an operator whose keys can be split, or a finer key",
    Reason.unmeasured: "the present shares stand until every channel reports again; see why it does not",
    Reason.unsettled: "it is asked again when the channels' speeds have stood still for a batch (settle, gate)",
    Reason.infeasible: "grant the channels more memory, or add channels",
}
_SHOWN = 8


def explained(report: BatchReport, decision: Decision) -> str:
    """Why the last plan was made, or refused; several lines."""
    lines = [_seen(report)]
    if decision.plan is None and decision.refusal is None:
        lines.append("the policy found nothing to change")
    if decision.plan is not None:
        lines += _planned(decision.plan, report)
    if decision.refusal is not None:
        refusal = decision.refusal
        lines.append(f"refused: {refusal.name.value}: {refusal.detail}")
        lines.append(f"  {REMEDIES[refusal.name]}")
    elif decision.plan is not None:
        lines.append(
            f"carried out: table {decision.table.version} is in force from batch {decision.batch + 1}"
        )
    return "\n".join(lines)


def _seen(report: BatchReport) -> str:
    busiest = max(report.channels, key=lambda one: (one.busy_ms, -one.channel), default=None)
    if busiest is None:
        return f"batch {report.batch}: no channels"
    text = (
        f"batch {report.batch}: {report.rows:,} rows in {report.wall_ms:,.0f} ms; channel {busiest.channel} was busiest, "
        f"{busiest.busy_ms:,.0f} ms for {busiest.rows:,} rows, {report.imbalance:.2f} times the mean"
    )
    short = [one for one in report.channels if one.disk_bytes]
    if short:
        text += "; on disk for lack of memory: " + ", ".join(
            f"channel {one.channel} {show_bytes(one.disk_bytes)} (limit {show_bytes(one.memory_limit)})"
            for one in short[:_SHOWN]
        )
    waiting = sum(one.backlog_rows for one in report.channels)
    return f"{text}; {waiting:,} rows wait" if waiting else text


def _planned(plan: Plan, report: BatchReport) -> list[str]:
    """The plan, its promise and its price, and its first steps with what they carry."""
    seen = {one.bin: one for one in report.bins}
    gain = f", gain {plan.gain:.1%} of the busiest channel's time" if plan.gain else ""
    lines = [f"{plan.policy}: {plan.reason}", f"  moves {show_bytes(plan.cost)}{gain}"]
    if plan.channels is not None:
        lines.append(f"  {plan.channels} channels from now on")
    lines += [f"  pin {pin.label or pin.hash} to bin {pin.bin}" for pin in plan.pins[:_SHOWN]]
    if len(plan.pins) > _SHOWN:
        lines.append(f"  and {len(plan.pins) - _SHOWN} pins more")
    if plan.unpins:
        lines.append(
            f"  unpin bins {', '.join(map(str, plan.unpins[:_SHOWN]))}{' ...' if len(plan.unpins) > _SHOWN else ''}"
        )
    for move in plan.moves[:_SHOWN]:
        one = seen.get(move.bin)
        what = f" ({one.rows:,} rows a batch, {show_bytes(one.state_bytes)})" if one else ""
        lines.append(f"  bin {move.bin}{what}: channel {move.source} to {move.target}")
    if len(plan.moves) > _SHOWN:
        lines.append(f"  and {len(plan.moves) - _SHOWN} moves more")
    return lines
