"""The source against brokers over TCP: positions, partitions, columns, limits, and records that do
not parse.
"""

import io
import logging
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sources.kafka.driving import SCHEMA, Driver, numbers

from headgate.errors import CheckpointMismatch, ConfigError, SourceFailed
from headgate.sources import Kafka
from headgate.stage import sinks
from headgate.storage.store import Store


def ns(rows):
    return [row["n"] for row in rows]


def test_records_are_read_once_in_order(cluster, topic, driver) -> None:
    cluster.create(topic, 2)
    cluster.produce(topic, numbers(*range(50)), 0)
    cluster.produce(topic, numbers(*range(100, 130)), 1)
    reading = driver()
    assert ns(reading.batch()) == [*range(50), *range(100, 130)]
    assert reading.batch() == []
    cluster.produce(topic, numbers(7), 1)
    assert ns(driver(offset=reading.offset).batch()) == [7]


def test_a_range_gives_the_same_rows_again(cluster, topic, driver) -> None:
    cluster.create(topic)
    cluster.produce(topic, numbers(*range(100)))
    reading = driver()
    plan = reading.plan(rows=40)
    first = reading.read(plan)
    cluster.produce(topic, numbers(*range(100, 200)))
    assert reading.read(plan) == first
    assert ns(first) == list(range(40))


def test_every_column_of_a_record(cluster, topic, driver) -> None:
    cluster.create(topic, 2)
    record = {"key": b"k", "headers": [("a", b"1"), ("b", None)], "timestamp": 1_767_225_600_123}
    cluster.produce(topic, [b"v", None], 1, **record)
    rows = driver(schema=None, value="raw").batch()
    at = rows[0].pop("timestamp")
    assert at.isoformat() == "2026-01-01T00:00:00.123000+00:00"
    assert rows[0] == {
        "value": b"v", "key": b"k", "topic": topic, "partition": 1, "offset": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
    }  # fmt: skip
    assert [row["value"] for row in rows] == [b"v", None]
    named = driver(schema=None, value="text", key="text", meta={"key": "who"})
    assert named.batch() == [{"value": "v", "who": "k"}, {"value": None, "who": "k"}]


def test_columns_that_nobody_needs_are_left_out(cluster, topic, driver) -> None:
    cluster.create(topic)
    cluster.produce(topic, [b'{"n": 1, "m": 2}'])
    reading = driver(schema=pa.schema([("n", pa.int64()), ("m", pa.int64())]), meta=["offset"])
    reading.source = reading.source.only(["offset", "m"])
    assert reading.batch() == [{"m": 2, "offset": 0}]
    with pytest.raises(ConfigError, match="has no column x"):
        reading.source.only(["x"])


def test_starting_at_the_end_misses_nothing_between_two_starts(cluster, topic, driver) -> None:
    cluster.create(topic)
    cluster.produce(topic, numbers(1, 2))
    assert driver(start="latest").batch() == []
    cluster.produce(topic, numbers(3))
    assert ns(driver(start="latest").batch()) == [3]


def test_starting_at_offsets(cluster, topic, driver) -> None:
    cluster.create(topic, 2)
    cluster.produce(topic, numbers(1, 2, 3), 0)
    cluster.produce(topic, numbers(4, 5), 1)
    assert ns(driver(start={topic: {0: 1, 1: "latest"}}).batch()) == [2, 3]


def test_partitions_and_topics_that_appear_later_are_read_from_their_beginning(
    cluster, topic, driver
) -> None:
    cluster.create(f"{topic}-a")
    cluster.produce(f"{topic}-a", numbers(1))
    reading = driver(pattern=f"{topic}-.*", start="latest", meta=["topic"])
    assert reading.batch() == []
    cluster.create(f"{topic}-b")
    cluster.create(f"other-{topic}-b")
    cluster.produce(f"{topic}-b", numbers(2))
    assert reading.batch() == [{"n": 2, "topic": f"{topic}-b"}]
    cluster.produce(f"{topic}-b", numbers(3))
    cluster.produce(f"{topic}-a", numbers(4))
    assert ns(reading.batch()) == [4, 3]


