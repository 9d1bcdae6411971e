"""A real broker for the long tests: Apache Kafka in KRaft mode, one process. Its jars are resolved
by name, through Maven.

Where Maven, Java or the jars cannot be reached, the tests that ask for a broker are skipped, and
say why.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin

KAFKA = "org.apache.kafka:kafka_2.13:4.1.0"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{}</dependencies>
</project>"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
)
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={logs}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=1000
log.cleaner.backoff.ms=500
"""


def jars(*names: str, alone: bool = False) -> list[str]:
    """The paths of jars and of all that they need, or of them alone; or a skipped test."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"needs Maven (mvn), to resolve {names[0]}")
    folder = Path(sys.prefix) / "jars" / names[0].replace(":", "_")
    listed = folder / "classpath"
    if not listed.exists():
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [_DEPENDENCY.format(*name.split(":"), _ALONE if alone else "") for name in names]
        (folder / "pom.xml").write_text(_POM.format("".join(wanted)))
        command = [maven, "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=found"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"Maven cannot resolve {names[0]}")
        (folder / "found").rename(listed)
    return listed.read_text().strip().split(os.pathsep)


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


class Broker:
    """One broker. `kill` is SIGKILL, and `start` brings it back with what it had written."""

    def __init__(self, java_home: str, folder: Path) -> None:
        self.folder = folder
        self._java = [
            f"{java_home}/bin/java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join(jars(KAFKA)),
        ]  # fmt: skip
        self.port = free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self._config = folder / "server.properties"
        self._config.write_text(
            _PROPERTIES.format(port=self.port, controller=free_port(), logs=folder / "logs")
        )
        name = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        self._run("kafka.tools.StorageTool", "format", "-t", name, "-c", str(self._config))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            [*self._java, *command], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._config)], cwd=self.folder, stdout=log, stderr=log
            )
        client = admin.AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        for _ in range(120):
            try:
                client.list_topics(timeout=1)
                return
            except Exception:
                assert self._process.poll() is None, (self.folder / "log").read_text()[-3000:]
        raise AssertionError("the broker did not start")

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        client = admin.AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        named = {name.replace("_", "."): value for name, value in config.items()}
        new = admin.NewTopic(topic, partitions, 1, config=named)  # type: ignore[attr-defined]
        client.create_topics([new])[topic].result(30)

    def delete(self, topic: str) -> None:
        client = admin.AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        client.delete_topics([topic])[topic].result(30)
        while topic in client.list_topics(timeout=10).topics:
            time.sleep(0.1)

    def producer(self, **config: Any) -> Any:
        from confluent_kafka import Producer

        named = {name.replace("_", "."): value for name, value in config.items()}
        return Producer({"bootstrap.servers": self.servers, "log_level": 0, **named})

    def produce(self, topic: str, values: list[bytes], partition: int = 0, **record: Any) -> None:
        producer = self.producer()
        for value in values:
            producer.produce(topic, value, partition=partition, **record)
        assert producer.flush(30) == 0
