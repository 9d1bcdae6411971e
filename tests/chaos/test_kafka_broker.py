"""Kafka for real: transactions, expiry, compaction, and kills of the broker, the driver and a
worker. Native Spark is the oracle.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chaos import kafka_job
from tests.kafka_broker import Broker, jars
from tests.kafka_mock import read_topic
from tests.sources.kafka.driving import SCHEMA, Driver, numbers
from tests.streams.test_drive import run_all

from headgate.errors import CheckpointMismatch, HeadgateError, OffsetsLost
from headgate.sources import Kafka
from headgate.stage import sinks
from headgate.storage.parquet_folder import Owner

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
JOB = Path(__file__).with_name("kafka_job.py")
CONNECTOR = "4.2.0"
"""The newest of Spark's own connectors that can be had; it runs on Spark 4.3 too."""


@pytest.fixture(scope="module")
def broker(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("kafka"))
    yield made
    made.kill()


@pytest.fixture
def topics(broker: Broker) -> Iterator[None]:
    """The topics of a job, empty."""
    broker.create(kafka_job.IN)
    broker.create(kafka_job.OUT)
    yield
    broker.delete(kafka_job.IN)
    broker.delete(kafka_job.OUT)


def ns(rows: list[dict[str, Any]]) -> list[int]:
    return [row["n"] for row in rows]


def source(broker: Broker, topic: str, folder: Path, offset: Any = None, **options: Any) -> Driver:
    made = Driver(Kafka(broker.servers, topic, SCHEMA, **{"timeout": "20 s", **options}), folder)
    made.offset = offset
    return made


# -- the source


def test_only_committed_records_are_read_and_the_open_ones_are_waited_for(
    broker: Broker, tmp_path: Path
) -> None:
    broker.create("transactions")
    producer = broker.producer(transactional_id="one")
    producer.init_transactions(30)

    def send(*values: int) -> None:
        producer.begin_transaction()
        for value in numbers(*values):
            producer.produce("transactions", value)
        producer.flush(30)

    send(1, 2)
    producer.commit_transaction(30)
    send(3, 4)
    producer.abort_transaction(30)
    send(5)
    broker.produce("transactions", numbers(6))
    reading = source(broker, "transactions", tmp_path / "a")
    assert ns(reading.batch()) == [1, 2]
    assert reading.batch() == []
    assert ns(source(broker, "transactions", tmp_path / "b", uncommitted=True).batch()) == [1, 2, 3, 4, 5, 6]
    producer.commit_transaction(30)
    while not (rows := ns(reading.batch())):
        time.sleep(0.05)  # brokers end a transaction after they have said so
    assert rows == [5, 6]
    one_by_one = source(broker, "transactions", tmp_path / "c")
    rows = []
    while (plan := one_by_one.plan(rows=1)).ranges:
        rows += ns(one_by_one.read(plan))
        one_by_one.offset = plan.offset
    assert rows == [1, 2, 5, 6]


def test_starting_at_a_time(broker: Broker, tmp_path: Path) -> None:
    broker.create("times", retention_ms="-1")
    for second in range(5):
        broker.produce("times", numbers(second), timestamp=1_767_225_600_000 + 1000 * second)
    assert ns(source(broker, "times", tmp_path / "a", start="2026-01-01T00:00:03Z").batch()) == [3, 4]
    late = source(broker, "times", tmp_path / "b", start="2030-01-01")
    assert late.batch() == []
    broker.produce("times", numbers(9))
    assert ns(late.batch()) == [9]


def test_expired_offsets_are_named(broker: Broker, tmp_path: Path) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    broker.create("expired")
    broker.produce("expired", numbers(*range(10)))
    reading = source(broker, "expired", tmp_path)
    assert ns(reading.batch(rows=2)) == [0, 1]
    plan = reading.plan()
    place, client = TopicPartition("expired", 0, 6), AdminClient({"bootstrap.servers": broker.servers})
    client.delete_records([place])[place].result(30)
    with pytest.raises(OffsetsLost, match="no longer there"):
        reading.read(plan)
    with pytest.raises(OffsetsLost, match="4 offsets were deleted"):
        reading.plan()
    again = source(broker, "expired", tmp_path, reading.offset, on_lost="earliest")
    assert ns(again.batch()) == [6, 7, 8, 9]


