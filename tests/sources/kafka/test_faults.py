"""What happens to the source when brokers fail, leaders move, and offsets or topics vanish."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka_mock import MockCluster
from tests.sources.kafka.driving import SCHEMA, Driver, numbers

from headgate.errors import CheckpointMismatch, OffsetsLost, SourceFailed
from headgate.sources import Kafka


def ns(rows):
    return [row["n"] for row in rows]


def test_offsets_that_expired_are_named_or_skipped(cluster, topic, driver) -> None:
    cluster.create(topic)
    cluster.produce(topic, numbers(*range(10)))
    reading = driver()
    assert ns(reading.batch(rows=3)) == [0, 1, 2]
    cluster.delete_records(topic, 0, 5)
    with pytest.raises(
        OffsetsLost, match=r"stands at offset 3 .* first that is kept is 5: 2 offsets were deleted"
    ):
        driver(offset=reading.offset).plan()
    assert ns(driver(offset=reading.offset, on_lost="earliest").batch()) == [5, 6, 7, 8, 9]


def test_offsets_that_expire_between_plan_and_task_are_named(cluster, topic, driver) -> None:
    cluster.create(topic)
    cluster.produce(topic, numbers(*range(10)))
    reading = driver()
    plan = reading.plan()
    cluster.delete_records(topic, 0, 5)
    with pytest.raises(OffsetsLost, match=r"offsets 0 to 9 of partition 0 .* no longer there"):
        reading.read(plan)


def test_a_topic_that_was_created_anew_is_named(cluster, topic, driver) -> None:
    cluster.create(topic, 2)
    cluster.produce(topic, numbers(*range(10)), 0)
    reading = driver()
    reading.batch()
    cluster.delete(topic)
    with pytest.raises(OffsetsLost, match="is gone: the topic was deleted"):
        reading.plan()
    cluster.create(topic)
    cluster.produce(topic, numbers(1))
    with pytest.raises(OffsetsLost, match=r"partition 1 of .* is gone"):
        driver(offset=reading.offset).plan()
    assert ns(driver(offset=reading.offset, on_lost="earliest").batch()) == [1]


def test_a_leader_that_moves_is_followed(cluster, topic, driver) -> None:
    cluster.create(topic)
    cluster.produce(topic, numbers(1))
    reading = driver(meta=["offset"])
    found = []
    for leader in (1, 2, 3, 1):
        cluster.set_leader(topic, 0, leader)
        plan = reading.plan()
        cluster.set_leader(topic, 0, leader % 3 + 1)
        found += ns(reading.read(plan))
        reading.offset = json.loads(json.dumps(plan.offset))
        cluster.produce(topic, numbers(leader + 1))
    assert found == [1, 2, 3, 4]


@pytest.fixture
def doomed() -> Iterator[MockCluster]:
    """Brokers of one test alone, which takes them down."""
    made = MockCluster(1)
    made.create("t")
    made.produce("t", numbers(1, 2))
    yield made
    made.close()


def test_brokers_that_are_away_are_named_and_the_query_goes_on_where_it_was(doomed, tmp_path: Path) -> None:
    source = Kafka(doomed.servers, "t", SCHEMA, timeout="2 s")
    reading = Driver(source, tmp_path)
    plan = reading.plan(rows=1)
    doomed.down()
    with pytest.raises(SourceFailed, match=r"no record came from 127.0.0.1:.* start the query again"):
        reading.read(plan)
    with pytest.raises(SourceFailed, match=r"127.0.0.1:.* did not answer within 2 s.* start the query again"):
        reading.plan()
    with pytest.raises(SourceFailed, match="did not answer within 2 s"):
        Driver(source, tmp_path)
    doomed.up()
    assert ns(Driver(source, tmp_path).batch()) == [1, 2]


def test_a_broker_that_comes_back_in_time_is_not_noticed(doomed, tmp_path: Path) -> None:
    reading = Driver(Kafka(doomed.servers, "t", SCHEMA, timeout="30 s"), tmp_path)
    plan = reading.plan()
    doomed.down()
    back = threading.Timer(0.5, doomed.up)
    back.start()
    assert ns(reading.read(plan)) == [1, 2]
    back.join()


def test_another_cluster_is_refused(cluster, doomed, tmp_path: Path) -> None:
    Driver(Kafka(doomed.servers, "t", SCHEMA), tmp_path)
    cluster.create("t")
    with pytest.raises(CheckpointMismatch, match="has offsets of the cluster mockCluster"):
        Driver(Kafka(cluster.servers, "t", SCHEMA), tmp_path)