def test_a_topic_may_be_added_and_not_all_replaced(cluster, topic, driver) -> None:
    for name in ("a", "b"):
        cluster.create(f"{topic}{name}")
        cluster.produce(f"{topic}{name}", numbers(1))
    reading = driver(f"{topic}a")
    assert ns(reading.batch()) == [1]
    both = driver([f"{topic}a", f"{topic}b"], offset=reading.offset)
    assert ns(both.batch()) == [1]
    with pytest.raises(CheckpointMismatch, match="reads none of the topics of its checkpoint"):
        driver(f"{topic}b", offset=reading.offset).plan()


def test_a_batch_is_limited_by_rows_and_fairly(cluster, topic, driver) -> None:
    cluster.create(topic, 2)
    cluster.produce(topic, numbers(*range(90)), 0)
    cluster.produce(topic, numbers(*range(100, 110)), 1)
    reading = driver()
    plan = reading.plan(rows=20)
    assert (plan.rows, plan.more) == (20, True)
    assert ns(reading.batch(rows=20)) == [*range(18), 100, 101]


def test_a_batch_is_limited_by_bytes(cluster, topic, driver) -> None:
    cluster.create(topic)
    cluster.produce(topic, [b'{"n": 1, "text": "%s"}' % (b"x" * 1000)] * 300)
    sizes = []
    reading = driver(max_bytes="50kB")
    while rows := reading.batch():
        sizes.append(len(rows))
    assert sum(sizes) == 300
    assert 40 <= max(sizes) <= 50


def test_a_large_partition_is_read_by_several_tasks(cluster, topic, driver) -> None:
    cluster.create(topic)
    cluster.produce(topic, numbers(*range(40_000)))
    reading = driver()
    plan = reading.plan(tasks=4)
    assert [part.rows for part in plan.ranges] == [10_000] * 4
    assert ns(reading.read(plan)) == list(range(40_000))


def test_a_record_that_does_not_parse_stops_the_query(cluster, topic, driver) -> None:
    cluster.create(topic, 3)
    cluster.produce(topic, [*numbers(1, 2), b"oh no", *numbers(3)], 2)
    with pytest.raises(
        SourceFailed, match=f"offset 2 of partition 2 of {topic} is not JSON.*b'oh no'"
    ) as caught:
        driver().batch()
    assert "bad='out/bad-records'" in str(caught.value)


def test_records_that_do_not_parse_go_aside_once(cluster, topic, driver, tmp_path, caplog) -> None:
    cluster.create(topic)
    cluster.produce(topic, [*numbers(1), b"bad 1", *numbers(2), b"bad 2"])
    folder = str(tmp_path / "bad")
    first = driver(bad=folder)
    first.read(first.plan())  # this plan is never committed
    first.read(first.plan(rows=2))
    second = driver(bad=folder)
    assert ns(second.batch(rows=3)) == [1, 2]
    shown = second.source.bad.records
    assert shown().num_rows == 0
    with caplog.at_level(logging.WARNING, "headgate.kafka"):
        third = driver(bad=folder, offset=second.offset)
        assert third.batch() == []
    assert "1 records did not parse" in caplog.text
    assert third.batch() == []
    assert [(row["offset"], row["value"], row["topic"]) for row in shown().to_pylist()] == [
        (1, b"bad 1", topic), (3, b"bad 2", topic),
    ]  # fmt: skip
    assert shown()["reason"][0].as_py().startswith("is not JSON")
    assert not list((tmp_path / "source-0" / "bad").iterdir())


def test_two_queries_may_share_a_folder_for_bad_records(cluster, topic, driver, tmp_path) -> None:
    cluster.create(topic)
    cluster.produce(topic, [b'{"n": "x", "m": 1}', b'{"n": 1, "m": "y"}'])
    folder = str(tmp_path / "bad")
    one = driver(bad=folder)
    other = Driver(
        Kafka(cluster.servers, topic, pa.schema([("m", pa.int64())]), bad=folder, timeout="5 s"),
        tmp_path / "source-1",
    )
    for reading in (one, other):
        assert len(reading.batch()) == 1
        reading.plan()
    assert one.source.bad.records()["offset"].to_pylist() == [0, 1]
    assert pq.read_table(folder).num_rows == 2


