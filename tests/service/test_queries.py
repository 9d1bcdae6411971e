"""Queries: their life from registration to removal, and which windows a late one sees."""

import numpy as np
import pyarrow as pa
import pytest
from tests.service.local import Local, moments
from tests.sql.world import batches_of, named, oracle, rows_of

from headgate.errors import (
    NotFound,
    QueryRefused,
)
from headgate.sql.limits import Limits


def test_pause_resume_and_remove(local) -> None:
    (number,) = local.add("SELECT x FROM alpha")
    rows = rows_of(np.random.default_rng(6), 50)
    local.feed(rows)
    assert local.answers(number)
    assert local.service.pause(local.ann, number).state == "paused"
    assert not local.service.computations.by_id
    local.feed(rows)
    local.service.resume(local.ann, number)
    assert not local.answers(number)
    local.restart()
    local.feed(rows)
    assert sum(local.answers(number).values()) == named(rows, 0).num_rows
    local.service.remove(local.ann, number)
    with pytest.raises(NotFound):
        local.service.read(local.ann, number)


def test_too_many_queries_are_refused_by_name(tmp_path) -> None:
    local = Local(tmp_path, limits=Limits(queries=3))
    answers = local.service.register(local.ann, [("SELECT x FROM alpha", "")] * 5)
    assert [type(a).__name__ for a in answers] == ["Query"] * 3 + ["QueryRefused"] * 2
    assert isinstance(answers[-1], QueryRefused)
    assert answers[-1].reason == "too-many-queries"
    local.service.close()


def test_a_query_that_comes_late_sees_whole_windows_only(local) -> None:
    text = "SELECT count(*), window_start FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    local.add(text)
    rows = rows_of(np.random.default_rng(4), 400)
    first, second = batches_of(rows, [100])
    local.feed(first)
    (late,) = local.add(text)
    local.feed(second)
    since, mark = (int(np.max(named(r, 0).column("time").cast(pa.int64()).to_numpy())) for r in (first, rows))
    window = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)
    whole = oracle(text, window, rows, 0, mark - 5_000_000)
    expected = {
        row: n
        for row, n in whole.items()
        if row[1].timestamp() * 1e6 > since or row[1].replace().timestamp() > since / 1e6
    }
    assert local.answers(late) == moments(expected)
    assert 0 < len(expected) < len(whole)
