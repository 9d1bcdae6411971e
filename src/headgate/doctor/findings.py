"""What holds a query back: the skew of its stateful stages, and where the time of a batch goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from headgate.doctor.application import Batch, Query, Stage, Task
from headgate.doctor.operators import is_stateful, key_columns, kind_of_node, stateful_nodes

STATE_ROWS = "number of total state rows"
UPDATED, EMITTED = "number of updated state rows", "number of output rows"
PYTHON, PYTHON_CODE = "time to run Python workers", "time to execute Python code"
"""The first includes starting a worker and waiting for rows; versions before 4.1 lack the second."""
STATE = ("time to update", "time to remove", "time to commit changes")
LOGS = (
    "walCommit",
    "commitOffsets",
    "latestOffset",
    "getOffset",
    "getBatch",
    "setOffsetRange",
    "getEndOffset",
)


@dataclass(frozen=True)
class Skew:
    """The busiest task over the mean: of time, of rows read and of rows of state."""

    time: float
    rows: float
    state: float


@dataclass(frozen=True)
class SlowPartition:
    """A partition that was the last to finish in some of the batches."""

    partition: int
    batches: int
    share_of_rows: float
    ms: float


@dataclass(frozen=True)
class StageFindings:
    """A stateful stage over the batches that count."""

    kind: str
    operator: str
    key: tuple[str, ...]
    partitions: int
    task_ms: float
    busiest_ms: float
    rows: int
    state_rows: int
    touched: float
    """Rows of state that a batch updates; of a join, the rows that it emits."""
    skew: Skew
    slow: tuple[SlowPartition, ...]
    loads: tuple[tuple[int, ...], ...]
    """Rows of each partition, batch by batch."""


@dataclass(frozen=True)
class Shares:
    """Where the time of a batch goes: parts of 1 that add up to 1."""

    fixed: float
    python: float
    shuffle: float
    state: float
    rest: float


@dataclass(frozen=True)
class Findings:
    """A query, over the batches that count."""

    batches: int
    counted: int
    rows: float
    updated: float
    batch_ms: float
    planning_ms: float
    logs_ms: float
    python_before_ms: float
    """Time a batch that Python takes in stages before the key, on all cores together."""
    busy: float
    """The part of the time in which a batch ran; 1 if each follows the one before."""
    shares: Shares
    stages: tuple[StageFindings, ...]
    has_tasks: bool


def steady(batches: Sequence[Batch]) -> tuple[Batch, ...]:
    """The batches that count: the later half, since a JVM compiles during the first ones."""
    return tuple(batches[len(batches) // 2 :])


def find(query: Query) -> Findings:
    """Examine a query that has batches."""
    counted = steady(query.batches)
    shares = [shares_of(batch) for batch in counted]
    total = sum(batch.batch_ms for batch in counted) or 1.0
    weights = [batch.batch_ms / total for batch in counted]
    mean = Shares(
        *(
            sum(weight * getattr(share, name) for weight, share in zip(weights, shares, strict=True))
            for name in ("fixed", "python", "shuffle", "state", "rest")
        )
    )
    return Findings(
        batches=len(query.batches),
        counted=len(counted),
        rows=median(batch.rows for batch in counted),
        updated=median(sum(op.updated for op in batch.operators) for batch in counted),
        batch_ms=median(batch.batch_ms for batch in counted),
        planning_ms=median(batch.durations.get("queryPlanning", 0.0) for batch in counted),
        logs_ms=median(sum(batch.durations.get(name, 0.0) for name in LOGS) for batch in counted),
        python_before_ms=median(_python_before(batch) for batch in counted),
        busy=_busy(counted),
        shares=mean,
        stages=tuple(_stages(counted)),
        has_tasks=any(stage.tasks for batch in counted for stage in batch.stages),
    )


def peak_over_mean(values: Sequence[float]) -> float:
    """The largest over the mean; 1 if there is nothing.

    >>> peak_over_mean([3, 1, 2])
    1.5
    """
    total = sum(values)
    return max(values) * len(values) / total if total > 0 else 1.0


def shares_of(batch: Batch) -> Shares:
    """Where the time of one batch goes.

    Fixed is the time in which no task ran. The time with tasks is divided as the tasks divide theirs:
    Python, shuffle (waiting for rows, writing them), state store, and the rest. Law: none is negative,
    and they add up to 1.
    """
    tasks = [task for stage in batch.stages for task in stage.tasks]
    if not tasks or batch.batch_ms <= 0:
        fixed = batch.durations.get("queryPlanning", 0.0) + sum(batch.durations.get(n, 0.0) for n in LOGS)
        part = min(1.0, fixed / batch.batch_ms) if batch.batch_ms > 0 else 1.0
        return Shares(part, 0.0, 0.0, 0.0, 1.0 - part)
    running = min(1.0, covered_ms(tasks) / batch.batch_ms)
    sums = [0.0, 0.0, 0.0, 0.0]
    for task in tasks:
        for at, ms in enumerate(_parts(task)):
            sums[at] += ms
    total = sum(sums)
    if total <= 0:
        return Shares(1.0 - running, 0.0, 0.0, 0.0, running)
    python, shuffle, state, rest = (running * part / total for part in sums)
    return Shares(1.0 - running, python, shuffle, state, rest)


def _parts(task: Task) -> tuple[float, float, float, float]:
    """A task's time: Python, shuffle, state, the rest. Spark's times overlap, so each takes what is left."""
    left = task.run_ms + task.wait_ms
    parts = []
    for wanted in (
        task.metric(PYTHON),
        task.fetch_ms + task.write_ms,
        sum(task.metric(name) for name in STATE),
    ):
        parts.append(min(left, max(0.0, wanted)))
        left -= parts[-1]
    return parts[0], parts[1], parts[2], left


def covered_ms(tasks: Sequence[Task]) -> float:
    """The time in which at least one of the tasks ran."""
    total, end = 0.0, float("-inf")
    for task in sorted(tasks, key=lambda task: task.launch):
        total += max(0.0, task.finish - max(end, task.launch))
        end = max(end, task.finish)
    return total


def _python_before(batch: Batch) -> float:
    return sum(
        min(task.run_ms, task.metric(PYTHON_CODE) or task.metric(PYTHON))
        for stage in batch.stages
        if not is_stateful(stage)
        for task in stage.tasks
    )


def _busy(batches: Sequence[Batch]) -> float:
    """Batches that follow one another without a pause give about 1."""
    if len(batches) < 2:
        return 1.0
    gaps = [(after.at - before.at) * 1e3 for before, after in pairwise(batches)]
    span = sum(gap for gap in gaps if gap > 0)
    return min(1.0, sum(batch.batch_ms for batch in batches[:-1]) / span) if span > 0 else 1.0


def _stages(batches: Sequence[Batch]) -> list[StageFindings]:
    """The stateful stages, matched over batches by the operators that they run."""
    by_nodes: dict[tuple[str, ...], list[Stage]] = {}
    for batch in batches:
        for stage in batch.stages:
            if nodes := tuple(name for name, _ in stateful_nodes(stage)):
                by_nodes.setdefault(nodes, []).append(stage)
    return [_stage(stages) for stages in by_nodes.values()]


def _stage(stages: Sequence[Stage]) -> StageFindings:
    name, text = stateful_nodes(stages[-1])[0]
    tasks = [task for stage in stages for task in stage.tasks]
    partitions = 1 + max(task.partition for task in tasks)
    skew = Skew(
        median(peak_over_mean([task.run_ms for task in stage.tasks]) for stage in stages),
        median(peak_over_mean([task.shuffled_rows for task in stage.tasks]) for stage in stages),
        median(peak_over_mean([task.metric(STATE_ROWS) for task in stage.tasks]) for stage in stages),
    )
    return StageFindings(
        kind=kind_of_node(name, text),
        operator=name,
        key=key_columns(text),
        partitions=partitions,
        task_ms=median(sum(task.run_ms for task in stage.tasks) / len(stage.tasks) for stage in stages),
        busiest_ms=median(max(task.run_ms for task in stage.tasks) for stage in stages),
        rows=int(median(sum(task.shuffled_rows for task in stage.tasks) for stage in stages)),
        state_rows=int(sum(task.metric(STATE_ROWS) for task in stages[-1].tasks)),
        touched=median(_touched(stage, name) for stage in stages),
        skew=skew,
        slow=_slow(stages),
        loads=tuple(_loads(stage, partitions) for stage in stages),
    )


def _touched(stage: Stage, name: str) -> float:
    metric = EMITTED if kind_of_node(name, "") == "join" else UPDATED
    return sum(task.metric(metric, of=name) for task in stage.tasks)


def _loads(stage: Stage, partitions: int) -> tuple[int, ...]:
    rows = [0] * partitions
    for task in stage.tasks:
        rows[task.partition] = task.shuffled_rows
    return tuple(rows)


SLOW = 1.2
"""A partition holds a batch back if it takes this many times the mean."""


def _slow(stages: Sequence[Stage]) -> tuple[SlowPartition, ...]:
    """The partitions that took longest and clearly longer than the mean, most often first. One that did so
    in few of the batches is left out: that is chance.
    """
    found: dict[int, list[tuple[Task, Stage]]] = {}
    for stage in stages:
        last = max(stage.tasks, key=lambda task: task.run_ms)
        if peak_over_mean([task.run_ms for task in stage.tasks]) >= SLOW:
            found.setdefault(last.partition, []).append((last, stage))
    listed = [
        SlowPartition(
            partition,
            len(times),
            median(task.shuffled_rows / max(1, sum(t.shuffled_rows for t in s.tasks)) for task, s in times),
            median(task.run_ms for task, _ in times),
        )
        for partition, times in found.items()
        if 3 * len(times) >= len(stages) and (len(times) > 1 or len(stages) < 4)
    ]
    return tuple(sorted(listed, key=lambda slow: (-slow.batches, slow.partition))[:3])
