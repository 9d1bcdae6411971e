"""Commits of batches: all or nothing, and only by the newest driver."""

import numpy as np
import pytest
from tests.sql.world import batches_of, oracle, rows_of

from headgate.errors import (
    Superseded,
)


def test_a_crash_before_the_commit_leaves_nothing(local, monkeypatch) -> None:
    (number,) = local.add("SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')")
    rows = rows_of(np.random.default_rng(3), 200)
    first, second = batches_of(rows, [100])
    local.feed(first)
    with monkeypatch.context() as patched:
        patched.setattr("headgate.service.batch_log.CommitLog.commit", lambda *a: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            local.feed(second)
    local.restart()
    local.feed(second)
    window = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)
    mark = local.service.batch_log.last.latest[0] - 5_000_000
    text = "SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    assert local.answers(number) == oracle(text, window, rows, 0, mark)


def test_a_service_that_slept_neither_commits_nor_removes(local, tmp_path) -> None:
    local.add("SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')")
    parts = batches_of(rows_of(np.random.default_rng(3), 600), [100, 200, 300, 400, 500])
    local.feed(parts[0])
    old, old_processor = local.service, local.processor
    local.start()
    for part in parts[1:]:
        local.feed(part)
    store = local.service.batch_log.store
    names = {folder: store.names(folder) for folder in ("state", "results", "constants")}
    with pytest.raises(Superseded, match=r"another driver has taken over .*process \d+ on "):
        old_processor.process(parts[1], 1)
    assert old_processor.superseded
    assert all(set(found) <= set(store.names(folder)) for folder, found in names.items())
    old.close()
    local.restart()
    assert local.service.batch_log.last.batch == 5