def test_what_a_killed_driver_leaves_in_the_folder_is_not_read(tmp_path, monkeypatch) -> None:
    from headgate.storage import disk

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(disk.LocalDisk, "link", dies)
    monkeypatch.setattr(disk.LocalDisk, "remove", dies)
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), sink)
    folder = Store(str(tmp_path / "bad"))
    folder.make("")
    with pytest.raises(KeyboardInterrupt):
        folder.write_once("a.parquet", sink.getvalue())
    assert len(list((tmp_path / "bad").iterdir())) == 1
    assert pq.read_table(tmp_path / "bad").num_rows == 0


def test_a_driver_that_wakes_up_late_removes_nothing_of_its_successor(
    cluster, topic, driver, tmp_path
) -> None:
    cluster.create(topic)
    cluster.produce(topic, [b"bad 0", b"bad 1", b"bad 2", b"bad 3"])
    folder = str(tmp_path / "bad")
    old = driver(bad=folder)
    old.batch(rows=1)
    new = driver(bad=folder, offset=old.offset)
    new.batch(rows=2)  # committed, and not shown yet
    old.plan()
    new.batch(rows=1)
    new.plan()
    assert new.source.bad.records()["offset"].to_pylist() == [0, 1, 2, 3]


def test_a_group_is_told_where_the_query_stands(cluster, topic, driver) -> None:
    from confluent_kafka import Consumer, TopicPartition

    cluster.create(topic)
    cluster.produce(topic, numbers(1, 2, 3))
    reading = driver(group=f"lag-{topic}")
    reading.batch()
    reading.batch()
    watching = Consumer({"bootstrap.servers": cluster.servers, "group.id": f"lag-{topic}"})
    assert watching.committed([TopicPartition(topic, 0)], timeout=10)[0].offset == 3
    watching.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": None}, "needs topics='events' or pattern"),
        ({"pattern": "x"}, "not both"),
        ({"topics": []}, "name a topic"),
        ({"topics": None, "pattern": "("}, "not a regular expression"),
        ({"on_lost": "latest"}, "write 'fail', or 'earliest'"),
        ({"max_bytes": "much"}, "not an amount of memory"),
        ({"group": ""}, "name of a group"),
        ({"timeout": "long"}, "not a duration"),
        ({"options": {"group.id": "x"}}, "cannot have 'group.id': write group="),
        ({"options": ["x"]}, "takes a dict"),
        ({"servers": []}, "name brokers"),
    ],
)
def test_what_is_refused_at_once(options, said) -> None:
    servers = options.pop("servers", "localhost:1")
    with pytest.raises(ConfigError, match=said):
        Kafka(servers, **{"topics": "t", "schema": SCHEMA, **options})


def test_a_password_is_shown_nowhere() -> None:
    source = Kafka("localhost:1", "t", SCHEMA, options={"sasl.password": "hunter2"})
    assert "hunter2" not in f"{source!r} {source.identity()} {source._access!r}"


def test_without_the_client_the_message_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match=r"which is not installed: pip install 'headgate\[kafka\]'"):
        Kafka("localhost:1", "t", SCHEMA).check()
    with pytest.raises(ConfigError, match=r"pip install 'headgate\[kafka\]'"):
        sinks.Kafka("localhost:1", "t").check()


def test_the_client_is_loaded_when_it_is_needed() -> None:
    text = "import sys, headgate.sources, headgate.stage.sinks; print('confluent_kafka' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_option_that_the_client_does_not_know_is_named(cluster, topic, driver) -> None:
    with pytest.raises(ConfigError, match='No such configuration property: "colour"'):
        driver(options={"colour": "red"})


def test_a_topic_that_does_not_exist_is_refused_and_not_made(cluster, topic, driver) -> None:
    for _ in range(2):
        with pytest.raises(ConfigError, match=f"there is no topic '{topic}'"):
            driver()
