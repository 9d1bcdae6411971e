"""Kafka on Spark: the examples of the page run, and tasks read what the driver planned."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.kafka_mock import MockCluster

import headgate as hg
from headgate import agg
from headgate.errors import OffsetsLost, SourceFailed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "kafka.md").read_text()


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    made = MockCluster()
    yield made
    made.close()


def test_the_examples_of_the_page_run(
    spark: Any, cluster: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for topic in ("events", "clicks", "totals"):
        cluster.create(topic, 2 if topic == "events" else 1)
    rows = [{"user": n % 3, "amount": float(n), "at": "2026-01-01T12:00:00Z"} for n in range(30)]
    cluster.produce("events", [json.dumps(row).encode() for row in rows[:20]], 0)
    cluster.produce("events", [json.dumps(rows[20]).encode(), b"oh no"], 1)
    cluster.produce("events", [json.dumps(row).encode() for row in rows[21:]], 1)
    names: dict[str, Any] = {"__name__": "page"}
    before, _, rest = PAGE.partition("## Avro and Protobuf")  # see test_kafka_codecs.py
    blocks = re.findall(r"```python\n(.*?)```", before + rest.partition("## The sink")[2], re.S)
    for number, block in enumerate(blocks):
        text = block.replace("localhost:9092", cluster.servers)
        exec(compile(text, f"block {number} of docs/reference/kafka.md", "exec"), names)
    assert len(blocks) == 5
    wanted = {k: (10, sum(float(n) for n in range(k, 30, 3))) for k in range(3)}
    written = pq.read_table(tmp_path / "out/users").to_pylist()
    assert {row["user"]: (row["n"], row["total"]) for row in written} == {**wanted, 0: (9, wanted[0][1])}
    sent = {message.key(): json.loads(message.value()) for message in cluster.read("totals")}
    assert {int(key): (row["n"], row["total"]) for key, row in sent.items()} == wanted


def test_the_options_on_the_page_are_those_of_the_source() -> None:
    section = PAGE[PAGE.index("| option |") : PAGE.index("**Offsets.**")]
    listed = {
        name for cell in re.findall(r"^\| (`.*?) \|", section, re.M) for name in re.findall(r"`(\w+)`", cell)
    }
    assert listed == {*(hg.sources.Kafka.__init__.__kwdefaults__ or {}), "topics"}


def test_the_tests_that_the_page_names_are_there() -> None:
    assert all((ROOT / name).exists() for name in re.findall(r"`(tests/[\w/.]*)`", PAGE))


def test_a_query_goes_on_where_it_was(spark: Any, cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create("steps", 3)
    sink = hg.sinks.Memory()
    stream = (
        hg.read(spark)
        .kafka(cluster.servers, "steps", schema="k long", meta=["offset", "partition", "headers"], key="text")
        .key_by("k")
        .aggregate(n=agg.count(), last=agg.last("offset"))
    )
    for batch in range(3):
        for partition in range(3):
            cluster.produce("steps", [b'{"k": %d}' % partition] * 4, partition)
        stream.write(sink).start(str(tmp_path / "ckpt"), available_now=True, durable=False).await_end()
        newest = {k: (row["n"], row["last"]) for (k,), row in sink.latest("k").items()}
        assert newest == dict.fromkeys(range(3), (4 * batch + 4, 4 * batch + 3))


def test_errors_of_tasks_keep_their_names(spark: Any, cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create("bad")
    cluster.produce("bad", [b'{"k": 1}', b"oh no"])
    counts = (
        hg.read(spark).kafka(cluster.servers, "bad", schema="k long").key_by("k").aggregate(n=agg.count())
    )
    query = counts.write(hg.sinks.Memory()).start(str(tmp_path / "ckpt"), available_now=True, durable=False)
    with pytest.raises(SourceFailed, match="offset 1 of partition 0 of bad is not JSON"):
        query.await_end()
    cluster.delete_records("bad", 0, 2)
    query = counts.write(hg.sinks.Memory()).start(str(tmp_path / "ckpt"), available_now=True, durable=False)
    with pytest.raises(OffsetsLost, match="2 offsets were deleted"):
        query.await_end()
