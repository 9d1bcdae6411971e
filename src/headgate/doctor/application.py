"""What an event log says, as values: an application, its streaming queries, their batches, stages and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Metric = tuple[str, str]
"""The name of a node of a physical plan, and of one of its metrics."""


@dataclass(frozen=True)
class Task:
    """One task that succeeded. Times are in ms; `metrics` are those of plan nodes, times in ms too.

    `wait_ms` is the time from launch to finish that the executor did not run it.
    """

    partition: int
    launch: float
    finish: float
    run_ms: float
    cpu_ms: float = 0.0
    wait_ms: float = 0.0
    gc_ms: float = 0.0
    input_rows: int = 0
    input_bytes: int = 0
    shuffled_rows: int = 0
    shuffled_bytes: int = 0
    fetch_ms: float = 0.0
    write_ms: float = 0.0
    written_rows: int = 0
    output_rows: int = 0
    metrics: Mapping[Metric, float] = field(default_factory=dict)

    def metric(self, name: str, *, of: str = "") -> float:
        """The sum of a metric over all nodes, or over those whose name begins with `of`."""
        return sum(
            value for (node, metric), value in self.metrics.items() if metric == name and node.startswith(of)
        )


@dataclass(frozen=True)
class Stage:
    """A stage of a batch. `nodes` are the plan nodes that ran in it, each with its text."""

    id: int
    tasks: tuple[Task, ...]
    nodes: tuple[tuple[str, str], ...] = ()

    @property
    def wall_ms(self) -> float:
        """From the first launch to the last finish."""
        if not self.tasks:
            return 0.0
        return max(task.finish for task in self.tasks) - min(task.launch for task in self.tasks)


@dataclass(frozen=True)
class StateOperator:
    """A stateful operator in the progress of a batch."""

    name: str
    rows: int
    updated: int
    removed: int
    memory: int
    partitions: int
    update_ms: float
    removal_ms: float
    commit_ms: float
    custom: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """A batch: what its progress says, and its stages if the log has them."""

    number: int
    at: float
    rows: int
    durations: Mapping[str, float]
    operators: tuple[StateOperator, ...] = ()
    sources: tuple[tuple[str, int], ...] = ()
    """Description and rows of each source."""
    stages: tuple[Stage, ...] = ()

    @property
    def batch_ms(self) -> float:
        """The time of the whole trigger."""
        return float(self.durations.get("triggerExecution", 0.0))


@dataclass(frozen=True)
class Query:
    """A streaming query with its batches that had rows, oldest first."""

    id: str
    name: str
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class Application:
    """An application. `ended` is false if the log stops before the application did."""

    id: str
    name: str
    spark: str
    cores: int
    conf: Mapping[str, Any]
    queries: tuple[Query, ...]
    ended: bool
    batch_jobs: int = 0
    """How many jobs belong to no streaming query."""
    damaged: int = 0
    """How many lines could not be read."""
