"""One way over one input, as it is handed to a process; and processes that run some, one after another."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.code_cache import folder
from headgate_lab.bench.job import Job, run_jobs
from headgate_lab.bench.rounds import Times


@dataclass(frozen=True)
class Task(Job):
    """A job whose `system` may also be `direct`. Its batches have `rows` rows in `files` files."""

    rows: int = 0
    files: int = 2
    strings: bool = False
    first: bool = False
    """Measure from before the query is made to the first commit, instead of each batch."""
    adds: str = ""
    """A folder whose files are moved into the source before the start."""
    anew: bool = False
    """Whether kernels are compiled anew, instead of taken from where earlier runs have left them."""


def run_tasks(tasks: Sequence[Task], tick: Callable[[Task, int], None]) -> Times:
    """Run tasks in one fresh process and session; times of batches in ms by the task's name."""
    env = None
    if tasks[0].anew:
        cache = Path(tasks[0].work, "cache")
        (cache / "headgate").mkdir(mode=0o700, parents=True, exist_ok=True)
        library = folder(os.environ.get("XDG_CACHE_HOME")) / "library"  # only kernels are compiled anew
        with suppress(FileExistsError):
            (cache / "headgate" / "library").symlink_to(library)
        env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return run_jobs(tasks, tick, module="headgate_lab.bench.direct.child", env=env)
