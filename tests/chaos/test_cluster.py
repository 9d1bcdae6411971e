"""A real standalone cluster: a master and two workers on loopback. Channels stay put; dead executors and
Python workers cost time, not rows.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("cluster_job.py")


@pytest.fixture
def master(java_home: str, tmp_path: Path) -> Iterator[str]:
    """The address of a running master with two one-core workers."""
    import pyspark

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    env = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "PYSPARK_PYTHON": sys.executable,
    }
    log = (tmp_path / "cluster.log").open("w")
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> None:
        started.append(
            subprocess.Popen(
                [str(spark_class), *arguments], env=env, stdout=log, stderr=log, start_new_session=True
            )
        )

    port = str(17000 + os.getpid() % 1000)
    url = f"spark://127.0.0.1:{port}"
    start("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
    for _ in range(2):
        worker = "org.apache.spark.deploy.worker.Worker"
        start(worker, "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g", url)
    deadline = time.monotonic() + 90
    while (tmp_path / "cluster.log").read_text().count("Registering worker") < 2:
        assert time.monotonic() < deadline, (tmp_path / "cluster.log").read_text()[-3000:]
        time.sleep(0.2)
    yield url
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
    log.close()


@pytest.mark.timeout(400)
@pytest.mark.full
@pytest.mark.parametrize("way", ["stage", "direct"])
def test_channels_stay_and_deaths_lose_nothing(master: str, tmp_path: Path, way: str) -> None:
    log = tmp_path / "job.log"
    with log.open("w") as file:
        job = subprocess.Popen(
            [sys.executable, str(SCRIPT), master, way, str(tmp_path)],
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            code = job.wait(timeout=330)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    assert code == 0, log.read_text()[-6000:]
    assert "exact answer" in log.read_text()