def test_gaps_of_a_compacted_topic_are_no_error(broker: Broker, tmp_path: Path) -> None:
    broker.create("compacted", cleanup_policy="compact", segment_ms="200", min_cleanable_dirty_ratio="0.01")
    for value in range(300):
        broker.produce("compacted", numbers(value), key=b"k%d" % (value % 3))
        if value % 100 == 0:
            time.sleep(0.3)  # so that segments are closed
    for _ in range(120):
        reading = source(broker, "compacted", tmp_path / "look", meta=["offset"])
        if len(found := reading.batch()) < 300:
            break
        time.sleep(0.5)
        broker.produce("compacted", numbers(0), key=b"other")
        shutil.rmtree(tmp_path / "look")
    else:
        pytest.fail("nothing was compacted in a minute")
    assert {297, 298, 299} <= set(ns(found))
    small = source(broker, "compacted", tmp_path / "small", meta=["offset"])
    rows = []
    while (plan := small.plan(rows=7)).ranges:
        rows += small.read(plan)
        small.offset = plan.offset
    offsets = [row["offset"] for row in rows]
    assert offsets == sorted(set(offsets))
    assert {297, 298, 299} <= set(ns(rows))


# -- whole queries


def fill(broker: Broker, batches: int) -> None:
    values = [b'{"k": %d, "n": %d}' % (n % 3, n) for n in range(batches * kafka_job.ROWS)]
    broker.produce(kafka_job.IN, values)


def check(broker: Broker, batches: int) -> None:
    """Every batch is in the topic, once, in order."""
    wanted = []
    for batch in range(batches):
        end = (batch + 1) * kafka_job.ROWS
        wanted += [{"k": k, "n": len(range(k, end, 3)), "total": sum(range(k, end, 3))} for k in range(3)]
    for _ in range(100):  # brokers end a transaction after they have said so
        got = [json.loads(message.value()) for message in read_topic(broker.servers, kafka_job.OUT)]
        if len(got) >= len(wanted):
            break
        time.sleep(0.05)
    assert got == wanted


