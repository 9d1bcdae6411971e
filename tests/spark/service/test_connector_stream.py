"""Kafka streams of the service: the configuration of the page runs as it is written, and the process is killed in the middle."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.kafka_broker import Broker
from tests.kafka_mock import MockCluster

import headgate as hg
from headgate.errors import ConfigError
from headgate.service.batch.connector_stream import open_streams
from headgate.service.service import Service
from headgate.service.settings import Settings
from headgate.storage.store import Store

PAGE = (Path(__file__).parents[3] / "docs" / "operate" / "service.md").read_text()
PASSWORD = "correct-horse-battery"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer, TUMBLE(time, INTERVAL '10 seconds')"
LAST = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer, LAST 3 ROWS"


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    made = MockCluster()
    yield made
    made.close()


def documented(servers: str) -> str:
    (text,) = [block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.S) if 'format = "kafka"' in block]
    assert text.count("broker:9092") == 2
    return str(text.replace("broker:9092", servers).replace("SASL_SSL", "PLAINTEXT"))


class Process:
    """`headgate serve` in a folder, killed and started again as a test likes."""

    def __init__(self, folder: Path, config: str) -> None:
        self.folder = folder
        (folder / "kafka.toml").write_text(config)
        self.log = (folder / "serve.log").open("ab")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "headgate", "serve", "--folder", "service", "--port", str(self.port)]
        command += ["--no-demo", "--servers", "2", "--config", "kafka.toml"]
        environment = {**os.environ, "KAFKA_PASSWORD": PASSWORD}
        self.process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )
        token = self.folder / "service" / "token"
        self.wait(token.exists)
        self.client = hg.service.Client(f"http://127.0.0.1:{self.port}", token.read_text().strip())
        self.wait(self.ready)

    def ready(self) -> bool:
        with suppress(Exception):
            return bool(self.client.ready())
        return False

    def wait(self, until: Any) -> None:
        deadline = time.monotonic() + 120
        while not until():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)

    def said(self) -> str:
        return (self.folder / "serve.log").read_text()[-3000:]

    def taken(self) -> int:
        return int(self.client.status()["taken_rows"])

    def kill(self) -> None:
        self.client.close()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def answers(self, number: int) -> Counter[tuple[Any, ...]]:
        found: Counter[tuple[Any, ...]] = Counter()
        cursor = None
        while True:
            rows, cursor = self.client.results(number, cursor, 10_000)
            found.update(((row.get("window") or {}).get("start"), *row["values"].values()) for row in rows)
            if not rows:
                return found


def orders(count: int) -> list[dict[str, Any]]:
    return [
        {
            "customer": n * n % 7,
            "amount": n % 40 / 4,
            "at": (BEGIN + timedelta(milliseconds=20 * n)).isoformat(),
        }
        for n in range(count)
    ]


def watermark(rows: list[dict[str, Any]], delay_s: float = 5.0) -> datetime:
    return datetime.fromisoformat(rows[-1]["at"]) - timedelta(seconds=delay_s)


def windows(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The windows that the watermark has passed, by plain Python."""
    amounts: dict[tuple[datetime, int], list[float]] = {}
    for row in rows:
        at = datetime.fromisoformat(row["at"])
        start = at - timedelta(seconds=at.second % 10, microseconds=at.microsecond)
        amounts.setdefault((start, row["customer"]), []).append(row["amount"])
    return Counter(
        (start.isoformat().replace("+00:00", "Z"), customer, len(some), sum(some))
        for (start, customer), some in amounts.items()
        if start + timedelta(seconds=10) <= watermark(rows)
    )


