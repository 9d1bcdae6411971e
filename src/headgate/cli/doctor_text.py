"""How `headgate doctor` shows a diagnosis in a terminal of 80 columns."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from headgate.cli.console import numbers_grid
from headgate.doctor.diagnosis import Diagnosis, Examined
from headgate.doctor.findings import Findings, StageFindings


def as_text(found: Examined) -> RenderableType:
    """The diagnoses for a terminal of 80 columns."""
    app = found.application
    parts: list[RenderableType] = [
        Text(f"{app.name or app.id}: Spark {app.spark}, {app.cores} cores", style="bold")
    ]
    parts += [Text(f"! {warning}", style="yellow") for warning in found.warnings]
    for diagnosis in found.diagnoses:
        parts += ["", *_query(diagnosis)]
    whose = (
        "measured on this machine" if found.costs.here else "measured elsewhere; --calibrate measures here"
    )
    parts += ["", Text(f"constants of headgate's costs: {found.costs.machine} ({whose})", style="dim")]
    return Group(*parts)


def _query(diagnosis: Diagnosis) -> list[RenderableType]:
    found, made = diagnosis.findings, diagnosis.prediction
    title = f"query {diagnosis.name or diagnosis.query}"
    head = (
        f"{title}: {found.batches} batches with rows, of which the last {found.counted} count: "
        f"{found.rows:,.0f} rows in {found.batch_ms:,.0f} ms each"
    )
    parts: list[RenderableType] = [Text(head, style="bold"), "", *_time(found)]
    for stage in found.stages:
        parts += ["", *_stage(stage)]
    if diagnosis.sample is not None:
        listed = "; ".join(
            f"{hot.key} {hot.share:.1%}" + ("" if hot.partition is None else f" (partition {hot.partition})")
            for hot in diagnosis.sample.hot
        )
        where = f"most frequent keys in {diagnosis.sample.where} ({diagnosis.sample.rows:,} rows)"
        parts.append(Text(f"{where}: {listed}"))
    parts += ["", *_predicted(diagnosis), ""]
    verdict = made.verdict
    if verdict.helps:
        said, style = f"headgate would help: about {verdict.speedup:.1f} times as fast", "bold green"
    elif verdict.speedup is None:
        said, style = "headgate would not help", "bold yellow"
    else:
        said, style = f"headgate would not help ({verdict.speedup:.1f} times as fast)", "bold yellow"
    parts += [Text(said, style=style), *(Text(f"- {reason}") for reason in verdict.reasons)]
    if diagnosis.steps:
        parts += ["", Text("to port it", style="bold")]
        for number, step in enumerate(diagnosis.steps, 1):
            first, *more = step.splitlines()
            parts.append(Text(f"{number}. {first}"))
            parts += [Padding(Text(line), (0, 0, 0, 4)) for line in more]
    return parts


def _time(found: Findings) -> list[RenderableType]:
    if not found.has_tasks:
        return [
            Text("the recording has no tasks, so skew and most shares are unknown; an event log has them")
        ]
    shares = found.shares
    grid = numbers_grid("where the time of a batch goes", ("", "share", "ms"))
    grid.columns[0].justify = "left"
    for name, share in (
        ("fixed: planning, logs, scheduling", shares.fixed),
        ("Python workers", shares.python),
        ("shuffle: waiting, writing", shares.shuffle),
        ("state store: update, remove, commit", shares.state),
        ("the rest: reading, computing", shares.rest),
    ):
        grid.add_row(name, f"{share:.0%}", f"{share * found.batch_ms:,.0f}")
    return [grid]


def _stage(stage: StageFindings) -> list[RenderableType]:
    key = f" by {', '.join(stage.key)}" if stage.key else ""
    title = f"{stage.operator}{key}: {stage.partitions} partitions, {stage.state_rows:,} rows of state"
    skew = (
        f"busiest task / mean: time {stage.skew.time:.2f}, rows {stage.skew.rows:.2f}, "
        f"state {stage.skew.state:.2f}; {stage.busiest_ms:,.0f} ms against {stage.task_ms:,.0f} ms"
    )
    parts: list[RenderableType] = [Text(title, style="bold"), Text(skew)]
    for slow in stage.slow:
        parts.append(
            Text(
                f"partition {slow.partition} held {counted(slow.batches)} back, with {slow.share_of_rows:.0%} "
                f"of the rows in {slow.ms:,.0f} ms"
            )
        )
    return parts


def counted(batches: int) -> str:
    """A number of batches in words.

    >>> counted(1), counted(2)
    ('1 batch', '2 batches')
    """
    return f"{batches} batch" if batches == 1 else f"{batches} batches"


def _predicted(diagnosis: Diagnosis) -> list[RenderableType]:
    made = diagnosis.prediction
    if not made.policies:
        return []
    grid = numbers_grid(
        "predicted with headgate (a direct stream)", ("policy", "batch ms", "busiest / mean", "pins", "moves")
    )
    grid.columns[0].justify = "left"
    for each in made.policies:
        name = f"{each.policy} (default)" if each is made.default else each.policy
        grid.add_row(name, f"{each.batch_ms:,.0f}", f"{each.busiest:.2f}", str(each.pins), str(each.moves))
    return [grid]
