"""The Kafka sink in whole queries, in this process, on librdkafka's mock cluster.

That cluster forgets the offsets of a transaction, as real brokers do some days after the last one.
So a restart here goes by the note in the checkpoint. `tests/chaos/test_kafka_broker.py` has the
same on a real broker, with its offsets.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.kafka_mock import MockCluster
from tests.streams.test_drive import Numbers, drive, run_all

from headgate.errors import CheckpointMismatch, ConfigError, MissingColumn, SinkFailed
from headgate.stage import sinks
from headgate.testing.direct import InProcessDirect


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    made = MockCluster(1)
    yield made
    made.close()


@pytest.fixture
def topic(cluster: MockCluster, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.nodeid)) % 10**9}"
    cluster.create(name)
    return name


def rows_of(cluster: MockCluster, topic: str) -> list[Any]:
    return [json.loads(message.value()) for message in cluster.read(topic)]


def counted(*ends: int) -> list[tuple[int, int]]:
    """Keys and counts after each batch of numbers."""
    return [(k, len(range(k, end, 3))) for end in ends for k in range(3)]


def test_the_output_is_records(cluster, topic) -> None:
    sink = sinks.Kafka(cluster.servers, topic, key="k", headers={"count": "n"})
    run_all(drive(InProcessDirect(), Numbers(20), sink=sink))
    messages = cluster.read(topic)
    assert [message.key() for message in messages] == [b"0", b"1", b"2"] * 2
    assert messages[0].headers() == [("count", b"4")]
    assert json.loads(messages[0].value()) == {"k": 0, "n": 4, "total": 18}


def test_columns_as_keys_and_values(cluster, topic) -> None:
    sink = sinks.Kafka(cluster.servers, topic, key=["k"], value="total", headers=["n", "k"])
    run_all(drive(InProcessDirect(), Numbers(3), sink=sink))
    first = cluster.read(topic)[0]
    assert (first.key(), first.value(), first.headers()) == (b'{"k":0}', b"0", [("n", b"1"), ("k", b"0")])


def test_a_batch_that_comes_again_appears_once(cluster, topic) -> None:
    engine = InProcessDirect()
    run_all(drive(engine, Numbers(20), sink=sinks.Kafka(cluster.servers, topic)))
    run_all(drive(engine, Numbers(30), sink=sinks.Kafka(cluster.servers, topic)))
    run_all(drive(engine, Numbers(30), sink=sinks.Kafka(cluster.servers, topic)))
    assert [(row["k"], row["n"]) for row in rows_of(cluster, topic)] == counted(10, 20, 30)


@pytest.mark.parametrize("step", ["commit", "retire"])
def test_a_batch_that_was_committed_and_not_published_appears_after_a_restart(cluster, topic, step) -> None:
    engine = InProcessDirect()
    loop = drive(engine, Numbers(20), sink=sinks.Kafka(cluster.servers, topic))
    loop.open()
    loop.step(0.0)

    def die(name: str) -> None:
        if name == step:
            raise OSError("the machine is tired")

    loop.first.on_step = die
    with pytest.raises(OSError, match="tired"):
        loop.step(0.0)
    assert len(rows_of(cluster, topic)) == 3
    run_all(drive(engine, Numbers(20), sink=sinks.Kafka(cluster.servers, topic)))
    assert [(row["k"], row["n"]) for row in rows_of(cluster, topic)] == counted(10, 20)


def test_brokers_that_are_away_are_named_and_the_batch_appears_after_a_restart(tmp_path) -> None:
    cluster = MockCluster(1)
    cluster.create("t")
    engine = InProcessDirect()
    loop = drive(engine, Numbers(20), sink=sinks.Kafka(cluster.servers, "t", timeout="1 s"))
    loop.open()
    loop.step(0.0)
    cluster.down()
    with pytest.raises(
        SinkFailed, match=r"batch 1 is committed, but .* in 3 attempts.* start the query again"
    ):
        loop.step(0.0)
    cluster.up()
    run_all(drive(engine, Numbers(20), sink=sinks.Kafka(cluster.servers, "t")))
    rows = [(row["k"], row["n"]) for row in rows_of(cluster, "t")]
    assert rows[:3] == counted(10)
    assert rows[-3:] == counted(20)  # the mock shows aborted transactions too
    cluster.close()


def test_a_topic_that_lacks_batches_is_refused(cluster, topic) -> None:
    engine = InProcessDirect()
    run_all(drive(engine, Numbers(20)))
    with pytest.raises(CheckpointMismatch, match=r"has no batch of .* use first_batch=2"):
        run_all(drive(engine, Numbers(30), sink=sinks.Kafka(cluster.servers, topic)))
    run_all(drive(engine, Numbers(30), sink=sinks.Kafka(cluster.servers, topic, first_batch=2)))
    assert [(row["k"], row["n"]) for row in rows_of(cluster, topic)] == counted(30)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": ""}, "name a topic"),
        ({"key": []}, "names no column"),
        ({"headers": {"a": 1}}, "a dict of names and columns"),
        ({"options": {"transactional.id": "x"}}, "cannot have 'transactional.id'"),
    ],
)
def test_what_is_refused_at_once(options, said) -> None:
    with pytest.raises(ConfigError, match=said):
        sinks.Kafka("localhost:1", **{"topic": "t", **options})


def test_columns_and_topics_that_do_not_exist_are_refused(cluster, topic) -> None:
    with pytest.raises(MissingColumn, match="names the column 'user', and the output has k, n, total"):
        sinks.Kafka(cluster.servers, topic, key="user").check_columns(
            pa.schema([(name, pa.int64()) for name in ("k", "n", "total")])
        )
    with pytest.raises(ConfigError, match="there is no topic 'none'"):
        run_all(drive(InProcessDirect(), Numbers(20), sink=sinks.Kafka(cluster.servers, "none")))


def test_records_carry_the_partitioner_of_java(cluster) -> None:
    name = "partitioned"
    cluster.create(name, 4)
    run_all(drive(InProcessDirect(), Numbers(20), sink=sinks.Kafka(cluster.servers, name, key="k")))
    placed = {message.key(): p for p in range(4) for message in cluster.read(name, p)}
    assert placed == {b"0": 0, b"1": 3, b"2": 0}
