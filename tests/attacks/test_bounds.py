"""Queries that take all the time or memory there is: they are stopped, and the neighbours are answered."""

import os
import resource
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from tests.service.local import Local
from tests.sql.world import NAMES, asked, batches_of, named, rows_of

from headgate.service import lengthen
from headgate.service.batch.bounds import Deadline, memory_within
from headgate.service.queries import Query
from headgate.sql.limits import Limits

MANY = "SELECT a.x FROM alpha a JOIN beta b ON b.time BETWEEN a.time - INTERVAL '1 hour' AND a.time + INTERVAL '1 hour' "
PLAIN = "SELECT x FROM alpha WHERE n > 3"
ALONE = "HEADGATE_TEST_ALONE"
"""Set in a process that runs one test alone."""


@pytest.fixture
def shared(tmp_path):
    """A service with two tenants on one server, and little of everything."""
    limits = Limits(seconds=2.0, tenant_seconds=8.0, batch_seconds=1e6, batch_part=1e9, join_s=3_600)
    local = Local(tmp_path, limits=limits, memory="100MB", servers=1)
    yield local
    local.service.close()


@pytest.fixture
def bob(shared):
    """The tenant that attacks, with ann's sources."""
    for name in NAMES:
        shared.service.grant(shared.ann, name, "bob")
    return shared.service.authenticate(shared.service.add_tenant("bob"))


def registered(local, tenant, *texts):
    answers = local.service.register(tenant, [(text, "") for text in texts])
    return [answer.id for answer in answers if isinstance(answer, Query)]


def states(local, tenant, numbers):
    return [local.service.get_query(tenant, number).state for number in numbers]


def long_texts(rows, letters=10_000):
    return rows.set_column(3, "v0", pa.array(["a" * letters] * rows.num_rows))


def test_joins_are_stopped_when_they_have_lengthened_the_batches_of_others_enough(
    tmp_path, monkeypatch
) -> None:
    """They cannot wait. What they may take beyond their part is bounded, over all batches, and a resumed join owes it still."""
    monkeypatch.setattr(lengthen, "LEAST_S", 1e-6)
    local = Local(tmp_path, limits=Limits(batch_part=1e-6, join_seconds=0.05), servers=1)
    bob = local.service.authenticate(local.service.add_tenant("bob"))
    for name in NAMES:
        local.service.grant(local.ann, name, "bob")
    local.service.set_limits("ann", {"batch_part": 1e9})
    (good,) = local.add(PLAIN)
    bad = registered(local, bob, MANY, f"{MANY} AND a.n < b.n")
    rows = rows_of(np.random.default_rng(1), 3_000)
    for batch in batches_of(rows, range(100, 3_000, 100)):
        local.feed(batch)
    assert states(local, bob, bad) == ["failed", "failed"]
    for number in bad:
        why = local.service.get_query(bob, number).why
        assert "join_seconds" in why or "takes too long" in why
    local.service.resume(bob, bad[0])
    local.feed(rows.slice(0, 100))
    assert "join_seconds" in local.service.get_query(bob, bad[0]).why
    assert states(local, local.ann, [good]) == ["active"]
    whole = pa.concat_tables([rows, rows.slice(0, 100)])
    assert local.answers(good, 1_000) == asked(PLAIN, alpha=named(whole, 0))
    local.service.close()


def test_a_pattern_that_backtracks_holds_nobody_up(shared, bob) -> None:
    bad = registered(
        shared, bob, *[f"SELECT x FROM alpha WHERE city LIKE '{'%a' * k}%b'" for k in range(2, 40)]
    )
    bad += registered(shared, bob, "SELECT x FROM alpha WHERE city || 'b' LIKE city || '%a%a%c'")
    good = shared.add(PLAIN, "SELECT x FROM alpha WHERE city LIKE 'b%'")
    rows = long_texts(rows_of(np.random.default_rng(1), 200))
    shared.feed(rows)
    assert states(shared, shared.ann, good) == ["active", "active"]
    assert set(states(shared, bob, bad)) == {"active"}
    assert shared.answers(good[0]) == asked(PLAIN, alpha=named(rows, 0))


def test_joins_that_never_end_cost_their_tenant_its_own_time(shared, bob) -> None:
    bad = registered(
        shared, bob, *[MANY + f"WHERE abs(a.x * b.x + a.n) < {-k} AND b.n <> 7" for k in range(1, 5)]
    )
    same_template = shared.add(MANY.replace("1 hour", "1 second") + "WHERE a.n = 1")
    good = shared.add(PLAIN)
    rows = rows_of(np.random.default_rng(1), 60_000)
    shared.feed(rows)
    assert "failed" in states(shared, bob, bad)
    reasons = {shared.service.get_query(bob, number).why for number in bad} - {""}
    assert all("too long" in why or "used up" in why for why in reasons), reasons
    assert states(shared, shared.ann, good) == ["active"]
    assert same_template
    assert shared.answers(good[0], limit=5_000) == asked(PLAIN, alpha=named(rows, 0))


def test_memory_is_bounded_in_a_process_that_does_nothing_else() -> None:
    """As a worker is. In the process of all tests, what they have left behind counts."""
    inner = f"{__file__}::{test_a_query_that_builds_long_texts_is_stopped_by_memory_and_the_process_lives.__name__}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", inner],
        env={**os.environ, ALONE: "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "1 passed" in done.stdout


@pytest.mark.skipif(
    ALONE not in os.environ, reason="runs in a process of its own, started by the test before"
)
def test_a_query_that_builds_long_texts_is_stopped_by_memory_and_the_process_lives(shared, bob) -> None:
    text = " || ".join(["city"] * 60)
    bad = registered(
        shared, bob, *[f"SELECT max({text}) FROM alpha GROUP BY n, LAST {k} ROWS" for k in (2, 3)]
    )
    bad += registered(shared, bob, f"SELECT x FROM alpha WHERE length({text}) < 5")
    good = shared.add(PLAIN, "SELECT length(city || city) FROM alpha")
    rows = long_texts(rows_of(np.random.default_rng(1), 3_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shared.feed(rows)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 1.5e9
    assert states(shared, bob, bad) == ["failed"] * 3
    assert {shared.service.get_query(bob, number).why[:20] for number in bad} == {"it needs more memory"}
    assert states(shared, shared.ann, good) == ["active", "active"]
    assert shared.answers(good[0]) == asked(PLAIN, alpha=named(rows, 0))


def test_a_bound_of_memory_ends_with_its_block() -> None:
    with memory_within(200_000_000), pytest.raises(MemoryError):
        np.ones(1_000_000_000)
    assert np.ones(60_000_000)[-1] == 1


def test_a_deadline_is_told_again_until_the_block_ends() -> None:
    told = []
    with Deadline(0.0, lambda: told.append(1)) as deadline:
        while len(told) < 3:
            pass
    assert deadline.passed
    with Deadline(1e6, lambda: told.append(1)) as deadline:
        pass
    assert not deadline.passed
