"""What surrounds the drivers of `kafka_delta_kills`: the process that forks them, a Spark Connect server, its Python workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from tests.chaos.kafka_delta_job import Life

from headgate.spark.session import SETTINGS
from headgate_lab.bench.kafka.broker import free_port

JOB = Path(__file__).with_name("kafka_delta_job.py")


class Drivers:
    """Forks drivers that talk to a Spark Connect server (`kafka_delta_job.py serve`)."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "drivers.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(JOB), "serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
            )

    def start(self, life: Life) -> int:
        """A driver's process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(life.text() + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def wait(self) -> int:
        """The exit code of the driver."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def connect_server(folder: Path) -> Iterator[tuple[str, int]]:
    """A Spark Connect server: its address, and its process id. All drivers continue one session there: each session
    would load Python workers of its own.
    """
    port = free_port()
    settings = {
        **SETTINGS,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.log.level": "ERROR",
    }
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin/spark-submit"), "--master", "local[2,8]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True
        )
    try:
        yield f"sc://127.0.0.1:{port}/;user_id=drivers;session_id={uuid.uuid4()}", server.pid
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def workers_of(server: int) -> list[int]:
    """The Python workers of a Spark process: the children of its Python daemons."""
    children: dict[int, list[int]] = {}
    python = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue  # it has ended meanwhile
            children.setdefault(int(rest.split()[1]), []).append(int(entry.name))
            if "python" in name:
                python.add(int(entry.name))
    found, waiting = [], [server]
    while waiting:
        below = children.get(process := waiting.pop(), [])
        found += [child for child in below if process in python and child in python]
        waiting += below
    return found


def kill(process: int) -> bool:
    """Say whether the process was still there."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
