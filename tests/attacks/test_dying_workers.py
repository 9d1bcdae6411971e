"""A computation that ends its worker process stops itself: the batch is tried again carefully, and the others are answered."""

import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.attacks.fatal import FUNCTIONS
from tests.service.local import Local, local_job
from tests.sql.world import NAMES, asked, named, rows_of

from headgate.service.batch.careful import WorkerDied
from headgate.service.batch.processor import BatchProcessor
from headgate.service.queries import Query
from headgate.service.usage_view import waiting_rows
from headgate.sql.limits import Limits

GOOD = "SELECT x FROM alpha WHERE n > 3"
WINDOW = "SELECT city, count(*) FROM alpha WHERE n > {} GROUP BY city, TUMBLE(time, INTERVAL '5 seconds')"


class Jobs:
    """Workers die in the first form of a batch, as they would on Spark, if `fatal`: so many times, or always."""

    def __init__(self) -> None:
        self.fatal: int | bool = True
        self.takes_s = 0.0
        self.careful: list[bool] = []

    def __call__(self, rows, snapshot, task):
        self.careful.append(task.careful)
        if self.fatal and not task.careful:
            self.fatal = self.fatal if self.fatal is True else self.fatal - 1
            time.sleep(self.takes_s)
            raise WorkerDied("Python worker exited unexpectedly (crashed)")
        return local_job(rows, snapshot, task)


@pytest.fixture
def world(tmp_path):
    limits = Limits(seconds=1.0, tenant_seconds=8.0, batch_part=1e9)
    local: Any = Local(tmp_path, limits=limits, servers=1, functions=FUNCTIONS)
    local.jobs = Jobs()
    local.processor = BatchProcessor(local.service, local.jobs)
    local.bob = local.service.authenticate(local.service.add_tenant("bob"))
    for name in NAMES:
        local.service.grant(local.ann, name, "bob")
    yield local
    local.service.close()


def test_what_ends_a_process_is_found_and_everybody_else_is_answered(world) -> None:
    texts = [f"SELECT x FROM alpha WHERE dying(n - {k})" for k in (0, 4, 5)]
    fatal = [
        q.id for q in world.service.register(world.bob, [(t, "") for t in texts]) if isinstance(q, Query)
    ]
    good = world.add(GOOD, WINDOW.format(1), "SELECT x FROM alpha WHERE dying(n + 1)")
    rows = rows_of(np.random.default_rng(1), 120)
    rows = rows.set_column(4, "l0", pa.array([1, 2, 3, 4] * 30, pa.int64()))
    world.feed(rows)
    queries = [world.service.get_query(world.bob, number) for number in fatal]
    assert [query.state for query in queries] == ["active", "failed", "failed"]
    assert "exit code 3" in queries[1].why or "SIGSEGV" in queries[1].why
    assert [world.service.get_query(world.ann, n).state for n in good] == ["active"] * 3
    assert world.answers(good[0]) == asked(GOOD, alpha=named(rows, 0))
    world.jobs.fatal = False
    while waiting_rows(world.service):  # what was done for bob is more than his time: some of his rows wait
        world.feed(rows.slice(0, 0))
    assert world.answers(good[2]) == world.answers_of(world.bob, fatal[0])
    world.feed(rows)
    assert world.jobs.careful[:3] == [False, False, True]
    assert not any(world.jobs.careful[3:])


def test_a_worker_that_somebody_killed_costs_one_more_attempt(world) -> None:
    (good,) = world.add(GOOD)
    rows = rows_of(np.random.default_rng(1), 60)
    world.jobs.fatal = 1
    world.feed(rows)
    assert world.jobs.careful == [False, False]
    assert world.answers(good) == asked(GOOD, alpha=named(rows, 0))


def test_a_worker_that_its_alarm_ended_is_not_tried_as_it_was(world) -> None:
    world.jobs.takes_s = 1.1  # its limit is 1 s
    world.add(GOOD)
    world.feed(rows_of(np.random.default_rng(1), 60))
    assert world.jobs.careful == [False, True]


def test_what_cannot_be_stopped_is_killed_in_time(world) -> None:
    (bad,) = world.add("SELECT x FROM beta WHERE dying(n - 7)")
    (good,) = world.add(GOOD)
    rows = rows_of(np.random.default_rng(1), 60)
    rows = rows.set_column(4, "l0", pa.array([4] * 60, pa.int64()))
    world.feed(rows)
    query = world.service.get_query(world.ann, bad)
    assert query.state == "failed"
    assert "could not be stopped" in query.why
    assert world.answers(good) == asked(GOOD, alpha=named(rows, 0))


def test_the_kernel_ends_a_worker_that_hears_nothing() -> None:
    text = (
        "import ctypes\nfrom headgate.service.batch.bounds import killed_after\n"
        "with killed_after(60):\n    pass\n"
        "with killed_after(0.05):\n    ctypes.PyDLL(None).sleep(60)\n"
    )
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == -signal.SIGALRM
