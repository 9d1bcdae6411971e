"""From what was read of a query to what its page shows: pure functions from records to plain data.

The page only draws what it gets here. Times are seconds since 1970, and `now` is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from headgate import policies
from headgate.control.explain import REMEDIES, explained
from headgate.control.guard import Guard
from headgate.control.journal import Entry
from headgate.control.loop import Decision
from headgate.control.refusal import Reason
from headgate.watch.channels import channel_bars, hot_keys, moved
from headgate.watch.record import Commit, StageRecord, Timing
from headgate.watch.replayed import ABOUT, replay, summary

BATCHES, DECISIONS, KEYS = 120, 40, 12
"""How many of each the page shows."""
STEPS = {
    "plan": "planning the ranges of the sources",
    "rest": "reading the source, sending rows to their channels, starting tasks",
    "state": "reading state that moved or was on disk, on the busiest channel",
    "work": "work of the busiest channel",
    "commit": "decision, commit, journal, removing old files",
    "publish": "publishing the output",
}
"""The steps of a batch in their order, and what they are. `plan`, `commit` and `publish` are known to
a query that shows its own page.
"""
_SILENT = (Reason.nothing_to_do, Reason.observe_only)


def page_view(name: str, stages: Sequence[StageRecord], *, now: float, state: str = "") -> dict[str, Any]:
    """Everything that the page shows. `state` is that of the query, if it is known."""
    return {
        "name": name,
        "state": state,
        "now": now,
        "steps": STEPS,
        "policies": list(policies.names()),
        "stages": [stage_view(stage, now=now) for stage in stages],
    }


def stage_view(stage: StageRecord, *, now: float) -> dict[str, Any]:
    """One stage. Before its first batch only its operator and key are known."""
    known = {"operator": stage.operator, "key": list(stage.key)}
    if not stage.entries:
        return {**known, "batch": None}
    entry = stage.entries[-1]
    report, table = entry.report, entry.decision.table
    shown = stage.entries[-BATCHES:]
    timeline = [_batch(each, stage.timings.get(each.report.batch)) for each in shown]
    return {
        **known,
        "batch": report.batch,
        "rows": report.rows,
        "wall_ms": round(report.wall_ms, 1),
        "rows_per_s": round(1e3 * report.rows / report.wall_ms, 1) if report.wall_ms else None,
        "table": table.version,
        "channels": table.channels,
        "bins": len(table.bins),
        "pins": len(table.pins),
        "mode": entry.decision.mode.value,
        "load": channel_bars(entry, stage.entries[-2] if len(stage.entries) > 1 else None),
        "hot_keys": hot_keys(report, entry.decision.base, KEYS),
        "timeline": timeline,
        "event_time": event_time(stage, now=now),
        "committed_at": _last(stage).at if _last(stage) else None,
        "decisions": decisions(stage.entries),
    }


def _last(stage: StageRecord) -> Any:
    return stage.commits[max(stage.commits)] if stage.commits else None


def _batch(entry: Entry, timing: Timing | None) -> dict[str, Any]:
    """One batch of the timeline. Law: its steps sum to its time, and none is negative."""
    report, decision = entry.report, entry.decision
    busiest = max(report.channels, key=lambda channel: channel.busy_ms, default=None)
    busy = min(busiest.busy_ms, report.wall_ms) if busiest else 0.0
    state = min(busiest.read_ms, busy) if busiest else 0.0
    steps = {"rest": report.wall_ms - busy, "state": state, "work": busy - state}
    if timing is not None:
        steps = {"plan": timing.plan_ms, **steps, "commit": timing.commit_ms, "publish": timing.publish_ms}
    return {
        "batch": report.batch,
        "rows": report.rows,
        "ms": round(sum(steps.values()), 3),
        "steps": {name: round(ms, 3) for name, ms in steps.items()},
        "imbalance": round(report.imbalance, 3),
        "channels": len(report.channels),
        "table": report.table_version,
        "decision": _kind(decision),
        "moves": len(moved(decision.base, decision.table)) if decision.changed else 0,
        "waiting": sum(channel.backlog_rows for channel in report.channels),
        "state_bytes": sum(channel.state_bytes for channel in report.channels),
        "disk_bytes": sum(channel.disk_bytes for channel in report.channels),
        "memory_limit": sum(channel.memory_limit for channel in report.channels),
    }


def _kind(decision: Decision) -> str:
    """What became of a decision: `done`, `refused`, `advised`, or nothing."""
    if decision.changed:
        return "done"
    refusal = decision.refusal
    if refusal is None or (decision.plan is None and refusal.name in _SILENT):
        return ""
    return "advised" if refusal.name is Reason.advise_only else "refused"


def decisions(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The newest decisions, newest first: what was carried out, what was refused, and why."""
    told = [entry for entry in entries if _kind(entry.decision)][-DECISIONS:]
    return [_decision(entry) for entry in reversed(told)]


def _decision(entry: Entry) -> dict[str, Any]:
    decision, plan, refusal = entry.decision, entry.decision.plan, entry.decision.refusal
    return {
        "batch": entry.report.batch,
        "kind": _kind(decision),
        "policy": plan.policy if plan else "",
        "reason": plan.reason if plan else "",
        "refusal": refusal.name.value if refusal else "",
        "detail": refusal.detail if refusal else "",
        "remedy": REMEDIES[refusal.name] if refusal else "",
        "moves": [[move.bin, move.source, move.target] for move in plan.moves] if plan else [],
        "pins": [[pin.label or str(pin.hash), pin.bin] for pin in plan.pins] if plan else [],
        "unpins": list(plan.unpins) if plan else [],
        "channels": plan.channels if plan else None,
        "bytes": int(plan.cost) if plan else 0,
        "gain": round(plan.gain, 4) if plan else 0.0,
        "text": explained(entry.report, decision).splitlines(),
    }


def event_time(stage: StageRecord, *, now: float) -> dict[str, Any] | None:
    """The watermark, how far it is behind the clock, and the rows that could not be used; None
    without event time.
    """
    last: Commit | None = _last(stage)
    if last is None or (last.watermark is None and not last.complete and not last.clock.counts):
        return None
    history = [
        [
            commit.batch,
            commit.watermark,
            None if commit.at is None else round(commit.at - commit.watermark, 3),
        ]
        for _, commit in sorted(stage.commits.items())[-BATCHES:]
        if commit.watermark is not None
    ]
    return {
        "watermark": last.watermark,
        "newest": last.newest,
        "complete": last.complete,
        "lag_s": None if last.watermark is None else round(now - last.watermark, 3),
        "counts": dict(last.clock.counts),
        "history": history,
    }


def what_if(stage: StageRecord, policy: str, guard: Guard | None = None) -> dict[str, Any]:
    """The recorded run of a stage beside the same rows under another policy."""
    steps = replay(list(stage.entries), policy, guard or Guard())
    recorded = sorted({entry.decision.plan.policy for entry in stage.entries if entry.decision.plan})
    return {
        "recorded": ", ".join(recorded) or "no plans",
        "policy": policy,
        "about": ABOUT,
        "batches": [asdict(step) for step in steps[-BATCHES:]],
        "summary": summary(steps),
        "count": len(steps),
    }
