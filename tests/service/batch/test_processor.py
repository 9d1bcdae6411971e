"""Batches on the driver: their order, and what they count."""

import numpy as np
import pyarrow as pa
import pytest
from tests.service.local import Local
from tests.sql.world import batches_of, oracle, rows_of

from headgate.errors import BatchOrder, Superseded


def test_a_service_whose_state_was_deleted_does_not_begin_in_the_midst(local, tmp_path) -> None:
    rows = batches_of(rows_of(np.random.default_rng(3), 200), [100])
    local.add("SELECT x FROM alpha")
    local.feed(rows[0])
    local.service.batch_log.store.remove("")
    with pytest.raises(Superseded, match="state was deleted"):
        local.restart()
    local.service.push_log.store.remove("")
    local.start()
    with pytest.raises(BatchOrder, match="Spark delivers batch 1, but nothing is committed"):
        local.feed(rows[1])


def test_a_row_from_far_ahead_is_counted_once_and_closes_nothing(tmp_path) -> None:
    local = Local(tmp_path, servers=3)
    text = "SELECT count(*) FROM alpha WHERE n > {} GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    local.add(*(text.format(n) for n in range(6)))
    (all_rows,) = local.add("SELECT count(*), sum(x) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')")
    rows = rows_of(np.random.default_rng(5), 200)
    local.feed(rows.slice(0, 100))
    stray = rows.slice(0, 1).set_column(1, "time", pa.array([10**15], pa.timestamp("us")))
    stray = stray.set_column(0, "source", pa.array([0], pa.int32()))
    local.feed(pa.concat_tables([rows.slice(100, 50), stray]))
    assert local.service.facts[-1]["far_ahead"] == 1
    local.feed(rows.slice(150, 50))
    assert local.service.batch_log.last is not None
    mark = local.service.batch_log.last.latest[0] - 5_000_000
    window = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)
    asked_for = "SELECT count(*), sum(x) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    assert local.answers(all_rows) == oracle(asked_for, window, rows, 0, mark)
    assert mark < 10**9
    local.service.close()
