"""One way over one topic, as it is handed to a process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate_lab.bench.job import Job, run_jobs
from headgate_lab.bench.rounds import Times


@dataclass(frozen=True)
class Task(Job):
    """A job whose `source` is a topic. `operator` says what is measured: `backlog`, `latency` or `sink`."""

    servers: str = ""
    partitions: int = 0
    rows: int = 0
    """Of a batch, at most; of a write to the sink, exactly."""
    keys: int = 0
    rate: int = 0
    """How many records are sent in a second."""
    seconds: float = 0.0
    """For how long."""


def run_tasks(tasks: Sequence[Task], tick: Callable[[Task, int], None]) -> Times:
    """Run tasks in one fresh process and session; times of batches in ms by the task's name."""
    return run_jobs(tasks, tick, module="headgate_lab.bench.kafka.child")