def run_job(broker: Broker, folder: Path, step: str, batch: int) -> int:
    command = [sys.executable, str(JOB), broker.servers, str(folder), step, str(batch)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()[-3000:]
    return done.returncode


@pytest.mark.parametrize("notes", ["with its note", "without its note"])
def test_a_driver_that_is_killed_at_any_step_publishes_each_batch_once(
    broker: Broker, topics: None, tmp_path: Path, notes: str
) -> None:
    fill(broker, len(kafka_job.STEPS) + 1)
    for number, step in enumerate(kafka_job.STEPS):
        batch = 0 if step == "open" else number
        assert run_job(broker, tmp_path, step, batch) == -signal.SIGKILL, step
        if notes == "without its note":
            (tmp_path / "checkpoint/output/published.json").unlink(missing_ok=True)
    assert run_job(broker, tmp_path, "never", 0) == 0
    check(broker, len(kafka_job.STEPS) + 1)


@pytest.mark.parametrize("step", ["open", "prepare", "commit", "publish"])
def test_a_broker_that_is_killed_loses_and_doubles_nothing(
    broker: Broker, topics: None, tmp_path: Path, step: str
) -> None:
    fill(broker, 4)
    loop = kafka_job.job(broker.servers, tmp_path, timeout="3 s")

    def kill(name: str) -> None:
        if name == step and loop.batch in (0, 2):
            broker.kill()

    loop.first.on_step = kill
    with pytest.raises(HeadgateError, match="start the query again"):
        run_all(loop)
    broker.start()
    run_all(kafka_job.job(broker.servers, tmp_path))
    check(broker, 4)


def test_an_older_driver_that_wakes_up_publishes_nothing_twice(
    broker: Broker, topics: None, tmp_path: Path
) -> None:
    fill(broker, 3)
    old = kafka_job.job(broker.servers, tmp_path)
    old.open()
    old.step(0.0)
    asleep: list[Any] = []
    send = old.first.sink.publish

    def sleep(output: sinks.Output) -> None:
        rows = output.table()  # the new driver removes the files
        object.__setattr__(output, "table", lambda: rows)
        asleep.append(output)

    old.first.sink.publish = sleep
    old.step(0.0)
    run_all(kafka_job.job(broker.servers, tmp_path))
    send(asleep[0])
    check(broker, 3)


@pytest.mark.parametrize("step", ["commit", "transaction committed"])
def test_a_batch_that_the_brokers_have_forgotten_is_asked_about(
    broker: Broker, topics: None, tmp_path: Path, step: str
) -> None:
    from confluent_kafka.admin import AdminClient

    fill(broker, 3)
    assert run_job(broker, tmp_path, step, 1) == -signal.SIGKILL
    stage = json.loads((tmp_path / "checkpoint/headgate.json").read_text())["stage"]
    group, client = f"headgate/{stage}", AdminClient({"bootstrap.servers": broker.servers})
    if step == "transaction committed":
        check(broker, 2)
    client.delete_consumer_groups([group])[group].result(30)
    with pytest.raises(
        CheckpointMismatch, match=r"not known whether batch 1 .* first_batch=2 if it is there"
    ):
        run_all(kafka_job.job(broker.servers, tmp_path))
    first = 2 if step == "transaction committed" else 1
    run_all(kafka_job.job(broker.servers, tmp_path, first=first))
    check(broker, 3)


def test_a_checkpoint_that_was_deleted_is_noticed(broker: Broker, topics: None, tmp_path: Path) -> None:
    fill(broker, 2)
    run_all(kafka_job.job(broker.servers, tmp_path))
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(
        CheckpointMismatch, match=r"of an earlier query with the checkpoint .* which was deleted or replaced"
    ):
        run_all(kafka_job.job(broker.servers, tmp_path))
    check(broker, 2)


def test_a_time_out_of_transactions_that_brokers_refuse_is_named(broker: Broker, topics: None) -> None:
    sink = sinks.Kafka(broker.servers, kafka_job.OUT, options={"transaction.timeout.ms": 10_000_000})
    sink.own(Owner("long", "file:///none"))
    with pytest.raises(HeadgateError, match=r"(?i)transaction timeout|could not publish"):
        sink.publish(
            sinks.Output(0, None, (), SCHEMA, None, owner=Owner("long", "file:///none"))  # type: ignore[arg-type]
        )


def test_native_spark_reads_what_a_query_wrote_though_a_worker_died(
    broker: Broker, topics: None, tmp_path: Path, java_home: str
) -> None:
    connector = jars(
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
        alone=True,
    )
    values = [b'{"k": %d, "n": %d}' % (n % 7, n) for n in range(20_000)]
    producer = broker.producer(transactional_id="input")
    producer.init_transactions(30)
    for at in range(0, len(values), 5000):
        for aborted in (True, False):
            producer.begin_transaction()
            for value in values[at : at + 5000]:
                producer.produce(kafka_job.IN, value)
            producer.flush(30)
            producer.abort_transaction(30) if aborted else producer.commit_transaction(30)
    done = subprocess.run(
        [sys.executable, str(JOB.with_name("kafka_spark_job.py")), broker.servers, str(tmp_path), ",".join(connector)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[done.stderr.find("Traceback") :][:3000]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    assert said["died"]
    newest = {row["k"]: row for row in said["got"]}
    assert sorted(newest.values(), key=lambda row: row["k"]) == sorted(
        said["wanted"], key=lambda row: row["k"]
    )
    assert sum(row["n"] for row in said["wanted"]) == 20_000
