"""One way over one input, as it is handed to a process; and processes that run some, one after another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headgate.errors import HeadgateError
from headgate_lab.bench.job import Job
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

    @property
    def log(self) -> Path:
        """Where Spark's messages go."""
        return Path(self.work).with_suffix(".log")


def run_tasks(tasks: Sequence[Task], tick: Callable[[Task, int], None]) -> Times:
    """Run tasks in one fresh process and session; times of batches in ms by the task's name."""
    by_name, times = {task.name: task for task in tasks}, {}
    env = {**os.environ, "XDG_CACHE_HOME": f"{tasks[0].work}/cache"} if tasks[0].anew else None
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", "headgate_lab.bench.direct.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=env,
        )
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(json.dumps([asdict(task) for task in tasks]))
            child.stdin.close()
            for line in child.stdout:
                said = json.loads(line)
                if "times" in said:
                    times[said["task"]] = said["times"]
                else:
                    tick(by_name[said["task"]], said["batch"])
            code = child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            if child.stdout is not None:
                child.stdout.close()
        if code or len(times) < len(tasks):
            errors.seek(0)
            raise HeadgateError(_last(errors.read(), f"{tasks[0].name} ended with code {code}", tasks[0].log))
    return times


def _last(errors: str, otherwise: str, log: Path) -> str:
    """The last line of a process's errors, and where Spark's log is kept when its folder is removed."""
    lines = errors.strip().splitlines()
    kept = ""
    if log.exists():
        folder = Path(tempfile.mkdtemp(prefix="headgate-bench-log-"))
        shutil.copy(log, folder / "spark.log")
        (folder / "errors.txt").write_text(errors, encoding="utf-8")
        kept = f" (logs are in {folder})"
    return (lines[-1] if lines else otherwise) + kept
