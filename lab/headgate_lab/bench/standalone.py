"""A standalone cluster of Spark on this machine: a master, and workers of one core each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.errors import HeadgateError

START_S = 120.0
WITH_PARENT = '"$@" & cat > /dev/null; kill -s KILL -- -$$'
"""A shell that runs a command, and ends it and all that it started when its standard input ends: so the kernel tells it
that the process which started it is gone, however that ended."""
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


@contextmanager
def standalone(folder: Path, workers: int = 2, memory: str = "1g") -> Iterator[str]:
    """The address of a running master; all its processes end with the block, and with this process if it is killed."""
    import pyspark

    folder.mkdir(parents=True, exist_ok=True)
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    env = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "PYSPARK_PYTHON": sys.executable,
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    url, log = f"spark://127.0.0.1:{port}", folder / "cluster.log"
    commands = [[MASTER, "--host", "127.0.0.1", "--port", port, "--webui-port", "0"]]
    one = [WORKER, "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", memory, url]
    commands += [one] * workers
    started = list[subprocess.Popen[bytes]]()
    try:
        with log.open("w") as out:
            for command in commands:
                started.append(
                    subprocess.Popen(
                        ["sh", "-c", WITH_PARENT, "sh", str(spark_class), *command],
                        env=env,
                        stdin=subprocess.PIPE,
                        stdout=out,
                        stderr=out,
                        start_new_session=True,
                    )
                )
            deadline = time.monotonic() + START_S
            while log.read_text().count("Registering worker") < workers:
                if time.monotonic() > deadline:
                    raise HeadgateError(f"the cluster did not start in {START_S:g} s; its log is {log}")
                time.sleep(0.2)
            yield url
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
