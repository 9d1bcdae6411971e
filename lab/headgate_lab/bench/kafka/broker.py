"""A real broker: Apache Kafka in KRaft mode, one process. Maven resolves its jars."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any, Self

from headgate.errors import ConfigError, HeadgateError

KAFKA = "org.apache.kafka:kafka_2.13:4.1.0"
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""Spark's own connector, the newest that can be had, and what it needs; it runs on Spark 4.3 too."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>jars</artifactId><version>1</version>
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
"""


def jars(*names: str, alone: bool = False) -> list[str]:
    """The paths of jars and of all that they need, or of them alone."""
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigError(f"Maven (mvn) is not on PATH, and has to resolve {names[0]}")
    folder = Path(sys.prefix) / "jars" / names[0].replace(":", "_")
    listed = folder / "classpath"
    if not listed.exists():
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [_DEPENDENCY.format(*name.split(":"), _ALONE if alone else "") for name in names]
        (folder / "pom.xml").write_text(_POM.format("".join(wanted)), encoding="utf-8")
        command = [maven, "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=found"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ConfigError(
                f"Maven cannot resolve {names[0]}: {(done.stdout + done.stderr).strip()[-300:]}"
            )
        (folder / "found").rename(listed)
    return listed.read_text(encoding="utf-8").strip().split(os.pathsep)


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


class Broker:
    """One broker. `kill` is SIGKILL, and `start` brings it back with what it had written. As a `with` block it runs from
    the beginning of the block to its end.
    """

    def __init__(self, folder: Path, *options: str, settings: str = "") -> None:
        """`options` are those of Java, `settings` lines of Kafka's configuration."""
        folder.mkdir(parents=True, exist_ok=True)
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else "java"
        self._folder, self._log = folder, folder / "log"
        self._java = [java, *(options or ("-Xms1g", "-Xmx1g")), "-cp", os.pathsep.join(jars(KAFKA))]
        port = free_port()
        self.servers = f"127.0.0.1:{port}"
        self._config = folder / "server.properties"
        properties = _PROPERTIES.format(port=port, controller=free_port(), logs=folder / "logs")
        self._config.write_text(properties + settings, encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        name = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        storage = ["kafka.tools.StorageTool", "format", "-t", name, "-c", str(self._config)]
        with self._log.open("ab") as log:
            subprocess.run([*self._java, *storage], cwd=folder, stdout=log, stderr=log, check=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._config)], cwd=self._folder, stdout=log, stderr=log
            )
        client = self._admin()
        for _ in range(120):
            try:
                client.list_topics(timeout=1)
                return
            except Exception:
                if self._process.poll() is not None:
                    break
        self.kill()
        raise HeadgateError(f"the broker did not start: {self._log.read_text(encoding='utf-8')[-500:]}")

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _admin(self) -> Any:
        from confluent_kafka import admin

        return admin.AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Create a topic. A setting such as `retention.ms` is written `retention_ms`."""
        from confluent_kafka import admin

        named = {name.replace("_", "."): value for name, value in config.items()}
        new = admin.NewTopic(topic, partitions, 1, config=named)  # type: ignore[attr-defined]
        client = self._admin()  # it must live until the answer
        client.create_topics([new])[topic].result(30)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        client = self._admin()
        client.delete_topics([topic])[topic].result(30)
        while topic in client.list_topics(timeout=10).topics:
            time.sleep(0.1)
