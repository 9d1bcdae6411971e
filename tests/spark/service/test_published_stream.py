"""A query over another's results on real Spark: the rows of a range, and a batch of the loop that feeds them."""

from collections import Counter

from tests.service.delivery.receiver import rows
from tests.service.local import Local

from headgate.service.batch.job import SparkJob
from headgate.service.batch.loop import Loop
from headgate.service.batch.processor import BatchProcessor
from headgate.service.batch.published_stream import PublishedStream
from headgate.service.batch.ranges import union
from headgate.service.delivery.published import ROW, publish
from headgate.sources.source import Demand


def test_results_are_fed_by_spark(spark, tmp_path) -> None:
    local = Local(tmp_path, servers=2)
    plain, windows = local.add(
        "SELECT city, n, x, n > 2 AS big FROM alpha",
        "SELECT city, max(time) AS latest FROM alpha GROUP BY city, TUMBLE(time, INTERVAL '1 seconds')",
    )
    publish(local.service, local.ann, plain, "plain")
    publish(local.service, local.ann, windows, "windows")
    over, times = local.add("SELECT city, n, x, big FROM plain", "SELECT latest, time AS t FROM windows")
    local.feed(rows(1, 2, 3, 4, at=20))
    local.feed(rows(5, at=60))
    stream = PublishedStream(spark, local.service)
    planned = stream.source.plan(None, Demand(1000))
    frame = stream.rows(planned.ranges).frame()
    expected = [batch for part in planned.ranges for batch in stream.source.read(part.what)]
    found = sorted(map(repr, frame.toArrow().cast(ROW).to_pylist()))
    assert found == sorted(repr(row) for batch in expected for row in batch.to_pylist())
    loop = Loop(local.service, BatchProcessor(local.service, SparkJob()), [stream], union)
    loop.step()
    assert local.service.failure is None
    assert local.answers(over) == Counter((f"city {n}", n, n / 4, n > 2) for n in (1, 2, 3, 4, 5))
    moments = [f"1970-01-01T00:00:{20 + n}" for n in range(4)]
    assert local.answers(times) == Counter((f"{moment}Z", f"{moment}.999999Z") for moment in moments)
    loop.step()  # nothing is fed twice
    assert local.answers(over).total() == 5
    local.service.close()