def last_three(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The sums over the last three orders of a customer, for those that the watermark has passed."""
    seen: dict[int, list[float]] = {}
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        mine = seen.setdefault(row["customer"], [])
        mine.append(row["amount"])
        if datetime.fromisoformat(row["at"]) < watermark(rows):
            found[(None, row["customer"], sum(mine[-3:]))] += 1
    return found


def written_anywhere(folder: Path, text: str) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


def killed_and_started_again(brokers: Any, folder: Path, *, kills: int, count: int) -> None:
    """Orders are produced bit by bit. The service is killed while it reads them."""
    brokers.create("orders", 3)
    brokers.create("clicks-a")
    rows = orders(count)
    service = Process(
        folder, documented(brokers.servers).replace("[streams.clicks]", "max_rows = 400\n\n[streams.clicks]")
    )
    try:
        windowed, last = service.client.register(COUNT), service.client.register(LAST)
        clicked = service.client.register("SELECT topic, body, size FROM clicks")
        service.client.add_source("road", {"speed": "double"})
        pushed = service.client.register("SELECT speed FROM road")
        done, step = 0, count // (kills + 1)
        for kill in range(kills + 1):
            part = rows[done : done + step] if kill < kills else rows[done:]
            for partition in range(3):
                values = [json.dumps(row).encode() for row in part if row["customer"] % 3 == partition]
                brokers.produce("orders", values, partition)
            service.client.push("road", [{"time": "2026-01-01T00:00:00Z", "speed": float(kill)}])
            before, done = done, done + len(part)
            if kill < kills:
                service.wait(lambda before=before: service.taken() > before + 200)
                service.kill()
                service.start()
                if kill == 0:
                    brokers.produce("orders", [b"oh no"], 0)
                    brokers.produce("clicks-a", [b"a", b"bc"])
        total = count + kills + 1 + 2
        service.wait(lambda: service.taken() >= total)
        assert service.answers(windowed) == windows(rows)
        assert service.answers(last) == last_three(rows)
        assert service.answers(clicked) == Counter(
            {(None, "clicks-a", "a", 1): 1, (None, "clicks-a", "bc", 2): 1}
        )
        assert service.answers(pushed) == Counter({(None, float(kill)): 1 for kill in range(kills + 1)})
        assert service.taken() == total
        assert service.client.status()["failure"] is None
        service.wait((folder / "bad-orders").is_dir)
        (record,) = pq.read_table(folder / "bad-orders").to_pylist()
        assert record["value"] == b"oh no"
        assert written_anywhere(folder, PASSWORD) == []
    finally:
        with suppress(ProcessLookupError):
            service.kill()
        service.log.close()


@pytest.mark.full
@pytest.mark.timeout(400)
def test_the_documented_streams_run_and_a_kill_loses_and_doubles_nothing(
    cluster: MockCluster, tmp_path: Path
) -> None:
    killed_and_started_again(cluster, tmp_path, kills=1, count=3_000)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_same_with_a_real_broker(java_home: str, tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "work").mkdir()
    broker = Broker(tmp_path / "broker")
    try:
        killed_and_started_again(broker, tmp_path / "work", kills=3, count=20_000)
    finally:
        broker.kill()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"topics": "nowhere", "schema": "time timestamp, n long"},
            r"\[streams.s\]: .* there is no topic 'nowhere'",
        ),
        ({"topics": "here", "schema": "n long"}, "stream 's' has no column 'time' for its event time"),
        ({"topics": "here", "schema": "time timestamp, oops"}, r"\[streams.s\]: schema="),
        ({"topics": "here"}, r"\[streams.s\]: .*schema"),
        ({"topics": "here", "schema": "time timestamp"}, r"\[streams.s\]: a source has at least one column"),
        (
            {"topics": "here", "schema": "time timestamp, n long", "select": ["time", "nope"]},
            r"\[streams.s\]: .*nope",
        ),
        ({"topics": "here", "schema": "time timestamp, tags array<string>"}, "'tags' has type"),
        (
            {"topics": "here", "schema": "time timestamp, n long", "options": {"oh.no": 1}},
            r"\[streams.s\]: .*oh.no",
        ),
    ],
)
def test_a_stream_that_cannot_work_is_named(
    spark: Any, cluster: MockCluster, tmp_path: Path, section: dict[str, Any], message: str
) -> None:
    cluster.create("here")
    service = Service(Settings(tmp_path))
    try:
        with pytest.raises(ConfigError, match=message):
            open_streams(
                spark, service, {"s": {"format": "kafka", "servers": cluster.servers, **section}}, {}
            )
    finally:
        service.close()


def test_a_stream_of_avro_values(spark: Any, cluster: MockCluster, tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    fields: list[dict[str, Any]] = [
        {"name": "customer", "type": "long"},
        {"name": "amount", "type": "double"},
    ]
    fields.append({"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}})
    schema = {"type": "record", "name": "Order", "fields": fields}
    values = []
    for number in range(3):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {"customer": number, "amount": 0.5, "time": BEGIN})
        values.append(out.getvalue())
    cluster.create("orders")
    cluster.produce("orders", values)
    service = Service(Settings(tmp_path))
    section = {"format": "kafka", "servers": cluster.servers, "topics": "orders", "start": "earliest"}
    try:
        (stream,) = open_streams(
            spark, service, {"orders": {**section, "value": "avro", "schema": json.dumps(schema)}}, {}
        )
        stream.source.open(Store(str(tmp_path / "orders")))
        planned = stream.source.plan(None, hg.sources.Demand(100))
        slots = service.sources.by_name["orders"].kind.slots
        rows = stream.rows(planned.ranges).collect()
        assert [(row[slots["customer"]], row[slots["amount"]]) for row in rows] == [
            (0, 0.5),
            (1, 0.5),
            (2, 0.5),
        ]
    finally:
        service.close()
