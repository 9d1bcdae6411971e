"""Results: how long they stay readable, and what a reader is told when they are gone."""

import numpy as np
import pytest
from tests.service.local import Local
from tests.sql.world import at_seconds, rows_of

from headgate.errors import (
    ConfigError,
    CursorGone,
)


def test_old_results_go_and_say_so(tmp_path) -> None:
    local = Local(tmp_path, kept_batches=3)
    (number,) = local.add("SELECT x FROM alpha")
    rows = rows_of(np.random.default_rng(6), 30)
    for _ in range(6):
        local.feed(rows)
    with pytest.raises(CursorGone, match="oldest are those of batch 3"):
        local.service.read(local.ann, number, "1.0")
    found, cursor = local.service.read(local.ann, number)
    assert {row["batch"] for row in found} == {3, 4, 5}
    assert local.service.read(local.ann, number, cursor) == ([], cursor)
    with pytest.raises(ConfigError):
        local.service.read(local.ann, number, "x")
    local.service.close()


def test_results_that_are_let_go_while_they_are_read_are_gone_by_name(tmp_path, monkeypatch) -> None:
    local = Local(tmp_path, kept_batches=2)
    (number,) = local.add("SELECT x FROM alpha")
    rows = rows_of(np.random.default_rng(5), 50)
    local.feed(rows)
    results = local.service.results
    read: list[object] = []

    def slow(stored, real=results._table):
        if not read:
            read.append(stored)
            for _ in range(3):
                local.feed(rows)
        return real(stored)

    monkeypatch.setattr(results, "_table", slow)
    with pytest.raises(CursorGone, match="the oldest are those of batch 2"):
        local.service.read(local.ann, number)
    assert local.service.read(local.ann, number)[0][0]["batch"] == 2
    local.service.close()


@pytest.mark.parametrize("text", ["to_timestamp(x * 1000000000000)", "time + INTERVAL '9000 years'"])
def test_a_time_that_python_has_no_date_for_can_be_read(local, text) -> None:
    (number,) = local.add(f"SELECT n, {text} AS t FROM alpha")
    local.feed(at_seconds((0, 1), (0, 2)))
    rows, _ = local.service.read(local.ann, number)
    assert len(rows) == 2
    assert all(isinstance(row["values"]["t"], str) for row in rows)
