"""The real service, as a process of its own on a real cluster: an executor and the driver are killed, and no answer changes."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.chaos.test_cluster import master  # noqa: F401  (a fixture)
from tests.sql.test_shared import FAMILIES, JOIN
from tests.sql.world import KIND, NAMES, asked, batches_of, named, oracle, plain, rows_of

import headgate as hg

QUERIES = 2_000


class Process:
    """`headgate serve` in a folder; killed and started again as a test likes."""

    def __init__(self, folder, where) -> None:
        self.folder, self.master = folder, where
        self.log = (folder / "serve.log").open("w")
        self.start()

    def start(self) -> None:
        self.port = 18620 + os.getpid() % 1000
        command = [
            sys.executable,
            "-m",
            "headgate",
            "serve",
            "--folder",
            str(self.folder / "service"),
            "--port",
            str(self.port),
        ]
        config = self.folder / "config.toml"
        config.write_text(
            '[spark]\n"spark.executor.cores" = "1"\n"spark.executor.memory" = "700m"\n"spark.driver.memory" = "1g"\n'
        )
        command += ["--no-demo", "--servers", "3", "--master", self.master, "--config", str(config)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True)
        token = self.folder / "service" / "token"
        self.wait(token.exists, 120)
        self.client = hg.service.Client(
            f"http://127.0.0.1:{self.port}", token.read_text().strip(), timeout=120
        )
        self.wait(self.client.ready, 120)

    def wait(self, until, seconds) -> None:
        deadline = time.monotonic() + seconds
        while not until():
            assert self.process.poll() is None, (self.folder / "serve.log").read_text()[-3000:]
            assert time.monotonic() < deadline, (self.folder / "serve.log").read_text()[-3000:]
            time.sleep(0.1)

    def kill(self) -> None:
        self.client.close()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self.log.close()


def executors():
    """Processes of executors."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.full
@pytest.mark.timeout(600)
def test_killing_an_executor_and_the_driver_changes_no_answer(master, tmp_path) -> None:  # noqa: F811
    rng = np.random.default_rng(11)
    drawn = []
    for _ in range(QUERIES):
        text, window = FAMILIES[rng.choice(sorted(FAMILIES))]
        source = int(rng.integers(3))
        text = text.format(s=NAMES[source], a=rng.integers(6), b=rng.choice(["-5", "0.25", "4", "7.5"]), c=rng.choice(["ash", "birch"]),
                           d=rng.integers(3), w=window[0] if window else "")  # fmt: skip
        drawn.append((text, window, source))
    joined = f"SELECT a.x, b.x {JOIN} WHERE a.x > 1"
    rows = rows_of(rng, 3000, seconds=120)
    service = Process(tmp_path, master)
    try:
        client = service.client
        client.add_sources([{"name": n, "columns": dict(KIND.columns), "delay_s": 5} for n in NAMES])
        numbers = client.register_many([text for text, _, _ in drawn])
        assert all(isinstance(number, int) for number in numbers)
        join = client.register(joined)
        pushed = 0
        for step, batch in enumerate(batches_of(rows, [800, 1600, 2400])):
            for source, name in enumerate(NAMES):
                events = [{**e, "time": e["time"].isoformat()} for e in named(batch, source).to_pylist()]
                pushed += service.client.push(name, events)
            if step == 1:
                os.kill(executors()[0], signal.SIGKILL)
            elif step == 2:
                time.sleep(1.0)
                service.kill()
                service.start()
            service.wait(lambda upto=pushed: service.client.status()["taken_rows"] >= upto, 180)
            if step == 0:
                assert service.client.lose_server(1) > 0
        assert service.client.status()["taken_rows"] == rows.num_rows
        assert service.client.status()["active"] == QUERIES + 1
        marks = {
            s: int(np.max(named(rows, s).column("time").cast("int64").to_numpy())) - 5_000_000
            for s in range(3)
        }
        expected = {}
        for number, (text, window, source) in zip(numbers, drawn, strict=True):
            if text not in expected:
                expected[text] = oracle(text, window, rows, source, marks[source])
            assert answers(service.client, number) == shown(expected[text]), text
        assert answers(service.client, join) == asked(joined, alpha=named(rows, 0), beta=named(rows, 1))
        service.client.close()
        service.process.terminate()
        assert service.process.wait(timeout=90) == 0, "asked to stop, it finishes its batch and ends"
    finally:
        service.end()


def answers(client, number):
    found: Counter[tuple[Any, ...]] = Counter()
    cursor = None
    while True:
        rows, cursor = client.results(number, cursor, 10_000)
        found.update(tuple(plain(v) for v in row["values"].values()) for row in rows)
        if not rows:
            return found


def shown(counter):
    return {
        tuple(v.isoformat() + "Z" if hasattr(v, "isoformat") else plain(v) for v in row): n
        for row, n in counter.items()
    }
