"""A query that kills Spark's Python worker: it is stopped, and everybody else is answered."""

import numpy as np
import pyarrow as pa
import pytest
from tests.attacks.fatal import FUNCTIONS
from tests.service.local import Local
from tests.sql.world import asked, named, rows_of

from headgate.service.batch.job import SparkJob
from headgate.service.batch.processor import BatchProcessor

pytestmark = pytest.mark.spark


def test_a_worker_that_dies_stops_the_query_that_killed_it_alone(spark, tmp_path) -> None:
    local = Local(tmp_path, servers=2, functions=FUNCTIONS)
    good = "SELECT x FROM alpha WHERE n > 3"
    fatal, fine = local.add("SELECT x FROM alpha WHERE dying(n - 5)", good)
    rows = rows_of(np.random.default_rng(1), 60)
    rows = rows.set_column(4, "l0", pa.array([3, 4, 5] * 20, pa.int64()))
    processor = BatchProcessor(local.service, SparkJob())
    frame = spark.createDataFrame(
        rows.to_pandas(), "source int, time timestamp, d0 double, v0 string, l0 bigint"
    )
    processor.process_ranges(frame, {})
    query = local.service.get_query(local.ann, fatal)
    assert query.state == "failed"
    assert "ended the process" in query.why
    assert local.answers(fine) == asked(good, alpha=named(rows, 0))
    processor.process_ranges(frame, {})
    assert sum(local.answers(fine).values()) == 2 * asked(good, alpha=named(rows, 0)).total()
    local.service.close()
